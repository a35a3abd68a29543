"""What a killed process leaves in a run's directory is in nobody's way, and an overwritten run is not lost."""

import json
import os
from pathlib import Path

import pytest

from headway.app.run_recovery import contents, drop_old, give_back, open_run, recover, set_aside
from headway.app.runs import as_json, find_runs
from headway.cli import main
from headway.training.metrics import Metrics
from tests.app.runs_by_hand import make_run
from tests.crash import recorded

SMALL = [
    "--tokenizer.kind", "byte", "--model.layers", "1", "--model.width", "8", "--model.heads", "2", "--length", "8",
    "--batch", "2", "--samples", "0",
]  # fmt: skip
TWO, THREE = ["--steps", "2"], ["--steps", "3"]


@pytest.fixture
def book(tmp_path: Path) -> str:
    (tmp_path / "book.txt").write_text("A book of few words, again and again.\n" * 50)
    return str(tmp_path / "book.txt")


LEFT = {
    "the first file": {".config.yaml.ab12cd_x": "task: lang"},
    "a lock": {".lock": '{"pid": 7'},
    "a tokenizer": {".headway-abcd_123/whole/tokenizer.json": "{", ".headway-abcd_123/lock": ""},
}


@pytest.mark.parametrize("name", LEFT)
def test_a_kill_in_the_first_moments_is_no_hindrance(tmp_path, book, name):
    run = tmp_path / "run"
    for file, text in LEFT[name].items():
        (run / file).parent.mkdir(parents=True, exist_ok=True)
        (run / file).write_text(text)
    assert main(["train", book, *SMALL, *TWO, "--out", str(run)]) == 0
    assert not [name for name in os.listdir(run) if name.startswith(".")]


@pytest.mark.parametrize("more", ["--resume", "--overwrite"])
def test_nor_are_left_overs_beside_a_run(tmp_path, book, more):
    run = tmp_path / "run"
    assert main(["train", book, *SMALL, *TWO, "--out", str(run)]) == 0
    for files in LEFT.values():
        for file, text in files.items():
            (run / file).parent.mkdir(parents=True, exist_ok=True)
            (run / file).write_text(text)
    (run / "checkpoints" / ".best.json.abcdefgh").write_text("{")
    assert main(["train", book, *SMALL, *THREE, "--out", str(run), more]) == 0
    assert not [path for path in run.rglob("*") if path.name.startswith(".")]


def test_files_of_the_user_stay(tmp_path, book, capsys):
    run = tmp_path / "run"
    assert main(["train", book, *SMALL, *TWO, "--out", str(run)]) == 0
    (run / ".notes.abcdefgh").write_text("years of work")
    assert main(["train", book, *SMALL, *TWO, "--out", str(run), "--overwrite"]) == 2
    assert "holds .notes.abcdefgh, which is no file of a run" in capsys.readouterr().err
    assert main(["train", book, *SMALL, *THREE, "--out", str(run), "--resume"]) == 0
    assert (run / ".notes.abcdefgh").read_text() == "years of work"


OLD = {"config.yaml": "old", "metrics.jsonl": "old", "checkpoints": {"step-00000001": "old"}}
NEW = {"config.yaml": "new", "data": {"stdin": "new"}}


def write(place: Path, tree: dict) -> None:
    for name, inner in tree.items():
        if isinstance(inner, dict):
            (place / name).mkdir()
            write(place / name, inner)
        else:
            (place / name).write_text(inner)
            with (place / name).open("rb") as file:
                os.fsync(file.fileno())


def tree(place: Path) -> dict:
    return {one.name: tree(one) if one.is_dir() else one.read_text() for one in sorted(place.iterdir())}


@pytest.mark.parametrize("fails", [False, True])
def test_an_overwritten_run_comes_back_from_any_cut(tmp_path: Path, fails: bool) -> None:
    """Until the new one is prepared; killed while it comes back, it comes back all the same."""
    root = tmp_path / "root"
    (root / "run").mkdir(parents=True)
    write(root / "run", OLD)
    with recorded(root) as trace:
        lock = open_run(root / "run")
        set_aside(root / "run")
        write(root / "run", NEW)
        give_back(root / "run") if fails else drop_old(root / "run")
        lock.release()
    found = []
    for moment, left in trace.crashes(tmp_path / "left", drawn=4):
        recover(left / "run")
        open_run(left / "run").release()
        assert contents(left / "run") == sorted(os.listdir(left / "run")), moment
        found.append(tree(left / "run"))
        assert found[-1] == OLD or (not fails and found[-1]["config.yaml"] in ("new", "")), (moment, found[-1])
    assert OLD in found and len(found) > 15
    assert (found[-1] == OLD) is fails


def rows(path: Path) -> list[dict]:
    return [json.loads(line) for line in (path / "metrics.jsonl").read_text().splitlines()]


BAD = [
    b"not json\n",
    b'{"kind": "train", "step": "x"}\n',
    b'{"kind": "train", "step": null}\n',
    b"\xff\xfe\n",
    b"[3]\n",
]


