"""One writer for a run's directory, and order in what a killed one has left there. No torch.

A run that is overwritten stays in the directory until the new one is prepared: its files move to `.moving`, which is
renamed to `.old` when all are there, and to `.gone` when they are not needed any more. Each of the three can be told
and finished by the next process.
"""

import os
import re
import shutil
from itertools import chain
from pathlib import Path

from headway.data.lock import Lock
from headway.data.publish import bring_back, make_directory, sync

LOCK = ".lock"
# What headway writes there; any other file is the user's and is never deleted.
FILES = (
    "config.yaml", "machine.json", "metrics.jsonl", "metrics.damaged.jsonl", "log.txt", "cost.json", "heads.json",
    "audit.json", "report.html", "tensorboard", "hashes.json",
)  # fmt: skip
FOLDERS = ("start", "data", "tokenizer", "checkpoints", "model")
_MOVING, _OLD, _GONE = ".moving", ".old", ".gone"
_ASIDE = (_MOVING, _OLD)
# What `write_whole` makes beside a file, and directories that were to be renamed.
_TEMPORARY = re.compile(r"\.(\w[\w.]*)\.[a-z0-9_]{8}|\.headway-[a-z0-9_]{8}")
_WRITTEN = (*FILES, "best.json", "manifest.json")


def open_run(path: Path) -> Lock:
    """The lock of a run's directory, which is made where there is none; left-overs are cleared away first."""
    if path.exists() and not path.is_dir():
        raise ValueError(f"{path} is a file: a run is a directory, so choose another --out")
    while True:
        make_directory(path)
        try:
            lock = Lock(path / LOCK, path)
            break
        except FileNotFoundError:  # its last writer has just removed the directory, of which nothing had come
            continue
    try:
        _refuse_links(path)
        _recover(path)
    except BaseException:
        lock.release()
        raise
    return lock


def _refuse_links(path: Path) -> None:
    """What headway writes would go to where a link points, or be waited for by a pipe. A folder may lie elsewhere."""
    for one in (path / name for name in (_MOVING, _OLD, _GONE)):
        if one.is_symlink() or (one.exists() and not one.is_dir()):
            raise ValueError(f"{one} is no directory of a run that gave way: remove it")
    folders = (os.walk(path / name) for name in FOLDERS)
    inside = (Path(place) / name for found in folders for place, _, names in found for name in names)
    for one in chain((path / name for name in FILES), inside):
        if (one.is_symlink() and not one.is_dir()) or not (one.is_file() or one.is_dir() or not one.exists()):
            raise ValueError(f"{one} is a link or a pipe, and a run's files are neither: put the file itself there")


def recover(path: Path) -> None:
    """Bring back a run that a killed process had begun to overwrite."""
    if any(os.path.lexists(path / name) for name in _ASIDE):
        open_run(path).release()


def contents(path: Path) -> list[str]:
    """The names in a run's directory, without what only a process that writes needs."""
    hidden = (LOCK, _MOVING, _OLD, _GONE)
    return sorted(one.name for one in path.iterdir() if one.name not in hidden and not _is_temporary(one))


def _is_temporary(path: Path) -> bool:
    found = _TEMPORARY.fullmatch(path.name)
    return found is not None and (found[1] is None or found[1] in _WRITTEN)


def set_aside(path: Path) -> None:
    """The run in a directory gives way to another one that is to be prepared there."""
    moving = path / _MOVING
    moving.mkdir()
    for name in contents(path):
        (path / name).rename(moving / name)
    sync(moving)
    sync(path)
    moving.rename(path / _OLD)
    sync(path)


def drop_old(path: Path) -> None:
    """The run that gave way is not needed any more."""
    if (path / _OLD).exists():
        (path / _OLD).rename(path / _GONE)
        sync(path)
        shutil.rmtree(path / _GONE, ignore_errors=True)


def give_back(path: Path) -> None:
    """What was made goes, and the run that gave way comes back, if there was one."""
    if not (path / _MOVING).exists():  # else it has not given way yet, or is coming back already
        for name in contents(path):
            if name in (*FILES, *FOLDERS):
                _remove(path / name)
        sync(path)
    if (path / _OLD).exists():
        (path / _OLD).rename(path / _MOVING)
    _move_back(path)


def _move_back(path: Path) -> None:
    moving = path / _MOVING
    if moving.exists():
        sync(path)
        for one in moving.iterdir():
            one.rename(path / one.name)
        sync(path)
        moving.rmdir()


def _recover(path: Path) -> None:
    """Whatever the last writer was about when it was killed is finished, or undone."""
    bring_back(path / "model")
    for folder in (path, path / "checkpoints", *(path / "data").glob("*")):
        for one in folder.iterdir() if folder.is_dir() else ():
            if _is_temporary(one):
                _remove(one)
    shutil.rmtree(path / _GONE, ignore_errors=True)
    if (path / _OLD).exists():
        give_back(path)
    _move_back(path)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
