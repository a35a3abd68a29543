"""Reading a run's directory: whole, under way, damaged."""

import json
import os
import subprocess
import sys
import time
from math import isnan
from pathlib import Path

import pytest

from headway.app.run import QUIET, read_run
from tests.app.runs_by_hand import make_run, rows


def aged(path: Path, seconds: float) -> Path:
    for name in ("metrics.jsonl", "config.yaml"):
        os.utime(path / name, (time.time() - seconds,) * 2)
    return path


def test_what_a_run_says_of_itself(tmp_path: Path) -> None:
    run = read_run(make_run(tmp_path))
    assert (run.name, run.task, run.step, run.steps, run.parameters) == ("first", "language", 2000, 2000, 809_088)
    assert run.state == "finished" and run.seconds == 90.0 and run.tokens == 768 * 2000
    assert run.best is not None and run.best[0] == 1600
    assert run.measures("validation") == ["loss", "accuracy", "perplexity", "bits_per_byte"]
    assert run.measures("train") == ["loss", "norm", "rate"]
    assert len(run.curve("train", "loss")) == 200 and run.curve("train", "nothing") == []


@pytest.mark.parametrize(
    ("reason", "state"), [("finished", "finished"), ("early", "finished"), ("stopped", "stopped"), ("diverged",) * 2]
)
def test_how_a_run_ended(tmp_path: Path, reason: str, state: str) -> None:
    lines = [*rows()[:50], {"kind": "end", "step": 400, "reason": reason}]
    assert read_run(make_run(tmp_path, lines=lines)).state == state


def test_a_run_without_an_end_runs_while_its_lines_are_recent(tmp_path: Path) -> None:
    path = make_run(tmp_path, lines=rows()[:-1])
    assert read_run(path).state == "running"
    assert read_run(aged(path, QUIET + 60)).state == "stopped"


def test_a_slow_run_is_not_taken_for_a_stopped_one(tmp_path: Path) -> None:
    lines = [{"kind": "train", "step": step, "loss": 1.0, "seconds": 1000.0 * step} for step in (1, 2, 3)]
    path = make_run(tmp_path, lines=lines)
    assert read_run(aged(path, 4000)).state == "running"
    assert read_run(aged(path, 6000)).state == "stopped"


def test_a_run_that_goes_on_after_its_end_has_none(tmp_path: Path) -> None:
    lines = [
        *rows()[:50],
        {"kind": "end", "step": 400, "reason": "stopped"},
        {"kind": "train", "step": 410, "loss": 2.0},
    ]
    assert read_run(make_run(tmp_path, lines=lines)).state == "running"


def test_a_run_before_its_first_line(tmp_path: Path) -> None:
    path = make_run(tmp_path, lines=[])
    run = read_run(aged(path, 1e6))
    assert (run.state, run.step, run.best, run.seconds, run.parameters) == ("new", 0, None, None, None)
    (path / "metrics.jsonl").unlink()
    assert read_run(path).rows == []


def test_every_cut_of_the_file_can_be_read(tmp_path: Path) -> None:
    """A run is read while it writes, or after its machine went down."""
    path = make_run(tmp_path, lines=rows(40))
    whole = (path / "metrics.jsonl").read_bytes()
    for size in range(0, len(whole), 7):
        (path / "metrics.jsonl").write_bytes(whole[:size])
        run = read_run(path)
        assert run.notes == [] and len(run.rows) in (whole[:size].count(b"\n"), whole[:size].count(b"\n") + 1)


def test_damage_in_the_middle_is_noted(tmp_path: Path) -> None:
    path = make_run(tmp_path)
    with (path / "metrics.jsonl").open("ab") as file:
        file.write(b'{"kind": "tra\n\xff\xfe\n[1, 2]\n{"step": 3}\n\n{"kind": "train", "step": "x", "loss": 1}\n')
    (path / "config.yaml").write_text("a: [")
    (path / "machine.json").write_text("[]")
    run = read_run(path)
    assert run.notes == [
        "metrics.jsonl: 4 damaged lines are left out", "config.yaml cannot be read", "machine.json cannot be read",
    ]  # fmt: skip
    assert run.step == 2000 and run.task == "–" and run.steps is None
    assert len(run.curve("train", "loss")) == 200


def test_values_that_are_no_numbers_are_gaps(tmp_path: Path) -> None:
    values = [1.5, "nan", None, "inf", float("nan"), True, 1.25]
    lines = [{"kind": "validation", "step": step, "loss": value} for step, value in enumerate(values)]
    run = read_run(make_run(tmp_path, lines=lines))
    found = [value for _, value in run.curve("validation", "loss")]
    assert [isnan(value) for value in found] == [False, True, True, False, True, True, False]
    assert run.best == (6, 1.25)


def test_what_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds neither metrics.jsonl nor config.yaml: a run is a directory that"):
        read_run(tmp_path)
    with pytest.raises(ValueError, match="is no directory: a run is a directory that `headway train` has written"):
        read_run(tmp_path / "nothing")


def test_reading_needs_no_torch() -> None:
    code = "import sys, headway.app.runs, headway.app.progress, headway.app.report; print('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_the_run_by_hand_has_the_lines_of_a_real_one() -> None:
    kinds = {row["kind"] for row in rows()}
    assert kinds == {"start", "train", "validation", "sample", "checkpoint", "end"}
    assert all(json.loads(json.dumps(row)) == row for row in rows())
