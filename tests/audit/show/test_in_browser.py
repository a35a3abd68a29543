"""The page of an audit as a reader sees it: in a real browser, narrow and wide, light and dark."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headway.audit.html import document
from headway.audit.report import Report
from tests.audit.show.reports_by_hand import SENTENCES, deep, everything, hostile
from tests.browser import Opened, browser


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.mark.parametrize("make", [everything, hostile, deep])
@pytest.mark.parametrize(("width", "dark"), [(375, True), (1100, False)])
def test_it_opens_quietly(chromium: Any, tmp_path: Path, make: Callable[[], Report], width: int, dark: bool) -> None:
    path = tmp_path / "audit.html"
    path.write_text(document(make(), SENTENCES), encoding="utf-8")
    with Opened(chromium, path, width=width, dark=dark) as seen:
        for part in seen.page.locator("details").all():
            part.evaluate("part => part.open = true")
        assert seen.quiet() and not seen.overflows()


def test_a_strip_can_be_read(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    path.write_text(document(everything(), SENTENCES), encoding="utf-8")
    with Opened(chromium, path, width=375) as seen:
        boxes = seen.page.locator("#law-causal .strip").nth(1).locator("li")
        places = [one.bounding_box() for one in boxes.all()]
        assert [one.inner_text().split() for one in boxes.all()][4] == ["␣the", "4", "!"]
        assert all(one["height"] > 25 and one["width"] >= 32 for one in places)
        shades = [one.evaluate("box => getComputedStyle(box).backgroundColor") for one in boxes.all()]
        assert shades[0] == shades[1] and len(set(shades[2:5])) == 3  # the worse the deviation, the stronger
        assert boxes.nth(4).get_attribute("title") == "4: ␣the (result deviates, deviation 3.1e-01)"


def test_the_row_runs_from_left_to_right_whatever_it_says(chromium: Any, tmp_path: Path) -> None:
    path = tmp_path / "audit.html"
    path.write_text(document(hostile(), SENTENCES), encoding="utf-8")
    with Opened(chromium, path) as seen:
        boxes = seen.page.locator("#law-causal .strip li")
        arabic, hebrew, long = (boxes.nth(place).bounding_box() for place in (3, 4, 5))
        assert (arabic["y"], arabic["x"]) < (hebrew["y"], hebrew["x"]) < (long["y"], long["x"])