def test_lines_that_are_no_rows_are_set_aside_and_named(tmp_path: Path) -> None:
    good = [json.dumps({"kind": "train", "step": step}).encode() + b"\n" for step in range(1, 7)]
    (tmp_path / "metrics.jsonl").write_bytes(good[0] + b"".join(BAD) + b"".join(good[1:]) + b'{"kind": "tra')
    metrics = Metrics(tmp_path, until=4)
    metrics.close()
    assert [row["step"] for row in rows(tmp_path)] == [1, 2, 3, 4]
    assert (tmp_path / "metrics.damaged.jsonl").read_bytes() == b"".join(BAD)
    assert metrics.notes == ("metrics.jsonl: lines 2, 3, 4, 5, 6 are no rows and were moved to metrics.damaged.jsonl",)


def test_a_stray_row_does_not_stop_a_run_from_going_on(tmp_path, book, capsys):
    run = tmp_path / "run"
    assert main(["train", book, *SMALL, *TWO, "--log-every", "1", "--out", str(run)]) == 0
    lines = (run / "metrics.jsonl").read_bytes().splitlines(keepends=True)
    (run / "metrics.jsonl").write_bytes(b"".join([lines[0], b'{"kind": "train", "step": []}\n', *lines[1:], b'{"ki']))
    capsys.readouterr()
    assert main(["train", "--out", str(run), "--resume", "--steps", "3"]) == 0
    assert "metrics.jsonl: line 2 is no row and was moved to metrics.damaged.jsonl" in capsys.readouterr().err
    assert [row["step"] for row in rows(run) if row["kind"] == "train"] == [1, 2, 3]


def test_one_damaged_run_does_not_hide_the_others(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    runs = tmp_path / "runs"
    for name in ("good", "no metrics", "no config", "odd rows", "loop"):
        make_run(runs, name)
    for name, file in (("no metrics", "metrics.jsonl"), ("no config", "config.yaml")):
        (runs / name / file).unlink()
        (runs / name / file).mkdir()
    (runs / "loop" / "metrics.jsonl").unlink()
    (runs / "loop" / "metrics.jsonl").symlink_to("metrics.jsonl")
    odd = [
        {"kind": "start", "parameters": "many"}, {"kind": "train", "step": None}, {"kind": "end", "reason": {}},
        {"kind": "train", "step": 3, "seconds": 10**400, "loss": [], "tokens": {}},
    ]  # fmt: skip
    (runs / "odd rows" / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in odd))
    found = {run.name: run for run in find_runs([runs])}
    assert len(found) == 5 and found["good"].notes == [] and found["good"].state == "finished"
    assert found["no metrics"].state == "damaged" and "metrics.jsonl" in found["no metrics"].notes[0]
    assert found["no config"].notes == ["config.yaml cannot be read"]
    assert found["odd rows"].parameters is None and found["odd rows"].step == 3
    assert all(as_json(run) for run in found.values())
    assert main(["runs", str(runs)]) == 0
    said = capsys.readouterr()
    assert "note: no metrics: metrics.jsonl cannot be read" in said.err and "good" in said.out
    for name in ("--json", "--csv"):
        assert main(["runs", str(runs), name]) == 0


def test_nothing_is_read_or_written_through_links_and_pipes(tmp_path, book, capsys):
    """A run from somebody else could name any file to be overwritten, or a pipe to wait for."""
    run, mine = tmp_path / "run", tmp_path / "mine"
    assert main(["train", book, *SMALL, *TWO, "--out", str(run)]) == 0
    mine.mkdir()
    (mine / "file").write_text("years of work")
    for name in (".lock", "log.txt", "metrics.jsonl", "cost.json", "checkpoints/best.json", "data/train/manifest.json"):
        kept = (run / name).read_bytes() if (run / name).exists() else None
        for make in (lambda at: at.symlink_to(mine / "file"), lambda at: at.symlink_to(mine / "none"), os.mkfifo):
            (run / name).unlink(missing_ok=True)
            make(run / name)
            for more in ("--resume", "--overwrite"):
                capsys.readouterr()
                assert main(["train", book, *SMALL, *THREE, "--out", str(run), more]) == 2, (name, more)
                assert f"{run / name} is a" in capsys.readouterr().err
        (run / name).unlink()
        if kept is not None:
            (run / name).write_bytes(kept)
    for name in (".old", ".moving"):
        (run / name).symlink_to(mine)
        for more in ("--resume", "--overwrite"):
            assert main(["train", book, *SMALL, *THREE, "--out", str(run), more]) == 2
            assert f"{run / name} is no directory of a run that gave way: remove it" in capsys.readouterr().err
        (run / name).unlink()
    assert [path.name for path in mine.iterdir()] == ["file"] and (mine / "file").read_text() == "years of work"
    # A folder on another disk is usual.
    (run / "checkpoints").rename(tmp_path / "far")
    (run / "checkpoints").symlink_to(tmp_path / "far")
    assert main(["train", book, *SMALL, *THREE, "--out", str(run), "--resume"]) == 0
