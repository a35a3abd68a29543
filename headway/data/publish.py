"""Directories that appear whole: all that is in them is on the disk before they get their name.

A process may be killed, or the power may fail, between any two lines. A place then holds what it held before or what
was to be published; never a part, and never nothing where something was.
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import re
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

PREFIX = ".headway-"  # how the directories begin that are made beside a place
_WORKING = re.compile(r"\.headway-[a-z0-9_]{8}")
_GAVE_WAY = "replaced"  # in them: what stood at a place, under its name
_HERE, _EXCHANGE = -100, 2  # AT_FDCWD and RENAME_EXCHANGE of renameat2(2)
_NO_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)  # of a file system on which directories cannot be synced


def sync(path: Path) -> None:
    """Force a file, or the names in a directory, to the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC or not path.is_dir():
            raise
    finally:
        os.close(handle)


def sync_tree(directory: Path) -> None:
    """The same for all that a directory holds, and for itself."""
    for place, _, names in os.walk(directory, topdown=False):
        for name in names:
            if not (Path(place) / name).is_symlink():
                sync(Path(place) / name)
        sync(Path(place))


def make_directory(path: Path) -> None:
    """A directory and those above it, where they are not there yet; their names are on the disk afterwards."""
    fresh = [one for one in (path, *path.absolute().parents) if not one.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for one in reversed(fresh):
        sync(one.absolute().parent)


def publish(working: Path, place: Path, old: Path) -> None:
    """Give a finished directory its name. What had the name is in `working` or in `old` afterwards.

    Both change places in one step. Where the file system cannot do that, the old one moves to `old` first, and whoever
    opens the place next brings it back if the second step was never taken.
    """
    sync_tree(working)
    if not place.exists():
        working.rename(place)
    elif not exchange(working, place):
        place.rename(old)
        sync(old.parent)
        working.rename(place)
    sync(place.parent)
    if working.parent != place.parent:
        sync(working.parent)


def exchange(one: Path, other: Path) -> bool:
    """Whether two directories could change places in one step."""
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):  # another system, or an older C library
        return False
    return call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) == 0


@contextmanager
def replacing(place: Path) -> Iterator[Path]:
    """An empty directory to fill, which then gets the name `place`; nothing is left of it where that fails.

    It is made beside the place, and locked: so one that a killed process has left is known, and removed by the next.
    """
    bring_back(place)
    made, handle = _working(place.parent)
    try:
        whole, aside = made / "whole", made / _GAVE_WAY
        for one in (whole, aside):
            one.mkdir()
        yield whole
        publish(whole, place, aside / place.name)
    except OSError as error:
        if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
            raise
        raise ValueError(f"another process has written {place} meanwhile: nothing is changed") from None
    finally:
        _finish(made)
        os.close(handle)


def bring_back(place: Path) -> bool:
    """Finish what killed processes have begun beside a place; whether something stands at the place afterwards."""
    for made in place.parent.iterdir() if place.parent.is_dir() else ():
        if is_working(made):
            _finish_of_dead(made)
    return place.exists()


def is_working(path: Path) -> bool:
    """Whether it is a directory in which something was to be made: headway's own, and of no use to anybody else."""
    return bool(_WORKING.fullmatch(path.name)) and path.is_dir() and not path.is_symlink()


def _working(parent: Path) -> tuple[Path, int]:
    """A directory of this process's own, and its lock: an open file, which ends with the process."""
    while True:
        made = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
        handle = _lock_file(made)
        # Another process may have taken it for a dead one's before it was locked.
        if handle is not None and lock(handle) is not False and made.exists():
            return made, handle


def _finish_of_dead(made: Path) -> None:
    handle = _lock_file(made)
    if handle is not None:
        if lock(handle):
            _finish(made)
        os.close(handle)


def open_lock(path: Path) -> int:
    """A lock file, open to be written; nothing else is ever written in its place, and nothing waited for."""
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK, 0o666)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise _no_lock(path) from None
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise _no_lock(path)
    return handle


def _no_lock(path: Path) -> ValueError:
    return ValueError(f"{path} is a lock file's name, and what is there is a link or no file: remove it")


def _lock_file(made: Path) -> int | None:
    try:
        return open_lock(made / "lock")
    except FileNotFoundError:  # the directory has just been removed
        return None


def lock(handle: int) -> bool | None:
    """Whether an open file is this process's alone from now on; None on a file system without such locks."""
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return None
    return True


def _finish(made: Path) -> None:
    """What gave way in vain comes back, the rest goes."""
    aside = made / _GAVE_WAY
    for old in () if aside.is_symlink() else aside.glob("*"):
        if not (made.parent / old.name).exists():
            old.rename(made.parent / old.name)
            sync(made.parent)
    shutil.rmtree(made, ignore_errors=True)


def write_hashed(path: Path, parts: Iterable[Any]) -> dict[str, Any]:
    """Bytes to a file, down to the disk; returns their number and hash."""
    digest, size = hashlib.sha256(), 0
    with open(path, "wb") as file:
        for part in parts:
            file.write(part)
            digest.update(part)
            size += len(part)
        file.flush()
        os.fsync(file.fileno())
    return {"bytes": size, "sha256": digest.hexdigest()}
