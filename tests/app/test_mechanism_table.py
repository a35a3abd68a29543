"""The table that `headway mechanisms` prints."""

import json
from collections.abc import Callable

import pytest

from headway.app import mechanism_table
from headway.app.mechanism_table import mechanism_rows
from headway.bench.measure import compare
from headway.cli import main
from headway.ops.attention import MECHANISMS


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody reads these times."""

    def hasty(runs: dict[str, Callable[[], object]], **_: float) -> object:
        return compare(runs, budget=0.0, least=1)

    monkeypatch.setattr(mechanism_table, "compare", hasty)


def test_every_mechanism_is_in_the_table_and_right() -> None:
    found = list(mechanism_rows(side=6, heads=2, width=5))
    assert {stop.name.split(",")[0] for stop in found} == set(MECHANISMS)
    for stop in found:
        assert stop.difference < 1e-4, stop.name
        assert 0 < stop.useful_macs <= stop.executed_macs, stop.name
    assert found[0].useful_macs == 2 * 36 * 36 * (5 + 5)


def test_the_command_prints_a_table_or_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mechanisms", "--side", "4", "--heads", "1", "--width", "3"]) == 0
    assert "difference from" in capsys.readouterr().out
    assert main(["mechanisms", "--side", "4", "--heads", "1", "--width", "3", "--json"]) == 0
    assert {row["name"] for row in json.loads(capsys.readouterr().out)} >= {"softmax", "channel", "additive"}


@pytest.mark.parametrize(
    "wrong", [["--side", "1"], ["--side", "65"], ["--heads", "0"], ["--width", "-3"], ["--sid", "4"]]
)
def test_wrong_sizes_are_one_sentence(wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["mechanisms", *wrong]) == 2
    error = capsys.readouterr().err
    assert wrong[0].lstrip("-") in error and "Traceback" not in error
