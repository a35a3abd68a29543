"""Charts: every point in its place, gaps that stay gaps, axes that can be read."""

import json
import re
from math import inf, log10, nan

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from headway.render import Series, line_chart, smoothed, thinned
from headway.render.axis import labels, log_ticks, ticks
from headway.render.chart import SIZE, TONES
from tests.render.parsed import Parsed

NUMBERS = st.floats(-1e30, 1e30)


def paths(html: str, kind: str = "curve") -> list[str]:
    return re.findall(rf'<path class="{kind} [^"]*" d="([^"]*)"', html)


def test_points_stand_where_they_belong() -> None:
    (path,) = paths(line_chart("t", [Series("a", [(0, 0.0), (3, 5.0), (4, 10.0)])]))
    room, height = 0.5, 11.0
    places = [(float(x), float(y)) for x, y in re.findall(r"([\d.]+) ([\d.]+)", path)]
    right = [(SIZE * x / 4, SIZE * (1 - (y + room) / height)) for x, y in ((0, 0), (3, 5), (4, 10))]
    assert [one for place in places for one in place] == pytest.approx(
        [one for place in right for one in place], abs=0.06
    )


def test_a_logarithmic_axis_is_offered_where_all_values_allow_it() -> None:
    html = line_chart("t", [Series("a", [(0, 1.0), (1, 10.0), (2, 100.0)])], log=True)
    linear, log = paths(html)
    heights = [float(y) for y in re.findall(r" ([\d.]+)", log)]
    assert heights[0] - heights[1] == pytest.approx(heights[1] - heights[2], abs=0.2)
    assert linear != log and "checkbox" in html
    for points in ([(0, 1.0), (1, 0.0)], [(0, 1.0), (1, -1.0)], [(0, 1.0)]):
        assert "checkbox" not in line_chart("t", [Series("a", points)], log=True)


def test_a_gap_stays_a_gap_and_a_lone_point_is_a_dot() -> None:
    points = [(0, 1.0), (1, 2.0), (2, nan), (3, 1.5), (4, inf), (5, 1.0), (6, 2.0)]
    html = line_chart("t", [Series("a", points)])
    (path,) = paths(html)
    assert path.count("M") == 3 and path.count("h0") == 1
    assert paths(html, "dots") == [re.findall(r"M[\d. ]+h0", path)[0]]
    (one,) = paths(line_chart("t", [Series("a", [(10, 1.7)])]))
    assert one == "M500.0 500.0h0"


@pytest.mark.parametrize("points", [[], [(0, nan)], [(0, inf), (1, -inf)]])
def test_nothing_to_draw(points: list[tuple[float, float]]) -> None:
    assert "Nothing to draw yet." in line_chart("t", [Series("a", points)])


def test_the_read_out_has_the_values_and_the_chart_a_description() -> None:
    faint = Series("b", [(0, 3.0), (1, 4.0)], faint=True)
    found = Parsed(line_chart("Loss", [faint, Series("a", [(0, 1.25), (1, nan), (2, 0.5)])], x="step"))
    data = json.loads(found.values("data-series")[0])
    assert data[1] == {"name": "a", "tone": 1, "x": [0, 2], "y": [1.25, 0.5], "text": ["1.25", "0.5"]}
    assert data[0]["x"] == []
    said = "Line chart of Loss: a from 1.25 to 0.5 over step 0 to 2, lowest 0.5"
    assert said in found.values("aria-label")
    assert "b" not in found.text  # a faint curve is not in the legend


def test_many_series_can_be_told_apart() -> None:
    html = line_chart("t", [Series(f"s{one}", [(0, float(one)), (1, 2.0)]) for one in range(TONES + 1)])
    looks = re.findall(r'<path class="curve ([^"]*)"', html)
    assert len(set(looks)) == TONES + 1


def test_a_long_run_gives_a_small_file_that_keeps_its_spike() -> None:
    points = [(step, 1.0 + 1000.0 * (step == 77_777)) for step in range(100_000)]
    html = line_chart("t", [Series("a", points)])
    assert len(html) < 100_000
    assert 1001.0 in json.loads(Parsed(html).values("data-series")[0])[0]["y"]


@given(points=st.lists(st.tuples(st.integers(0, 10**6), st.floats(allow_nan=True)), max_size=30))
@example(points=[(0, -1.7e308), (1, 1.7e308), (2, 1e-320), (3, 1.0)])
def test_any_numbers_make_a_chart(points: list[tuple[int, float]]) -> None:
    text = Parsed(line_chart("t", [Series("a", points)], log=True)).text
    assert "nan" not in text


@given(low=NUMBERS, wide=st.floats(1e-6, 1e6), most=st.integers(2, 10))
def test_ticks_are_few_rise_and_lie_inside(low: float, wide: float, most: int) -> None:
    high = low + wide * max(1.0, abs(low))
    found = ticks(low, high, most=most)
    slack = 1e-6 * (high - low)
    assert 1 <= len(found) <= most + 1 and found == sorted(set(found))
    assert all(low - slack <= one <= high + slack for one in found)


@given(power=st.floats(-20, 20), decades=st.floats(0.01, 30))
def test_log_ticks_are_few_and_lie_inside(power: float, decades: float) -> None:
    low, high = 10**power, 10 ** (power + decades)
    found = log_ticks(low, high)
    assert 1 <= len(found) <= 7 and found == sorted(set(found))
    assert all(log10(low) - 1e-6 <= log10(one) <= log10(high) + 1e-6 for one in found)


@given(low=st.floats(-1e6, 1e6), wide=st.floats(1e-3, 1e6))
def test_labels_differ(low: float, wide: float) -> None:
    found = ticks(low, low + wide * max(1, abs(low)))
    assert len(set(labels(found))) == len(found)


@given(points=st.lists(st.tuples(st.integers(0, 99), st.floats(-5, 5) | st.just(nan)), min_size=9, max_size=300))
def test_thinning_keeps_ends_extremes_and_gaps(points: list[tuple[int, float]]) -> None:
    found = thinned(points, most=8)
    solid = [y for _, y in points if y == y]
    assert repr(found[0]) == repr(points[0]) and repr(found[-1]) == repr(points[-1])
    assert len(found) <= 5 * 2 + 5
    if solid:
        assert {min(solid), max(solid)} <= {y for _, y in found}
    assert any(y != y for _, y in points) == any(y != y for _, y in found)


def test_smoothing_keeps_a_straight_line_and_a_gap() -> None:
    line = [(x, 3.0 * x + 1) for x in range(11)]
    assert [y for _, y in smoothed(line, width=5)] == pytest.approx([y for _, y in line])
    assert repr(smoothed([(0, 1.0), (1, nan), (2, 3.0)], width=3)) == "[(0, 1.0), (1, nan), (2, 3.0)]"
