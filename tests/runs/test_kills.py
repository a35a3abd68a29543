"""A run that is killed, at a random time or at any operation on a file, goes on to the same bits.

`make test-thorough` kills at 200 random times and at every operation; every day it is a handful.
"""

import json
import random
import shutil
import signal
import time
from pathlib import Path

import pytest

from tests.thorough import THOROUGH

STEPS = 8
SETTINGS = [
    "--tokenizer.kind", "byte", "--model.layers", "1", "--model.width", "8", "--model.heads", "2", "--length", "8",
    "--model.dropout", "0.1", "--batch", "2", "--steps", str(STEPS), "--evaluate-every", "3", "--save-every", "2",
    "--log-every", "1", "--samples", "0", "--keep", "2",
]  # fmt: skip
RANDOM = 200 if THOROUGH else 1
MOST = 5000  # operations of one run; it has some hundred

KILLED = """
import sys
from headway.cli import main
from tests.crash import die_at
die_at(int(sys.argv[1]))
sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("text") / "book.txt"
    file.write_text("".join(f"Line {number} of a book that counts to {number * number}.\n" for number in range(60)))
    return file


@pytest.fixture(scope="module")
def straight(text, tmp_path_factory, processes) -> tuple[dict, float]:
    """What a run comes to that nothing happens to, and how long it takes."""
    run, begun = tmp_path_factory.mktemp("straight") / "run", time.monotonic()
    child = processes.headway("train", str(text), *SETTINGS, "--out", str(run))
    assert child.wait() == 0, child.stderr
    return outcome(run), time.monotonic() - begun


def outcome(run: Path) -> dict:
    """The bits of the weights, of the state of training and of the measurements."""
    files = [
        run / "model" / "model.safetensors",
        *sorted((run / "checkpoints").glob(f"step-{STEPS:08d}/*.safetensors")),
    ]
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    measured = [(row["kind"], row["step"], row["loss"]) for row in rows if row["kind"] in ("train", "validation")]
    return {"files": [file.read_bytes() for file in files], "rows": measured, "end": rows[-1]["reason"]}


def went_on(text: Path, run: Path, processes) -> dict:
    """The run, taken up again; begun again where it was killed before it had said what it is."""
    more = ["--resume"] if (run / "config.yaml").exists() else []
    child = processes.headway("train", str(text), *SETTINGS, "--out", str(run), *more)
    assert child.wait() == 0, child.stderr
    assert not [path for path in run.rglob(".*") if path.name != ".notes"], "something is left"
    return outcome(run)


@pytest.mark.parametrize("number", range(RANDOM))
def test_a_kill_at_a_random_time(text, straight, tmp_path, processes, number):
    expected, seconds = straight
    run = tmp_path / "run"
    child = processes.headway("train", str(text), *SETTINGS, "--out", str(run))
    time.sleep(random.Random(number).uniform(0, seconds))
    if child.poll() is None:
        child.send_signal(signal.SIGKILL)
    assert child.wait() in (-9, 0)
    assert went_on(text, run, processes) == expected


def test_a_kill_at_every_change_of_a_file(text, straight, tmp_path, processes):
    """In the first run and, now and then, in the one that takes it up again too."""
    moment, kills, step = 0, 0, 1 if THOROUGH else 300
    chance = random.Random(7)
    while moment < MOST:
        run = tmp_path / "run"
        shutil.rmtree(run, ignore_errors=True)
        child = processes.start(KILLED, str(moment), "train", str(text), *SETTINGS, "--out", str(run))
        if (code := child.wait()) == 0:
            break
        assert code == -9, child.stderr
        if kills % 3 == 0 and (run / "config.yaml").exists():
            again = ["train", str(text), *SETTINGS, "--out", str(run), "--resume"]
            assert processes.run(KILLED, str(chance.randrange(200)), *again).wait() in (-9, 0)
        assert went_on(text, run, processes) == straight[0], moment
        kills, moment = kills + 1, moment + step
    assert moment < MOST and kills > 400 // step
