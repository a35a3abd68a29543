"""A file that is written in steps and gets its name when it is whole.

    out.npy.part       what is written so far
    out.npy.progress   what it is made from, and how much is done

A run that was interrupted, even by a power cut, goes on from the last step that was noted; one with another source
refuses to.
"""

import fcntl
import json
import os
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO

import torch


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
        begun = self.part.exists() and self.record.exists()
        self.file: BinaryIO = self.part.open("r+b" if begun else "ab")
        self.done: int | None = None
        self.notes: dict[str, int] = {}
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
        return self.add(head, 0)

    def add(self, data: bytes, done: int, **notes: int) -> int:
        """One step more; it is on the disk before the record says so."""
        self.file.write(data)
        self.file.flush()
        os.fsync(self.file.fileno())
        fresh = self.record.with_name(self.record.name + ".new")
        state = {"done": done, "bytes": self.file.tell(), "setup": _setup(), "notes": notes}
        fresh.write_text(json.dumps({**self.source, **state}), "utf-8")
        fresh.replace(self.record)
        self.done, self.notes = done, notes
        return done

    def finish(self) -> None:
        """The file gets its name."""
        self.part.replace(self.out)
        self.record.unlink()

    def _alone(self) -> None:
        """Two runs into one file would spoil it; the lock goes with the run."""
        try:
            fcntl.flock(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise ValueError(f"another run is writing to {self.part}") from None

    def _resumed(self, overwrite: bool, say: Callable[[str], None]) -> int | None:
        """How much is done already, the file cut to it; None where it is of no use."""
        before = json.loads(self.record.read_text("utf-8"))
        changed = [name for name, value in self.source.items() if before.get(name) != value]
        if changed and overwrite:
            return None
        both = f"{self.part} and {self.record.name}"
        if changed:
            raise ValueError(f"{self.part} was begun with another {changed[0]}: remove {both}, or add --overwrite")
        if self.file.seek(0, os.SEEK_END) < before["bytes"]:
            raise ValueError(f"{self.part} is shorter than it was: remove {both} to begin again")
        if before["setup"] != _setup():
            say(f"begun with {before['setup']}, now {_setup()}: the last digits may differ from those of one run")
        self.notes = before.get("notes", {})
        self.file.truncate(before["bytes"])
        self.file.seek(before["bytes"])
        return before["done"]


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
