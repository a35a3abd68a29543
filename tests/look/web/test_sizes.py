"""The page with texts that could do harm, on a phone, in the dark, on paper, with a thousand tokens."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.look.page import document, section
from headway.render import legible
from tests.browser import browser
from tests.look.example import Shape, example
from tests.look.web.shown import Shown, near, percent
from tests.render.parsed import Parsed

NASTY = [
    "<script>alert(1)</script>",
    "</script>",
    "<b>",
    "שלום",
    "👩\u200d👧",
    "a\nb",
    "\u202eno",
    "x" * 80,
    "",
    '"&amp;',
]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


def test_text_stays_text(chromium: Any, tmp_path: Path) -> None:
    look = example(NASTY, lens=True)
    with Shown(chromium, tmp_path, replace(look, title="<i>", notes=("<script>",))) as shown:
        texts = shown.page.evaluate(
            "() => [...document.querySelectorAll('.first .look-token span')].map(t => t.textContent)"
        )
        assert texts == [legible(token) for token in NASTY]
        shown.point(1)
        assert shown.page.locator("#heads script:not([type])").count() == 0
        assert shown.page.locator("h1 i, #look b b").count() == 0 and shown.quiet()
    blocks = Parsed(document(look))
    assert blocks.tags["script"] == 2 + 1 + len(look.layers)


@pytest.mark.parametrize("kind", ["text", "two texts", "patches", "two heads"])
def test_a_phone_needs_no_scrolling_sideways(chromium: Any, tmp_path: Path, kind: str) -> None:
    looks = {
        "text": lambda: example(length=29, shape=Shape(12, 12), lens=True),
        "two texts": lambda: example(cross=True),
        "patches": lambda: example(grid=(3, 7)),
        "two heads": lambda: example(NASTY, lens=True),
    }
    with Shown(chromium, tmp_path, looks[kind](), width=390, dark=kind == "text") as shown:
        if kind == "two heads":
            shown.page.click("#look-compare")
        shown.settle()
        assert not shown.overflows() and shown.quiet()


def test_a_hundred_and_forty_four_heads_fit_a_desktop(chromium: Any, tmp_path: Path) -> None:
    with Shown(chromium, tmp_path, example(shape=Shape(12, 12)), width=1280) as shown:
        wide = shown.page.evaluate(
            "() => { const box = document.querySelector('.look-grids'); return box.scrollWidth - box.clientWidth; }"
        )
        assert wide <= 0 and not shown.overflows()


def test_lightness_tells_large_from_small_in_light_dark_and_on_paper(chromium: Any, tmp_path: Path) -> None:
    look = example()
    weights = np.array([look.layers[0].data.row(0, row) for row in range(11)]).ravel()
    script = (
        "() => { const c = document.querySelector('.first .look-frame canvas');"
        " return [...c.getContext('2d').getImageData(0, 0, c.width, c.height).data]; }"
    )
    with Shown(chromium, tmp_path, look) as shown:
        for settings, sign in (
            ({"color_scheme": "light"}, -1),
            ({"color_scheme": "dark"}, 1),
            ({"media": "print"}, -1),
        ):
            shown.page.emulate_media(**settings)
            shown.settle()
            pixels = np.array(shown.page.evaluate(script)).reshape(-1, 4)[:, :3] @ [0.2126, 0.7152, 0.0722]
            assert len(pixels) == 121
            ordered = pixels[np.argsort(weights, kind="stable")] * sign
            assert (np.diff(ordered) > -1).all() and ordered[-1] - ordered[0] > 100


def test_a_thousand_tokens_are_shown_in_windows(chromium: Any, tmp_path: Path) -> None:
    look = example(length=997, shape=Shape(2, 3, factors=True, causal=True))
    with Shown(chromium, tmp_path, look) as shown:
        assert shown.page.locator("#heads *").count() < 2500
        shown.until("() => Number(document.querySelector('.first .look-frame canvas').dataset.read) === 997")
        shown.page.click(".look-pages button:first-child")
        shown.point(700)
        row = look.layers[0].data.row(0, 700)
        assert shown.numbers()[0][1:] == [str(row.argmax()), percent(row.max())]
        shown.press("d")
        shown.until("() => !Look.partial()")
        shown.settle()
        column = np.array([look.layers[0].data.row(0, at)[700] for at in range(997)])
        assert shown.numbers()[0][1:] == [str(column.argmax()), percent(column.max())]
        assert near(shown.numbers()[-1][2], column.sum() - np.sort(column)[-8:].sum()) and shown.quiet()


def test_a_rule_has_no_roles() -> None:
    look = example()
    made = section(replace(look, layers=tuple(replace(layer, kind="pattern") for layer in look.layers)))
    assert made.title == "Patterns" and "look-roles" not in made.html
    assert section(look).title == "Heads" and "look-roles" in section(look).html


def test_a_record_without_layers_says_so() -> None:
    made = section(replace(example(), layers=()))
    assert "No attention ran here" in made.html and not made.script
