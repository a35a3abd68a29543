"""Several processes on this machine, with an end in sight: all of them are gone when it returns."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

ROOT = Path(__file__).parent.parent.parent


def work_through(jobs: Sequence[Any], place: Path, *, processes: int = 2, seconds: int = 300) -> None:
    """Several jobs, one after the other, in processes that start once; an error names the last lines printed."""
    place.write_text(json.dumps([vars(job) for job in jobs]))
    call = [sys.executable, str(Path(__file__).parent / "forked.py"), str(place), str(processes)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join([*_paths(), str(ROOT)])}
    # A session of its own: what is left of it can be ended without touching anything else.
    started = subprocess.Popen(
        call, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True
    )
    try:
        printed, _ = started.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        printed, _ = started.communicate()
        raise AssertionError(f"not finished after {seconds} s:\n{printed[-4000:]}") from None
    assert started.returncode == 0, printed[-6000:]


def _paths() -> list[str]:
    return [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]


def losses(directory: Path, rank: int = 0) -> list[tuple[float, float]]:
    """Loss and norm of every step."""
    rows = [json.loads(line) for line in (directory / f"losses-{rank}.jsonl").read_text().splitlines()]
    return [(row["loss"], row["norm"]) for row in rows]


def weights(directory: Path) -> dict[str, Tensor]:
    return load_file(directory / "weights.safetensors")
