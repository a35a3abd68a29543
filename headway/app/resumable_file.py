"""A file that is written in steps and gets its name when it is whole.

    out.npy.part       what is written so far
    out.npy.progress   what it is made from, how much is done, and the hash of that

A run that was interrupted, even by a power cut, goes on from the last step that was noted; one with another source
refuses to.
"""

import hashlib
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import torch

from headway.config.read_file import read_object
from headway.data.hashes import stamp
from headway.data.lock import is_same
from headway.data.publish import lock, sync

_CHUNK = 1 << 24


class ResumableFile:
    """The steps towards one file; use it in a `with`. `done` is None where there is nothing to go on from.

    `notes` are numbers that were counted on the way, kept with the last step.
    """

    def __init__(
        self, out: Path, source: Mapping[str, Any], *, overwrite: bool, say: Callable[[str], None] = lambda line: None
    ) -> None:
        check_place(out, overwrite)
        self.out, self.source = out, dict(source)
        self.part, self.record = (out.with_name(out.name + ending) for ending in (".part", ".progress"))
        for path in (self.part, self.record):
            if path.is_symlink() or (path.exists() and not path.is_file()):
                raise ValueError(f"{path} is a link or no file, and what is done so far is kept there: remove it")
        begun = self.part.exists() and self.record.exists()
        self.file: BinaryIO = self.part.open("r+b" if begun else "ab")
        self.done: int | None = None
        self.notes: dict[str, int] = {}
        self._digest = hashlib.sha256()
        try:
            self._alone()
            self.done = self._resumed(overwrite, say) if begun else None
        except BaseException:
            self.file.close()
            raise

    def __enter__(self) -> "ResumableFile":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.file.close()

    def begin(self, head: bytes) -> int:
        """Whatever was there before is gone."""
        self.file.seek(0)
        self.file.truncate(0)
        self._digest = hashlib.sha256()
        return self.add(head, 0)

    def add(self, data: bytes, done: int, **notes: int) -> int:
        """One step more; it is on the disk before the record says so."""
        self.file.write(data)
        self._digest.update(data)
        self.file.flush()
        os.fsync(self.file.fileno())
        fresh = self.record.with_name(self.record.name + ".new")
        state = {"done": done, "bytes": self.file.tell(), "setup": _setup(), "notes": notes}
        body = {**self.source, **state, "sha256": self._digest.hexdigest()}
        fresh.write_text(json.dumps({**body, "stamp": stamp(body)}), "utf-8")
        sync(fresh)
        fresh.replace(self.record)
        sync(self.record.parent)
        self.done, self.notes = done, notes
        return done

    def finish(self) -> None:
        """The file gets its name."""
        self.part.replace(self.out)
        sync(self.out.parent)
        self.record.unlink()

    def _alone(self) -> None:
        """Two runs into one file would spoil it; the lock goes with the run."""
        if lock(self.file.fileno()) is False:
            raise ValueError(f"another run is writing to {self.part}")
        if not is_same(self.file.fileno(), self.part):
            raise ValueError(f"another run has just finished {self.out}: start this one again")

    def _resumed(self, overwrite: bool, say: Callable[[str], None]) -> int | None:
        """How much is done already, the file cut to it; None where it is of no use."""
        before = read_object(self.record)
        changed = [name for name, value in self.source.items() if before.get(name) != value]
        if changed and overwrite:
            return None
        both = f"{self.part} and {self.record.name}"
        if changed:
            raise ValueError(f"{self.part} was begun with another {changed[0]}: remove {both}, or add --overwrite")
        said = before.pop("stamp", None)
        if said is not None and stamp(before) != said:
            raise ValueError(f"{self.record} is not what was written: remove {both} to begin again")
        if self.file.seek(0, os.SEEK_END) < before["bytes"]:
            raise ValueError(f"{self.part} is shorter than it was: remove {both} to begin again")
        self._verify(before, both, say)
        if before["setup"] != _setup():
            say(f"begun with {before['setup']}, now {_setup()}: the last digits may differ from those of one run")
        self.notes = before.get("notes", {})
        self.file.truncate(before["bytes"])
        self.file.seek(before["bytes"])
        return before["done"]

    def _verify(self, before: Mapping[str, Any], both: str, say: Callable[[str], None]) -> None:
        """Hash what is there, all of it: reading takes little of the time that it took to compute."""
        self.file.seek(0)
        left = before["bytes"]
        while left and (data := self.file.read(min(_CHUNK, left))):
            self._digest.update(data)
            left -= len(data)
        if "sha256" not in before:
            say(f"{self.part} was begun without a hash: there is nothing to verify it by")
        elif before["sha256"] != self._digest.hexdigest():
            raise ValueError(f"{self.part} is not what was written, its hash has changed: remove {both} to begin again")


def check_place(out: Path, overwrite: bool) -> None:
    """Refuse a place that cannot be written to, if need be before anything else is done."""
    try:
        if out.is_dir():
            raise ValueError(f"{out} is a directory: choose a file")
        if out.exists() and not overwrite:
            raise ValueError(f"{out} exists: choose another place, or add --overwrite")
        if not out.parent.is_dir():
            raise ValueError(f"{out.parent} is no directory")
        _try_to_write(out)
    except OSError as error:
        raise ValueError(f"{out} cannot be written: {(error.strerror or str(error)).lower()}") from None


def _try_to_write(out: Path) -> None:
    """Permissions do not tell of every file system, so that a file with a name as long as ours is made and removed."""
    part = out.with_name(out.name + ".part")
    if part.exists():
        part.open("r+b").close()
    tempfile.NamedTemporaryFile(dir=out.parent, prefix=part.name).close()


def _setup() -> str:
    return f"torch {torch.__version__}, {torch.get_num_threads()} threads"
