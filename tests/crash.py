"""What a power cut may leave of a directory, at every moment of a piece of work.

    with recorded(root) as trace:
        work()
    for moment, left in trace.crashes(elsewhere):     # `left` is a copy of root as a disk may have it after a cut
        ...

The directory is looked at before every operation on files (Python's own, and those of safetensors and tokenizers), and
each version of each file and of each directory is kept. `os.fsync` makes the present version of what it is called on
durable. After a cut every file and directory has its durable version or any later one, whatever the others have; but a
rename is one step, so that nothing vanishes which was only moved. `die_at` kills the process at the n-th change.
"""

import os
import posix
import random
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from io import BytesIO, StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

CALLS = {"mkdir", "rename", "replace", "unlink", "remove", "rmdir", "fsync", "open", "truncate", "ftruncate", "utime"}
METHODS = {"write", "flush", "close", "truncate", "save", "serialize_file"}
Version = bytes | dict[str, int]


def is_operation(function: Any) -> bool:
    """Whether a built-in function may change a file."""
    name = getattr(function, "__name__", "")
    owner = type(getattr(function, "__self__", None)).__module__
    if getattr(function, "__module__", None) in ("posix", "io", "_io") and name in CALLS:
        return True
    return name in METHODS and (owner in ("_io", "tokenizers") or name == "serialize_file")


def is_change(function: Any) -> bool:
    """The same, without opening a file and without what goes to a terminal."""
    stream = getattr(function, "__self__", None)
    if isinstance(stream, StringIO | BytesIO) or getattr(stream, "name", None) in (0, 1, 2, "<stdout>", "<stderr>"):
        return False
    return is_operation(function) and function.__name__ != "open"


@dataclass
class Trace:
    """Every version of everything under a directory, and which of them were there, and durable, at which moment."""

    root: Path
    versions: dict[int, list[Version]] = field(default_factory=dict)
    durable: dict[int, int] = field(default_factory=dict)
    moments: list[tuple[dict[int, int], dict[int, int]]] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)  # of inodes, which are used again, by us
    _lock: Any = field(default_factory=threading.RLock)

    def look(self) -> None:
        """Note what has changed."""
        with self._lock:
            seen: dict[int, int] = {}
            self._see(self.root, seen)
            self._numbers = {inode: number for inode, number in self._numbers.items() if number in seen}
            if not self.moments or (seen, self.durable) != self.moments[-1]:
                self.moments.append((seen, dict(self.durable)))

    def _see(self, path: Path, seen: dict[int, int]) -> int:
        inode = path.stat().st_ino
        number = self._numbers.setdefault(inode, len(self.versions))
        folder = path.is_dir()
        held = self.versions.setdefault(number, [{} if folder else b""])
        self.durable.setdefault(number, 0)
        found: Version = (
            {name: self._see(path / name, seen) for name in os.listdir(path)} if folder else path.read_bytes()
        )
        if found != held[-1]:
            held.append(found)
        seen[number] = len(held) - 1
        return number

    def synced(self, handle: int) -> None:
        with self._lock:
            self.look()
            number = self._numbers.get(os.fstat(handle).st_ino)
            if number is not None:
                self.durable[number] = len(self.versions[number]) - 1

    def crashes(self, place: Path, *, drawn: int = 2, seed: int = 0) -> Iterator[tuple[int, Path]]:
        """(moment, a directory as a cut at that moment may leave it); the same directory is made once."""
        chance, known = random.Random(seed), set()
        for moment, (seen, durable) in enumerate(self.moments):
            synced = {number: min(durable[number], last) for number, last in seen.items()}
            # All lost; all kept; names kept and contents lost, as a file system with late allocation does it.
            names = {n: last if isinstance(self.versions[n][0], dict) else synced[n] for n, last in seen.items()}
            choices = [synced, seen, names]
            choices += [{n: chance.randint(synced[n], last) for n, last in seen.items()} for _ in range(drawn)]
            for choice in choices:
                left = self._tree(0, {**durable, **choice})
                if repr(left) not in known and self._is_possible(choice, seen, durable):
                    known.add(repr(left))
                    shutil.rmtree(place, ignore_errors=True)
                    _write(place, left)
                    yield moment, place

    def _is_possible(self, choice: dict[int, int], seen: dict[int, int], durable: dict[int, int]) -> bool:
        """Whether nothing that was only moved is nowhere, or in two places."""
        moved = set(self._reached(0, durable)) & set(self._reached(0, {**durable, **seen}))
        found = list(self._reached(0, {**durable, **choice}))
        return moved <= set(found) and len(found) == len(set(found))

    def _reached(self, number: int, which: dict[int, int]) -> Iterator[int]:
        yield number
        found = self.versions[number][which[number]]
        for one in found.values() if isinstance(found, dict) else ():
            yield from self._reached(one, which)

    def _tree(self, number: int, which: dict[int, int]) -> Any:
        found = self.versions[number][which[number]]
        return {n: self._tree(one, which) for n, one in sorted(found.items())} if isinstance(found, dict) else found


def _write(place: Path, tree: Any) -> None:
    if not isinstance(tree, dict):
        place.write_bytes(tree)
        return
    place.mkdir()
    for name, inner in tree.items():
        _write(place / name, inner)


@contextmanager
def recorded(root: Path) -> Iterator[Trace]:
    trace = Trace(root)
    trace.look()
    trace.durable.update({number: len(found) - 1 for number, found in trace.versions.items()})
    trace.moments.clear()
    real = posix.fsync  # the suite's own waits for nothing, and a profiler does not see it

    def fsync(handle: int) -> None:
        real(handle)
        trace.synced(handle)

    def watch(frame: Any, event: str, function: Any) -> None:
        if event == "c_call" and is_operation(function):
            trace.look()

    with patch.object(os, "fsync", fsync):
        before = sys.getprofile()
        sys.setprofile(watch)
        try:
            yield trace
        finally:
            sys.setprofile(before)
            trace.look()


def die_at(moment: int) -> None:
    """From here on, SIGKILL before the n-th change of a file, in whichever thread it is."""
    left = [moment]

    def watch(frame: Any, event: str, function: Any) -> None:
        if event == "c_call" and is_change(function):
            left[0] -= 1
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)

    threading.setprofile(watch)
    sys.setprofile(watch)
