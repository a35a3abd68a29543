"""Hashes of files and of records: what was written is compared with what is read."""

import hashlib
import json
import math
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headway.config.read_file import open_file

_CHUNK = 1 << 24


def hash_of(path: Path, limit: int | None = None) -> dict[str, Any]:
    """Size and hash of a regular file, or of its first `limit` bytes."""
    digest, size = hashlib.sha256(), 0
    with open_file(path) as file:
        while part := file.read(_CHUNK if limit is None else min(_CHUNK, limit - size)):
            digest.update(part)
            size += len(part)
    return {"bytes": size, "sha256": digest.hexdigest()}


def stamp(body: Mapping[str, Any]) -> str:
    """The hash of a record, which is kept in it.

    >>> stamp({"a": 1, "b": 2}) == stamp({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


@dataclass(frozen=True)
class FileHash:
    """What a file was when it was hashed, and what to do where it is that no more."""

    bytes: int
    sha256: str
    way_out: str

    def problem(self, path: Path, *, size_only: bool = False) -> str | None:
        """Why the file is not what it was; None where it is."""
        try:
            same = path.stat().st_size == self.bytes
            if same and not size_only:
                same = hash_of(path)["sha256"] == self.sha256
        except (OSError, ValueError) as error:
            return f"{path} cannot be verified ({error}): {self.way_out}"
        return None if same else f"{path} is not what it was, its hash has changed: {self.way_out}"


START = 1 << 28  # bytes that are hashed before a run begins, which takes about a second; the rest is hashed meanwhile


def verify_first(expected: Mapping[Path, FileHash], *, whole: bool = False) -> dict[Path, FileHash]:
    """Compare the sizes of all files and the hashes of the smallest, START bytes in all; returns the others.

    `whole` compares all hashes, however long it takes.
    """
    left, spent, limit = {}, 0, math.inf if whole else START
    for path, said in sorted(expected.items(), key=lambda one: one[1].bytes):
        spent += said.bytes
        if (problem := said.problem(path, size_only=spent > limit)) is not None:
            raise ValueError(problem)
        if spent > limit:
            left[path] = said
    return left


class BackgroundCheck:
    """A thread that hashes files while a run goes on; `problem` is what it has found."""

    def __init__(self, expected: Mapping[Path, FileHash] | None = None) -> None:
        self.problem: str | None = None
        self._expected = dict(expected or {})
        self._thread = threading.Thread(target=self._run, name="hashes", daemon=True) if self._expected else None
        if self._thread is not None:
            self._thread.start()

    def wait(self) -> str | None:
        """The same when all files have been looked at."""
        if self._thread is not None:
            self._thread.join()
        return self.problem

    def _run(self) -> None:
        for path, said in self._expected.items():
            if (problem := said.problem(path)) is not None:
                self.problem = problem
                return
