"""The directory of a run: made, found again or replaced; restored where the run cannot be prepared."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from headway import __version__
from headway.app.run_recovery import FILES, FOLDERS, contents, drop_old, give_back, open_run, set_aside
from headway.app.settings import written
from headway.config.run_files import RunFiles
from headway.config.train import TrainConfig
from headway.data.files import read_optional, write_whole
from headway.training.distributed import World, machine

T = TypeVar("T")


@contextmanager
def one_writer(place: RunFiles, world: World) -> Iterator[None]:
    """Inside, no other process writes to the run's directory; of several processes the first holds the lock."""
    lock = rank_zero_first(world, lambda: open_run(place.path))
    try:
        yield
    finally:
        if lock is not None:
            lock.release()
            with suppress(OSError):  # nothing came of it
                place.path.rmdir()


@contextmanager
def run_directory(
    place: RunFiles, config: TrainConfig, world: World, *, resume: bool, overwrite: bool
) -> Iterator[None]:
    """Inside, the run is prepared. Where that fails, a new directory goes and an overwritten one comes back."""
    old = False if resume else bool(rank_zero_first(world, lambda: _make(place, config, world, overwrite)))
    try:
        yield
    except BaseException as error:
        # What was tokenised until Ctrl-C is kept, unless another run has to have its place back.
        if world.first and not resume and (old or isinstance(error, Exception)):
            give_back(place.path)
        raise
    if world.first:
        write_whole(place.config, written(config))
        drop_old(place.path)


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


def _make(place: RunFiles, config: TrainConfig, world: World, overwrite: bool) -> bool:
    """The settings of a new run in its directory; whether an older run had to give way."""
    old = bool(contents(place.path))
    if old:
        if not overwrite:
            raise ValueError(f"{place.path} is not empty: pass --resume to go on, --overwrite, or another --out")
        _check_run(place.path)
    facts = {"headway": __version__, "seed": config.seed, **machine(world), "command": sys.argv, "launch": _launch()}
    try:
        if old:
            set_aside(place.path)
        write_whole(place.config, written(config))
        write_whole(place.path / "machine.json", json.dumps(facts, indent=2) + "\n")
    except BaseException:
        give_back(place.path)
        raise
    return old


def _check_run(path: Path) -> None:
    """Refuse to replace what is not a run, or holds more than one."""
    if not (path / "config.yaml").exists():
        raise ValueError(f"{path} holds no run, and is not overwritten: choose another --out")
    if foreign := [name for name in contents(path) if name not in (*FILES, *FOLDERS)]:
        raise ValueError(
            f"{path} holds {foreign[0]}, which is no file of a run and would be lost: choose another --out"
        )


def _launch() -> str | None:
    """A name for this torchrun, the same for all its attempts: its own, and its process on the first machine."""
    found = os.environ.get("TORCHELASTIC_RUN_ID")
    return None if found is None else f"{found} {os.getppid()}"
