"""Data that is cut short and memory that runs out stop a run with its state saved; it then goes on to the same bits."""

import json
import shutil
from pathlib import Path

import pytest

from headway.cli import main
from headway.training import memory_watch
from headway.training.memory_watch import EVERY, LEAST, MemoryWatch, available
from tests.cli.test_train_stop import reached
from tests.runs.test_one_writer import LONG, text  # noqa: F401
from tests.training.small import config, events, run, same

MIB = 2**20


def last_row(path: Path) -> dict:
    return json.loads((path / "metrics.jsonl").read_text().splitlines()[-1])


def test_a_shard_that_is_cut_short_while_it_is_mapped(text, tmp_path, processes, capsys):  # noqa: F811
    """Looking at a page that is gone ended the process with SIGBUS, and the steps since the last checkpoint with it."""
    place = tmp_path / "run"
    child = processes.headway("train", str(text), *LONG, "--out", str(place))
    reached(place, 9, child)
    shard = place / "data" / "train" / "shard-00000.npy"
    with shard.open("r+b") as file:
        file.truncate(300)
    assert child.wait() == 2, child.stderr
    end = last_row(place)
    assert end["reason"] == "failed" and f"{shard} was cut short while it was read: remove" in end["diagnosis"]
    assert f"the state of step {end['step']} is kept" in child.stderr
    assert (place / "checkpoints" / f"step-{end['step']:08d}").is_dir()
    shutil.rmtree(shard.parent)
    until = str(end["step"] + 2)
    assert main(["train", "--out", str(place), "--resume", "--steps", until]) == 0
    assert f"goes on after step {end['step']:,}" in capsys.readouterr().err


def test_a_run_that_runs_out_of_memory_stops_and_goes_on(tmp_path, monkeypatch):
    straight = run(tmp_path / "straight", config(steps=2 * EVERY))
    left, init = iter([10 * LEAST, LEAST - MIB]), MemoryWatch.__init__
    with monkeypatch.context() as patched:
        patched.setattr(MemoryWatch, "__init__", lambda self: init(self, look=lambda: next(left), taken=lambda: 0))
        found = events(tmp_path / "run", config(steps=2 * EVERY))[-1]
    assert found.kind == "end" and found.row["reason"] == "failed" and found.row["step"] == EVERY + 1
    assert "memory is running out: 95 MiB are left" in found.row["diagnosis"]
    assert same(run(tmp_path / "run", config(steps=2 * EVERY), resume=True), straight)


@pytest.mark.parametrize(
    ("sizes", "left", "stops"),
    [
        ([100, 100, 100], 97, False),
        ([100, 100, 100], 95, True),
        ([100, 900, 900], 200, False),  # memory that later steps use again
        ([100, 900, 950], 200, False),
        ([100, 200, 300], 300, False),
        ([100, 200, 300], 290, True),  # it grows, and would not be asked in time
        ([300, 200, 100], 97, False),
    ],
)
def test_when_it_is_time_to_stop(sizes, left, stops):
    taken = iter(sizes)
    watch = MemoryWatch(look=lambda: left * MIB if len(watch.sizes) == 3 else 2**50, taken=lambda: next(taken) * MIB)
    found = [watch.problem() for _ in range(2 * EVERY + 1)]
    assert found[:-1] == [None] * (2 * EVERY) and (found[-1] is not None) is stops


def test_groups_of_both_versions_and_nothing_at_all(tmp_path, monkeypatch):
    one, two = tmp_path / "one", tmp_path / "two"
    for place, files in (
        (one, {"memory.max": "1000\n", "memory.current": "700\n", "memory.stat": "anon 5\ninactive_file 50\n"}),
        (two, {"memory.max": "max\n", "memory.current": "700\n", "memory.stat": ""}),
    ):
        place.mkdir()
        for name, content in files.items():
            (place / name).write_text(content)
    names = ("memory.max", "memory.current")
    assert memory_watch._of_group((one, *names)) == 350
    assert memory_watch._of_group((two, *names)) is None
    assert memory_watch._of_group((tmp_path / "nowhere", *names)) is None
    assert available() is None or available() > 0


LEAKS = """
import resource, sys
from pathlib import Path
from headway.cli import main
from headway.training.trainer import Trainer

kept, learn = [], Trainer.learn

def leaks(*given):
    kept.append(b"x" * (8 << 20))
    return learn(*given)

Trainer.learn = leaks
size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (size + (1 << 30), size + (1 << 30)))
sys.exit(main(sys.argv[1:]))
"""


def test_a_real_limit(text, tmp_path, processes):  # noqa: F811
    """8 MiB a step, and one GiB that the process may take."""
    place = tmp_path / "run"
    child = processes.run(LEAKS, "train", str(text), *LONG, "--out", str(place))
    assert child.code == 2, child.stderr[-2000:]
    assert "memory is running out" in last_row(place)["diagnosis"]
    assert (place / "checkpoints" / f"step-{last_row(place)['step']:08d}").is_dir()
