"""The directory of a run: made, found again or replaced; restored where the run cannot be prepared."""

import json
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from headway import __version__
from headway.app.settings import written
from headway.config.run_files import RunFiles
from headway.config.train import TrainConfig
from headway.data.files import read_optional, write_whole
from headway.training.distributed import World, machine

# What headway writes there; any other file is the user's and is never deleted.
FILES = (
    "config.yaml",
    "machine.json",
    "metrics.jsonl",
    "log.txt",
    "cost.json",
    "heads.json",
    "audit.json",
    "report.html",
    "tensorboard",
)
FOLDERS = ("start", "data", "tokenizer", "checkpoints", "model")

T = TypeVar("T")


@contextmanager
def run_directory(
    place: RunFiles, config: TrainConfig, world: World, *, resume: bool, overwrite: bool
) -> Iterator[None]:
    """Inside, the run is prepared. Where that fails, a new directory goes and an overwritten one comes back."""
    old = None if resume else rank_zero_first(world, lambda: _make(place, config, world, overwrite))
    try:
        yield
    except BaseException as error:
        # What was tokenised until Ctrl-C is kept, unless another run has to have its place back.
        if world.first and not resume and (old is not None or isinstance(error, Exception)):
            shutil.rmtree(place.path, ignore_errors=True)
            if old is not None and old.exists():
                old.rename(place.path)
        raise
    if world.first:
        write_whole(place.config, written(config))
        if old is not None:
            shutil.rmtree(old, ignore_errors=True)


def rank_zero_first(world: World, job: Callable[[], T]) -> T | None:
    """The result of a job in the first process, None in the others, which wait; if it fails, all of them end."""
    found: T | None = None
    problem: Exception | None = None
    if world.first:
        try:
            found = job()
        except (ValueError, OSError) as error:
            problem = error
    failed = world.share(problem is not None)
    if problem is not None:
        raise problem
    if failed:
        raise SystemExit(2)
    return found


def is_same_launch(place: RunFiles) -> bool:
    """Whether the run was begun by this very torchrun, and not by another one before it."""
    found = _launch()
    return found is not None and read_optional(place.path / "machine.json").get("launch") == found


def _make(place: RunFiles, config: TrainConfig, world: World, overwrite: bool) -> Path | None:
    """A new directory with the settings; and where an older run has moved to, if one had its place."""
    old = None
    if place.path.exists() and (not place.path.is_dir() or any(place.path.iterdir())):
        if not overwrite:
            raise ValueError(f"{place.path} is not empty: pass --resume to go on, --overwrite, or another --out")
        _check_run(place.path)
        old = place.path.with_name(f".{place.path.name}.old")
        shutil.rmtree(old, ignore_errors=True)
        place.path.rename(old)
    place.path.mkdir(parents=True, exist_ok=True)
    write_whole(place.config, written(config))
    facts = {"headway": __version__, "seed": config.seed, **machine(world), "command": sys.argv, "launch": _launch()}
    write_whole(place.path / "machine.json", json.dumps(facts, indent=2) + "\n")
    return old


def _check_run(path: Path) -> None:
    """Refuse to replace what is not a run, or holds more than one."""
    if not path.is_dir() or not (path / "config.yaml").exists():
        raise ValueError(f"{path} holds no run, and is not overwritten: choose another --out")
    if foreign := [one.name for one in path.iterdir() if one.name not in (*FILES, *FOLDERS)]:
        raise ValueError(
            f"{path} holds {min(foreign)}, which is no file of a run and would be lost: choose another --out"
        )


def _launch() -> str | None:
    """A name for this torchrun, the same for all its attempts: its own, and its process on the first machine."""
    found = os.environ.get("TORCHELASTIC_RUN_ID")
    return None if found is None else f"{found} {os.getppid()}"
