"""Rates between knots, a machine that is measured once, and when what was measured is not used."""

import json
from dataclasses import replace
from math import exp, log
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.cost.op_tree import Line
from headway.cost.time.kernels import Grid, grid_of, tabulate
from headway.cost.time.machine import KERNELS, OVERHEADS, PRECISIONS, Machine, machine_of, measure, place, stored
from headway.data.files import write_json
from headway.ops.linear import linear_price
from tests.cost.toy_machine import RATES, toy_machine

GRID = Grid({"rows": (2.0, 3.0, 7.0), "side": (5.0, 11.0)}, (13.0, 17.0, 19.0, 23.0, 29.0, 31.0))


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def keep(machine: Machine) -> None:
    place().parent.mkdir(parents=True, exist_ok=True)
    write_json(place(), machine.as_json())


def test_a_grid_is_exact_at_its_knots() -> None:
    found = [GRID.at(rows=rows, side=side) for rows in (2, 3, 7) for side in (5, 11)]
    assert found == list(GRID.values)


def test_between_knots_logarithms_are_straight() -> None:
    middle = GRID.at(rows=(2 * 3) ** 0.5, side=(5 * 11) ** 0.5)
    assert middle == pytest.approx(exp(sum(map(log, (13, 17, 19, 23))) / 4), rel=1e-12)
    line = Grid({"rows": (1.0, 81.0)}, (10.0, 810.0))
    assert [line.at(rows=rows) for rows in (3, 27)] == pytest.approx([30, 270], rel=1e-12)


def test_beyond_the_last_knot_nothing_changes() -> None:
    assert (GRID.at(rows=1, side=1), GRID.at(rows=999, side=999)) == (13.0, 31.0)
    assert GRID.at(rows=999, side=5) == 29.0


@given(st.lists(st.floats(1.5, 8.0), min_size=2, max_size=2))
def test_a_grid_that_rises_is_monotone_in_between(rows: list[float]) -> None:
    low, high = sorted(rows)
    assert GRID.at(rows=low, side=7) <= GRID.at(rows=high, side=7) * (1 + 1e-12)


@pytest.mark.parametrize(
    ("axes", "values", "said"),
    [
        ({"rows": (3.0, 2.0)}, (1.0, 1.0), "knots of rows are positive and rise, not [3.0, 2.0]"),
        ({"rows": (0.0, 2.0)}, (1.0, 1.0), "positive and rise"),
        ({"rows": (2.0, 3.0)}, (1.0,), "a table over rows holds 2 positive numbers"),
        ({"rows": (2.0, 3.0)}, (1.0, 0.0), "2 positive numbers"),
        ({"rows": (2.0, 3.0)}, (1.0, float("nan")), "2 positive numbers"),
    ],
)
def test_a_grid_refuses_what_no_measurement_gives(axes: dict, values: tuple, said: str) -> None:
    with pytest.raises(ValueError) as error:
        Grid(axes, values)
    assert said in str(error.value)


def test_a_grid_through_json_is_the_same() -> None:
    assert grid_of(json.loads(json.dumps(GRID.as_json()))) == GRID
    assert tabulate(GRID.axes, GRID.at) == GRID


def test_a_machine_through_its_file_is_the_same() -> None:
    machine = toy_machine()
    keep(machine)
    assert stored() == (machine, "")
    assert machine_of(json.loads(place().read_text())) == machine


def test_without_a_file_the_note_says_what_to_do() -> None:
    assert stored() == (
        None,
        "no predicted times: `headway cost --machine` measures this machine once, in a few seconds",
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"torch": "1.0.0"}, "it was measured with torch 1.0.0, now "),
        ({"threads": 97}, "it was measured with threads 97, now "),
        ({"processor": "abacus"}, "it was measured with processor abacus, now "),
    ],
)
def test_what_was_measured_elsewhere_is_not_used(change: dict, said: str) -> None:
    keep(replace(toy_machine(), **change))
    machine, note = stored()
    assert machine is None and said in note and "`headway cost --machine`" in note


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"rates": {"float32": {"grids": {}, "overheads": {}}}}', "\xff"])
def test_a_broken_file_is_a_sentence(content: str) -> None:
    place().parent.mkdir(parents=True, exist_ok=True)
    place().write_bytes(content.encode("latin-1"))
    machine, note = stored()
    assert machine is None and str(place()) in note and "cannot be read" in note and "--machine" in note


def test_a_file_of_an_older_headway_is_a_sentence() -> None:
    found = toy_machine().as_json()
    del found["rates"]["float32"]["grids"]["dropout/forward"]
    place().parent.mkdir(parents=True, exist_ok=True)
    write_json(place(), found)
    assert "it knows nothing of dropout/forward" in stored()[1]


def test_the_place_without_a_cache_directory_is_the_users(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "somebody"))
    assert place() == tmp_path / "somebody" / ".cache" / "headway" / "machine.json"


def test_a_quick_look_measures_every_kernel_in_every_precision_and_keeps_it() -> None:
    said: list[str] = []
    machine = measure(said.append, quick=True)
    assert tuple(machine.rates) == PRECISIONS
    for rates in machine.rates.values():
        assert rates.grids.keys() == KERNELS and rates.overheads.keys() == OVERHEADS
        assert all(value > 0 for grid in rates.grids.values() for value in grid.values)
    assert stored() == (machine, "")
    assert [path.name for path in place().parent.iterdir()] == ["machine.json"]
    assert said[:2] == ["measuring float32", "measuring bfloat16"] and str(place()) in said[-1]


def test_peak_bandwidth_and_ridge() -> None:
    machine = toy_machine(memory_forward=Grid({"bytes": (1.0, 8.0)}, (900.0, 40.0)))
    peak = 2 * RATES["product/forward"]
    assert (machine.peak(), machine.bandwidth(), machine.ridge()) == (peak, 40.0, pytest.approx(peak / 40))


def test_a_precision_that_was_not_measured_is_a_sentence() -> None:
    line = Line("up", 1, 1, linear_price(2, 3, 5, bias=False))
    with pytest.raises(ValueError, match="times in float16 are not known here: the machine was measured in float32"):
        toy_machine().seconds(line, dtype="float16")
