"""What a reader sees first: the head that the page opens at, its words, its scales, and that a box has more below."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.look import packed
from headway.look.record import Look, Measures
from tests.browser import browser
from tests.look.example import Shape, example
from tests.look.web.shown import Shown, percent


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


def measured(look: Look, found: dict[tuple[int, int], tuple[str, float, float]]) -> Look:
    """The record with these roles, their shares and chances; all other heads are broad."""

    def one(layer: int, place: int) -> Measures:
        role, share, chance = found.get((layer, place), ("broad", 0.0, 0.0))
        return Measures(0.5, 1.0, 0.5, {role: share} if share else {}, {role: chance} if share else {}, role)

    layers = [
        replace(layer, measures=tuple(one(at, place) for place in range(len(layer.heads))))
        for at, layer in enumerate(look.layers)
    ]
    return replace(look, layers=tuple(layers))


def ruled(layers: int) -> Look:
    """Rules on 5 x 7 patches: each patch may see all."""
    look = example(grid=(5, 7), shape=Shape(layers, 1))
    side = replace(look.sides[0], name="patches", tokens=look.sides[0].tokens[1:], special=(), extra=0)
    uniform = packed.weights(np.full((1, 35, 35), 1 / 35))
    made = [
        replace(layer, name="all pairs", kind="pattern", label=f"full {at}", rows=(0, 35), data=uniform)
        for at, layer in enumerate(look.layers)
    ]
    return measured(replace(look, sides=(side,), layers=tuple(made)), {})


def test_the_page_opens_at_the_head_that_stands_out_the_most(chromium: Any, tmp_path: Path) -> None:
    found = {
        (0, 1): ("first", 0.95, 0.05),  # what a head does that has nothing to say
        (1, 2): ("next", 0.9, 0.5),
        (23, 1): ("previous", 0.7, 0.1),
        (28, 0): ("same word", 0.6, 0.05),
    }
    with Shown(chromium, tmp_path, measured(example(shape=Shape(29, 3)), found)) as shown:
        assert shown.state("layer", "place", "row") == [23, 1, 10]
        cell, box = (shown.page.locator(one).bounding_box() for one in (".look-cell.chosen", ".look-grids"))
        assert box["y"] <= cell["y"] and cell["y"] + cell["height"] <= box["y"] + box["height"]
        assert shown.page.input_value(".first .look-chooser select >> nth=0") == "23"
    with Shown(chromium, tmp_path, measured(example(), {(2, 2): ("first", 0.9, 0.1)})) as shown:
        assert shown.state("layer", "place") == [0, 0] and shown.quiet()


WORDS = """() => [...document.querySelectorAll('#heads, #heads *')].filter(one => one.checkVisibility()).flatMap(one =>
  [one.ariaLabel, one.title, ...[...one.childNodes].filter(node => node.nodeType === 3).map(node => node.data)])"""


def test_a_rule_has_no_heads_and_patches_are_no_tokens(chromium: Any, tmp_path: Path) -> None:
    with Shown(chromium, tmp_path, ruled(3)) as shown:
        assert "35 patches alike, each 2.9 %" in shown.status()
        assert shown.page.inner_text("#look-patches .column figcaption") == "full 0 attends to"
        for name in ("reach", "map"):
            shown.page.select_option("#look-show", name)
            shown.press("?")
            said = [text for text in shown.page.evaluate(WORDS) if text]
            assert [text for text in said if re.search(r"\b(heads?|layers?|tokens?)\b", text, re.I)] == []
            assert "the patch before, the patch after" in said and shown.quiet()
            shown.press("Escape")


PIXEL = """([pane, y, x]) => [...document.querySelector(`.${pane} .look-frame canvas`).getContext('2d')
  .getImageData(x, y, 1, 1).data]"""


def test_two_heads_beside_each_other_share_their_scale(chromium: Any, tmp_path: Path) -> None:
    rows = np.zeros((2, 11, 11))
    rows[0, :, :3], rows[1, :, :4] = (0.25, 0.25, 0.5), 0.25
    look = example(shape=Shape(1, 2))
    look = replace(look, layers=(replace(look.layers[0], data=packed.weights(rows)),))

    def scales() -> list[str]:
        return shown.page.locator(".look-scale:visible span:last-child").all_inner_texts()

    def pixel(pane: str, key: int) -> list[int]:
        return shown.page.evaluate(PIXEL, [pane, 5, key])

    with Shown(chromium, tmp_path, look) as shown:
        shown.page.evaluate("() => Look.set({place: 1, row: 5})")
        shown.settle()
        alone = pixel("first", 1)
        assert scales() == [percent(0.25)]
        shown.page.click("#look-compare")
        shown.settle()
        assert scales() == [percent(0.5)] * 2
        assert pixel("first", 1) == pixel("second", 1) != alone and pixel("second", 2) == alone
        for token, box in (("look-token", ".look-text"), ("look-end", ".answers")):
            heat = shown.page.locator(f".look-pane {box} .{token}[data-at='1']").evaluate_all(
                "all => all.map(one => Number(one.style.getPropertyValue('--weight')))"
            )
            assert heat[0] == heat[1] == pytest.approx(0.5**0.5, abs=0.02)
        shown.page.click("#look-close")
        shown.settle()
        assert scales() == [percent(0.25)] and pixel("first", 1) == alone
        assert "own largest weight" in shown.page.inner_text(".look-legend")


def test_small_shares_have_decimals(chromium: Any, tmp_path: Path) -> None:
    shares = {(0, 0): 0.342, (0, 1): 0.0342, (0, 2): 0.00342, (1, 0): 0.0997, (1, 1): 0.00996}
    look = measured(example(shape=Shape(2, 3)), {at: ("next", share, 0.1) for at, share in shares.items()})
    with Shown(chromium, tmp_path, look) as shown:
        told = shown.page.locator("#look-roles .views td").all_inner_texts()
        assert told == ["34", "3.4", "0.34", "10", "1.0", "–"]


SCROLLED = """([name, to]) => new Promise(done => {
  const box = document.querySelector(name);
  if (to !== null) box.scrollTop = to;
  requestAnimationFrame(() => requestAnimationFrame(() => done([box.scrollHeight - box.clientHeight, box.clientHeight,
    ...["above", "below"].map(end => box.classList.contains("more-" + end))])));
})"""


def test_a_box_fades_where_there_is_more_of_it(chromium: Any, tmp_path: Path) -> None:
    with Shown(chromium, tmp_path, ruled(6), width=390) as shown:
        more, _, *fades = shown.page.evaluate(SCROLLED, [".look-grids", None])
        assert more == 0 and fades == [False, False]
    with Shown(chromium, tmp_path, example(length=34, shape=Shape(41, 1)), width=390) as shown:
        for name, row in ((".look-grids", 1), (".look-field", 22)):
            more, height, *fades = shown.page.evaluate(SCROLLED, [name, 0])
            assert more > 10 and fades == [False, True]
            assert height % row == 0  # no label is cut in half
            assert shown.page.evaluate(SCROLLED, [name, 9999])[2:] == [True, False]
        assert shown.quiet()
