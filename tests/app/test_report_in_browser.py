"""The report as a reader sees it: in a real browser, from a file, without a network."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from headway.app.report import report
from headway.app.runs import document, find_runs
from tests.app.runs_by_hand import HOSTILE, make_run, rows
from tests.browser import Opened, browser

LIGHT, DARK = "rgb(251, 251, 250)", "rgb(20, 23, 28)"


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    lines = [*rows(), {"kind": "sample", "step": 2000, "prompt": HOSTILE, "text": HOSTILE + "x" * 3000}]
    return report(make_run(tmp_path_factory.mktemp("runs"), lines=[*lines, lines[-2]], model=True))


@pytest.mark.parametrize("width", [400, 760, 1100])
@pytest.mark.parametrize("dark", [False, True])
def test_it_opens_quietly_at_every_width(chromium: Any, place: Path, width: int, dark: bool) -> None:
    with Opened(chromium, place, width=width, dark=dark) as seen:
        assert seen.quiet() and not seen.overflows()
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == (DARK if dark else LIGHT)
        for part in seen.page.locator("details").all():
            part.evaluate("part => part.open = true")
        assert not seen.overflows()


def test_the_pointer_shows_values(chromium: Any, place: Path) -> None:
    with Opened(chromium, place) as seen:
        field = seen.page.locator(".field").first
        box = field.locator(".readout")
        assert not box.is_visible()
        wide, high = field.bounding_box()["width"], field.bounding_box()["height"]
        field.hover(position={"x": 0.2 * wide, "y": 0.5 * high})
        assert box.is_visible()
        loss = next(row for row in rows() if row["kind"] == "validation" and row["step"] == 400)["loss"]
        assert box.locator("b").inner_text() == "step 400"
        assert f"validation{loss:.4f}".replace("\n", "") in box.inner_text().replace("\n", "").replace(" ", "")
        dot = field.locator(".point").nth(1).bounding_box()
        assert dot["x"] + dot["width"] / 2 - field.bounding_box()["x"] == pytest.approx(0.2 * wide, abs=2)
        low, top = (float(field.get_attribute(f"data-{name}")) for name in ("low", "high"))
        height = dot["y"] + dot["height"] / 2 - field.bounding_box()["y"]
        assert height == pytest.approx(high * (top - loss) / (top - low), abs=2)
        seen.page.mouse.move(0, 0)
        assert not box.is_visible() and seen.quiet()


def test_the_arrow_keys_do_too(chromium: Any, place: Path) -> None:
    with Opened(chromium, place) as seen:
        field = seen.page.locator(".field").first
        field.focus()
        said = []
        for key in ("End", "ArrowLeft", "Home", "ArrowLeft", "ArrowRight"):
            seen.page.keyboard.press(key)
            said.append(field.locator(".readout b").inner_text())
        assert said == ["step 2,000", "step 1,990", "step 10", "step 10", "step 20"]
        seen.page.keyboard.press("Escape")
        assert not field.locator(".readout").is_visible()


def test_the_read_out_stays_on_a_narrow_page(chromium: Any, place: Path) -> None:
    with Opened(chromium, place, width=400) as seen:
        field = seen.page.locator(".field").first
        wide = field.bounding_box()["width"]
        for share in (0.02, 0.3, 0.49, 0.51, 0.98):
            field.hover(position={"x": share * wide, "y": 20})
            box = field.locator(".readout").bounding_box()
            assert box["x"] >= 0 and box["x"] + box["width"] <= 400 and not seen.overflows()


def test_the_axis_can_be_logarithmic(chromium: Any, place: Path) -> None:
    with Opened(chromium, place) as seen:
        figure = seen.page.locator("figure.chart").first
        linear, log = figure.locator(".plot:not(.log)"), figure.locator(".plot.log")
        assert linear.is_visible() and not log.is_visible()
        figure.locator("input").check()
        assert log.is_visible() and not linear.is_visible()
        log.locator(".field").hover(position={"x": 300, "y": 50})
        assert log.locator(".readout").is_visible()


def test_labels_of_an_axis_do_not_touch(chromium: Any, place: Path) -> None:
    with Opened(chromium, place, width=400) as seen:
        for axis in seen.page.locator(".plot:not(.log) .x").all():
            spans = [one.bounding_box() for one in axis.locator("span").all() if one.is_visible()]
            for one, other in pairwise(spans):
                assert one["x"] + one["width"] < other["x"]


def test_hostile_text_is_text(chromium: Any, place: Path) -> None:
    with Opened(chromium, place) as seen:
        assert seen.page.locator("script").count() == 1
        assert '</script><script>alert("x")</script>' in seen.page.locator("pre.sample").nth(2).inner_text()
        assert seen.page.locator("pre.sample").first.inner_text().startswith("KING:\n")


def test_on_paper_everything_is_open_and_light(chromium: Any, place: Path) -> None:
    with Opened(chromium, place, dark=True) as seen:
        seen.page.emulate_media(media="print", color_scheme="dark")
        seen.page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert seen.page.locator("details:not([open])").count() == 0
        assert seen.page.evaluate("getComputedStyle(document.body).backgroundColor") == LIGHT
        seen.page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert seen.page.locator("details:not([open])").count() > 0
        assert len(seen.page.pdf()) > 10_000


@pytest.mark.parametrize("count", [0, 1, 2, 30])
def test_young_runs(chromium: Any, tmp_path: Path, count: int) -> None:
    with Opened(chromium, report(make_run(tmp_path, lines=rows()[:count])), width=400) as seen:
        assert seen.quiet() and not seen.overflows()
        if count > 1:
            seen.page.locator(".field").first.hover()
            assert seen.page.locator(".readout").first.is_visible()


def test_a_comparison_opens_too(chromium: Any, tmp_path: Path) -> None:
    for place in range(3):
        make_run(tmp_path / "runs", f"run-with-quite-a-long-name-{place}", rows(seed=place), batch=12 + place)
    page = tmp_path / "all.html"
    page.write_text(document(find_runs([tmp_path / "runs"])), encoding="utf-8")
    with Opened(chromium, page, width=400) as seen:
        seen.page.locator(".field").first.hover()
        assert seen.page.locator(".readout").first.locator("div").count() == 3
        assert seen.quiet() and not seen.overflows()
