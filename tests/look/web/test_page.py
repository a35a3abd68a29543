"""The page in a real browser: the numbers that it shows, the pointer, the keys, two heads."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headway.look import packed
from headway.look.record import Look
from tests.browser import browser
from tests.look.example import SENTENCE, SOURCE, Shape, example
from tests.look.web.shown import Shown, near, percent


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


def with_data(*data: packed.Factors | packed.Weights, rows: tuple[int, int]) -> Look:
    made = example(length=11, shape=Shape(1, 3))
    return replace(made, layers=tuple(replace(made.layers[0], data=one, rows=rows) for one in data))


def test_computes_the_same_weights_as_the_record(chromium: Any, tmp_path: Path) -> None:
    draw = np.random.default_rng(3)
    q, k = draw.normal(size=(3, 7, 5)), draw.normal(size=(3, 11, 5))
    cases = [
        packed.weights(draw.dirichlet(np.ones(11), (3, 7))),
        packed.factors(q, k, causal=True, first=4),
        packed.factors(3 * q, k, softcap=2.5, bias=draw.normal(size=(3, 17))),
        packed.factors(q, k, allowed=draw.random((3, 7, 11)) < 0.3),
        packed.factors(q, k, allowed=draw.random((1, 7, 11)) < 0.1),
    ]
    with Shown(chromium, tmp_path, with_data(*cases, rows=(4, 7))) as shown:
        for layer, data in enumerate(cases):
            wanted = np.stack([[data.row(head, row) for row in range(7)] for head in range(3)])
            columns = shown.page.evaluate(
                "at => [0, 1, 2].map(head => [0, 3, 9].map(key => [...Look.column(at, head, key).values].slice(4)))",
                layer,
            )
            np.testing.assert_allclose(columns, np.moveaxis(wanted[:, :, [0, 3, 9]], 1, 2), atol=2e-7)
            rows = shown.page.evaluate(
                "at => [0, 1, 2].map(head => [4, 5, 6, 7, 8, 9, 10].map(row => [...Look.weights(at, head, row)]))",
                layer,
            )
            np.testing.assert_allclose(rows, wanted, atol=2e-7)
        assert shown.page.evaluate("() => Look.weights(0, 0, 3)") is None and shown.quiet()


def test_pointing_at_a_token_shows_its_numbers(chromium: Any, tmp_path: Path) -> None:
    look = example()
    with Shown(chromium, tmp_path, look) as shown:
        for at in (7, 1):
            shown.point(at)
            row = look.layers[0].data.row(0, at)
            order = np.argsort(-row, kind="stable")[:8]
            table = shown.numbers()
            assert [int(line[1]) for line in table[:-1]] == order.tolist()
            assert [line[2] for line in table[:-1]] == [percent(float(row[key])) for key in order]
            assert table[-1][0] == "3 others, together"
            assert near(table[-1][2], float(np.delete(row, order).sum()))
            best = int(order[0])
            assert shown.status() == f"{SENTENCE[at]} attends most to {SENTENCE[best]} {percent(row[best])}"
            under = shown.page.inner_text(f".first .look-token[data-at='{best}'] small")
            assert under == f"{round(100 * row[best])}%"
        assert shown.quiet()


def test_a_click_pins_and_the_other_end_is_read_off(chromium: Any, tmp_path: Path) -> None:
    look = example()
    with Shown(chromium, tmp_path, look) as shown:
        shown.page.click(".first .look-token[data-at='7']")
        shown.point(6)
        weight = float(look.layers[0].data.row(0, 7)[6])
        assert shown.state("row", "column", "pinned") == [7, 6, True]
        assert shown.status() == f"it → because {percent(weight)}pinned"
        assert percent(weight) in shown.page.inner_text(".first .look-readout")
        shown.press("Escape")
        shown.point(2)
        assert shown.state("row", "pinned") == [2, False]


def test_the_other_direction_shows_the_column(chromium: Any, tmp_path: Path) -> None:
    look = example()
    with Shown(chromium, tmp_path, look) as shown:
        shown.point(4)
        shown.page.click("[data-direction=from]")
        shown.settle()
        column = np.array([look.layers[0].data.row(0, row)[4] for row in range(11)])
        assert shown.state("direction", "column", "row") == ["from", 4, None]
        assert shown.numbers()[0][1:] == [str(column.argmax()), percent(column.max())]
        assert "is attended most by" in shown.status()


def test_lines_and_map_follow_the_pointer(chromium: Any, tmp_path: Path) -> None:
    look = example(cross=True, shape=Shape(1, 2))
    cross = look.layers[2]
    with Shown(chromium, tmp_path, look, width=1280) as shown:
        shown.page.click(".look-cell[data-layer='2'][data-place='1']")
        shown.page.hover(".first .asks [data-at='3']")
        shown.settle()
        row = cross.data.row(1, 3)
        drawn = shown.page.evaluate(
            "() => [...document.querySelectorAll('.first g:not(.base) path')].map(p => p.dataset.key)"
        )
        assert sorted(map(int, drawn)) == np.flatnonzero(row >= 0.001).tolist()
        shown.page.hover(".first .answers [data-at='5']")
        shown.settle()
        assert shown.state("direction", "column") == ["from", 5]
        frame = shown.page.locator(".first .look-frame")
        frame.scroll_into_view_if_needed()
        area = frame.bounding_box()
        best = int(cross.data.row(1, 8).argmax())
        # 11 rows, 12 columns: the middle of a cell
        shown.page.mouse.move(area["x"] + area["width"] * (best + 0.5) / 12, area["y"] + area["height"] * 8.5 / 11)
        shown.settle()
        assert shown.state("row", "column") == [8, best]
        told = f"was → {SOURCE[best]} {percent(float(cross.data.row(1, 8).max()))}"
        assert shown.page.inner_text(".first .look-readout") == told and shown.quiet()


def test_every_part_has_its_keys(chromium: Any, tmp_path: Path) -> None:
    with Shown(chromium, tmp_path, example()) as shown:
        shown.press("ArrowLeft", "ArrowLeft", "]", "}")
        assert shown.state("row", "place", "layer") == [8, 1, 1]
        shown.press("[", "[", "{", "d")
        assert shown.state("place", "layer", "direction", "column") == [2, 0, "from", 8]
        shown.press("c", "?")
        assert shown.state("other") == [{"layer": 0, "place": 0}]
        assert shown.page.is_visible("#look-keys")
        shown.press("Escape")
        assert not shown.page.is_visible("#look-keys") and shown.state("other") != [None]
        shown.press("Escape")
        assert shown.state("other") == [None]


def test_the_overview_is_a_grid_for_arrow_keys(chromium: Any, tmp_path: Path) -> None:
    with Shown(chromium, tmp_path, example()) as shown:
        shown.page.focus(".look-cell.chosen")
        shown.press("ArrowDown", "ArrowDown", "ArrowRight", "Enter")
        assert shown.state("layer", "place") == [2, 1]
        shown.press("ArrowRight", "c", "ArrowRight")
        assert shown.state("other", "place") == [{"layer": 2, "place": 2}, 1]
        assert shown.page.get_attribute(".look-cell.beside", "aria-label").startswith("Layer 3, head 2: ")
        assert shown.page.locator(".look-cell[tabindex='0']").count() == 1
        shown.page.click(".look-cell[data-layer='3'][data-place='0']", modifiers=["Shift"])
        shown.settle()
        assert shown.state("other") == [{"layer": 3, "place": 0}]
        shown.page.select_option("#look-show", "entropy")
        cell = shown.page.inner_text(".look-cell[data-layer='1'][data-place='2']")
        assert cell == f"{example().layers[1].measures[2].entropy:.2f}"


def test_two_heads_stand_beside_each_other_with_the_difference(chromium: Any, tmp_path: Path) -> None:
    look = example()
    one, two = (look.layers[0].data.row(head, 7) for head in (0, 1))
    with Shown(chromium, tmp_path, look) as shown:
        shown.page.click("#look-compare")
        shown.point(7)
        best = int(np.maximum(one, two).argmax())
        first = shown.numbers()[0]
        assert first[1:4] == [str(best), percent(one[best]), percent(two[best])]
        assert first[4] == ("+" if two[best] > one[best] else "−") + percent(abs(two[best] - one[best]))
        shaded = shown.page.evaluate(
            "at => [...document.querySelectorAll(`.look-token[data-at='${at}']`)]"
            ".map(token => Number(token.style.getPropertyValue('--weight')))", best
        )  # fmt: skip
        assert len(shaded) == 2 and shaded[1] == 1 and shaded[0] < 0.2
        shown.page.click("#look-close")
        shown.settle()
        assert shown.page.locator(".look-pane:visible").count() == 1


def test_heads_of_other_tokens_are_not_compared(chromium: Any, tmp_path: Path) -> None:
    with Shown(chromium, tmp_path, example(cross=True, shape=Shape(1, 2))) as shown:
        shown.page.click(".look-cell[data-layer='2'][data-place='0']", modifiers=["Shift"])
        shown.settle()
        assert shown.state("other") == [None] and "cannot be compared" in shown.page.inner_text("#look-hint")


def test_rows_that_were_not_kept_are_said_to_be_so(chromium: Any, tmp_path: Path) -> None:
    data = packed.weights(np.random.default_rng(5).dirichlet(np.ones(11), (3, 2)))
    with Shown(chromium, tmp_path, with_data(data, rows=(4, 2))) as shown:
        assert shown.state("row") == [5]
        shown.press("ArrowRight", "ArrowRight")
        shown.point(9)
        assert shown.state("row") == [5]
        shown.press("ArrowLeft", "ArrowLeft")
        assert shown.state("row") == [4] and shown.quiet()
