"""`headway train` under torchrun: two real processes on loopback learn what one learns, and survive a lost worker."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import headway
from headway.cli import main
from tests.thorough import THOROUGH

STEPS = 24
SETTINGS = [
    "--tokenizer.kind", "byte", "--model.layers", "2", "--model.width", "16", "--model.heads", "2", "--length", "16",
    "--batch", "4", "--steps", str(STEPS), "--evaluate-every", "12", "--save-every", "6", "--log-every", "1",
    "--samples", "0",
]  # fmt: skip
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
TORCHRUN += ["--monitor-interval", "0.1", "--max-restarts", "2"]


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("text") / "book.txt"
    file.write_text("".join(f"Line {number} of a book that counts to {number * number}.\n" for number in range(300)))
    return file


def started(text: Path, run: Path, *more: str) -> subprocess.Popen:
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, *TORCHRUN, "-m", "headway", "train", str(text), *SETTINGS, "--out", str(run), *more]
    return subprocess.Popen(
        words, env=environment, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    )


def finished(process: subprocess.Popen) -> str:
    try:
        _, said = process.communicate(timeout=300)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, said
    return said


def losses(run: Path, kind: str = "train") -> list[float]:
    return [row["loss"] for row in map(json.loads, (run / "metrics.jsonl").open()) if row["kind"] == kind]


@pytest.fixture(scope="module")
def alone(text, tmp_path_factory) -> Path:
    run = tmp_path_factory.mktemp("alone") / "run"
    assert main(["train", str(text), *SETTINGS, "--out", str(run)]) == 0
    return run


@pytest.fixture(scope="module", params=["ddp", "fsdp"] if THOROUGH else ["fsdp"])
def calm(request, text, tmp_path_factory) -> tuple[str, Path, str]:
    """A run of two processes that nothing happens to: what kind it is, where, and what it said."""
    run = tmp_path_factory.mktemp("calm") / "run"
    return request.param, run, finished(started(text, run, "--parallel.kind", request.param))


def test_two_processes_learn_what_one_learns(alone, calm):
    _, run, said = calm
    assert said.count("report:") == 1  # the first process alone speaks
    assert losses(run) == pytest.approx(losses(alone), abs=1e-5)
    assert losses(run, "validation") == pytest.approx(losses(alone, "validation"), abs=1e-5)
    ours, theirs = (headway.load(place / "model").model for place in (run, alone))
    for name, parameter in ours.named_parameters():
        assert (parameter - theirs.get_parameter(name)).abs().max() < 1e-4, name


if THOROUGH:

    def test_a_lost_worker_is_started_again_and_the_run_ends_the_same(text, calm, tmp_path):
        """One that is killed takes the others with it; torchrun starts them again, and nothing shows in the result."""
        kind, undisturbed, _ = calm
        run = tmp_path / "run"
        process = started(text, run, "--parallel.kind", kind)
        for _ in range(30000):
            if (run / "checkpoints" / "step-00000006").exists():
                break
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.005)
        workers = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True).stdout.split()
        os.kill(int(workers[-1]), signal.SIGKILL)
        said = finished(process)
        assert "exitcode: -9" in said and "goes on after step" in said
        assert losses(run) == losses(undisturbed) and len(losses(run)) == STEPS
        ours, theirs = (load_file(place / "model" / "model.safetensors") for place in (run, undisturbed))
        assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
