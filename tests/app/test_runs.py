"""Lists and comparisons of runs."""

from pathlib import Path

import pytest

from headway.app.runs import choose, compared, curves, differences, document, find_runs
from tests.app.runs_by_hand import make_run, rows
from tests.render.parsed import Parsed


def three(place: Path) -> Path:
    make_run(place / "runs", "first")
    make_run(place / "runs", "second", rows(seed=3, best=1.5), optim={"kind": "muon", "rate": 0.004}, batch=24)
    make_run(place / "runs", "third", rows()[:2])
    (place / "runs" / "no run").mkdir()
    (place / "runs" / "a file").touch()
    return place / "runs"


def test_runs_are_found_in_directories_and_by_themselves(tmp_path: Path) -> None:
    runs = three(tmp_path)
    assert {run.name for run in find_runs([runs])} == {"first", "second", "third"}
    assert [run.name for run in find_runs([runs / "first"])] == ["first"]
    assert len(find_runs([runs, runs / "first"])) == 3


def test_the_default_is_the_directory_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    three(tmp_path)
    monkeypatch.chdir(tmp_path)
    assert len(find_runs([])) == 3
    assert [run.name for run in choose(["second", "runs/first"], [])] == ["second", "first"]


def test_mistakes_are_said(tmp_path: Path) -> None:
    runs = three(tmp_path)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"there is no directory .*nowhere: `headway train` makes runs/<name>; name"):
        find_runs([tmp_path / "nowhere"])
    with pytest.raises(ValueError, match="a file is a file: `headway train` makes"):
        find_runs([runs / "a file"])
    with pytest.raises(ValueError, match=r"there is no run in .*empty: `headway train` makes one"):
        find_runs([tmp_path / "empty"])
    with pytest.raises(
        ValueError, match=r"^there is no run 'frist' \(did you mean first\?\); there are first, second, third$"
    ):
        choose(["frist", "second"], [runs])
    for names in (["first"], ["first", "first"]):
        with pytest.raises(ValueError, match=r"^--compare takes at least two different runs, not 1$"):
            choose(names, [runs])
    make_run(tmp_path / "other", "first")
    with pytest.raises(ValueError, match=r"^'first' may be .* or .*: name it by its path$"):
        choose(["first", "second"], [runs, tmp_path / "other"])


def test_differences_are_those_of_the_configurations(tmp_path: Path) -> None:
    both = choose(["first", "second"], [three(tmp_path)])
    assert differences(both) == {
        "optim.kind": ["adamw", "muon"], "optim.betas": [[0.9, 0.99], None], "batch": [12, 24],
    }  # fmt: skip
    assert differences([both[0], both[0]]) == {}


def test_measures_are_those_of_the_best_validation(tmp_path: Path) -> None:
    first, third = choose(["first", "third"], [three(tmp_path)])
    found = compared([first, third])
    assert found["at step"] == [1600, None] and found["best validation loss"] == [pytest.approx(1.7029, abs=1e-4), None]
    assert found["perplexity"] == [pytest.approx(5.49, abs=1e-2), None]
    assert found["state"] == ["finished", "running"] and found["time"] == ["1 min 30 s", "0.5 s"]


def test_curves_are_of_the_validation_where_all_have_one(tmp_path: Path) -> None:
    runs = three(tmp_path)
    title, series = curves(choose(["first", "second"], [runs]))
    assert title == "Validation loss" and [len(one.points) for one in series] == [10, 10]
    title, series = curves(choose(["first", "third"], [runs]))
    assert title == "Training loss" and [len(one.points) for one in series] == [200, 1]


def test_a_page_over_runs(tmp_path: Path) -> None:
    runs = find_runs([three(tmp_path)])
    found = Parsed(document(runs))
    assert found.tags["figure"] == 1 and all(run.name in found.text for run in runs)
    assert "optim.kind" in found.text
