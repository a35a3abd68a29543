"""Text tokenised once, into memory-mapped files of tokens with a manifest that says what they are made of.

A directory of shards holds shard-00000.npy …, the tokens; documents.npy, where documents begin; marks.npy, places of
which both the token and the byte of text are known; and manifest.json, which is written whole or not at all.
Each document is followed by the tokenizer's end token, and the first is preceded by one, where it has any.
"""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from mmap import ACCESS_READ, mmap
from pathlib import Path
from tokenize import TokenError  # numpy parses the header of an array as Python

import numpy as np

from headway.config.file_errors import errors_of
from headway.config.read_file import open_file
from headway.data.files import read_json
from headway.data.hashes import FileHash
from headway.data.tokenizer import Tokenizer

MANIFEST, DOCUMENTS, MARKS = "manifest.json", "documents.npy", "marks.npy"


def tokenizer_hash(tokenizer: Tokenizer) -> str:
    """Two tokenizers of one hash make the same tokens of the same text."""
    said = tokenizer.engine.to_str() + json.dumps(tokenizer.special, sort_keys=True)
    return hashlib.sha256(said.encode()).hexdigest()


def shard_name(number: int, kind: str = "") -> str:
    return f"shard-{number:05d}{kind}.npy"


def open_array(path: Path) -> np.ndarray:
    """A file of numbers as an array that the system reads when it is looked at."""
    return MappedArray(path).array


class MappedArray:
    """The same, and whether the file is still as long as it was: looking at what is cut off would end the process."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with open_file(path) as file:
                if np.lib.format.read_magic(file) != (1, 0):
                    raise ValueError("another version of the format")
                shape, _, dtype = np.lib.format.read_array_header_1_0(file)
                self._file = mmap(file.fileno(), 0, access=ACCESS_READ)
                # A plain array over the mapping: numpy's own class makes each slice several times as slow.
                self.array = np.ndarray(shape, dtype, self._file, file.tell())
        except (OSError, ValueError, TypeError, EOFError, SyntaxError, TokenError) as error:
            raise ValueError(f"{path} cannot be read ({error}): remove {path.parent}, and it is made again") from None
        self._bytes = len(self._file)

    def __len__(self) -> int:
        return len(self.array)

    def checked(self) -> np.ndarray:
        """The array, to be looked at now; asking for the size takes a microsecond."""
        if self._file.size() < self._bytes:
            raise ValueError(
                f"{self.path} was cut short while it was read: remove {self.path.parent}, and it is made again"
            )
        return self.array


def shard_hashes(directory: Path, manifest: dict) -> dict[Path, FileHash]:
    """What the manifest says of its files; nothing of those that were written before there were hashes."""
    way_out = f"remove {directory}, and it is made again"
    listed = {shard_name(number): said for number, said in enumerate(manifest["shards"])} | manifest.get("files", {})
    return {
        directory / name: FileHash(said["bytes"], said["sha256"], way_out)
        for name, said in listed.items()
        if "sha256" in said
    }


class Shards:
    """The tokens of all documents, one after the other; only what is looked at is read."""

    def __init__(self, directory: Path, manifest: dict) -> None:
        self.directory, self.manifest = directory, manifest
        self.unverified: dict[Path, FileHash] = {}  # files whose hashes are still to be compared
        self.parts = [MappedArray(directory / shard_name(number)) for number in range(len(manifest["shards"]))]
        for number, (part, said) in enumerate(zip(self.parts, manifest["shards"], strict=True)):
            if len(part) != said["tokens"]:
                raise ValueError(
                    f"{directory / shard_name(number)} has {len(part)} tokens where the manifest says "
                    f"{said['tokens']}: remove {directory}, and it is made again"
                )
        if type(manifest["bytes"]) is not int or manifest["bytes"] < 0 or not isinstance(manifest["end"], int | None):
            raise ValueError(
                f"{directory / MANIFEST} says neither a number of bytes nor an end token, but "
                f"{manifest['bytes']!r} and {manifest['end']!r}: remove {directory}, and it is made again"
            )
        if not self.parts:
            raise ValueError(f"{directory / MANIFEST} names no shard: remove {directory}, and it is made again")
        self.offsets = np.cumsum([0, *(len(part) for part in self.parts)])

    @classmethod
    def open(cls, directory: str | Path) -> "Shards":
        place = Path(directory)
        if not (place / MANIFEST).exists():
            raise ValueError(f"{place} has no {MANIFEST}, so it holds no tokens that can be used")
        manifest = read_json(place / MANIFEST)
        if not manifest.get("finished"):
            raise ValueError(f"{place} holds tokens of a part of the data only: start the same training once more")
        with errors_of(place / MANIFEST):
            return cls(place, manifest)

    @property
    def total(self) -> int:
        """How many tokens there are, end tokens included."""
        return int(self.offsets[-1])

    @property
    def bytes(self) -> int:
        """The length of the text in UTF-8."""
        return int(self.manifest["bytes"])

    @property
    def documents(self) -> np.ndarray:
        """Where each document begins; it ends, end token included, where the next one begins."""
        return self._places[DOCUMENTS].checked()

    @property
    def marks(self) -> np.ndarray:
        """Rows of (token, byte): the text before this byte is the tokens before this token."""
        return self._places[MARKS].checked()

    @cached_property
    def _places(self) -> dict[str, MappedArray]:
        return {name: MappedArray(self.directory / name) for name in (DOCUMENTS, MARKS)}

    def read(self, start: int, stop: int) -> np.ndarray:
        """Tokens start … stop - 1, across the shards that hold them."""
        if not 0 <= start <= stop <= self.total:
            raise ValueError(f"tokens {start} to {stop} were asked for, and there are {self.total}")
        first, last = (int(found) for found in np.searchsorted(self.offsets[1:-1], [start, stop], side="right"))
        pieces = [
            self.parts[part].checked()[max(start - self.offsets[part], 0) : stop - self.offsets[part]]
            for part in range(first, last + 1)
        ]
        return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)

    def gather(self, starts: np.ndarray, length: int) -> np.ndarray:
        """The `length` tokens from each start on, as rows of int64."""
        part = int(np.searchsorted(self.offsets[1:-1], starts[0], side="right")) if len(self.parts) > 1 else 0
        if starts.min() >= self.offsets[part] and starts.max() + length <= self.offsets[part + 1]:
            return (
                self.parts[part].checked()[(starts - self.offsets[part])[:, None] + np.arange(length)].astype(np.int64)
            )
        return np.stack([self.read(int(start), int(start) + length) for start in starts]).astype(np.int64)

    def view(self) -> "TokenView":
        return TokenView(self, 0, self.total, self.bytes)

    def split(self, held: float) -> tuple["TokenView", "TokenView"]:
        """The first part to learn from, and the last `held` of the tokens to measure with, cut at the nearest mark.

        The second begins one token early: that token is what its first prediction is made from, so every token is
        predicted by one of the two and none by both.
        """
        if not 0 <= held < 1:
            raise ValueError(f"the share of data that is held back is at least 0 and below 1, not {held}")
        token, byte = self._mark((1 - held) * self.total) if held else (self.total, self.bytes)
        return TokenView(self, 0, token, byte), TokenView(self, token - 1, self.total, self.bytes - byte)

    def _mark(self, token: float) -> tuple[int, int]:
        """The mark nearest to a token; the first does not count, because nothing stands before it."""
        inner = self.marks[1:]
        if not len(inner):
            raise ValueError(
                f"a text of {self.total} tokens is too small to hold back a part of it: give more text, or validation "
                "data of its own"
            )
        after = min(int(np.searchsorted(inner[:, 0], token)), len(inner) - 1)
        nearest = min((max(after - 1, 0), after), key=lambda place: abs(int(inner[place, 0]) - token))
        return int(inner[nearest, 0]), int(inner[nearest, 1])


@dataclass(frozen=True)
class TokenView:
    """A stretch of tokens. Its first token is only ever looked at; `bytes` is the text of all that follow it.

    That is exact where the tokenizer has an end token; where not, the first token of the first document is missing.
    """

    shards: Shards
    start: int
    stop: int
    bytes: int

    @property
    def total(self) -> int:
        return self.stop - self.start

    @property
    def documents(self) -> np.ndarray:
        """Where documents begin, counted from the view's own first token."""
        every = self.shards.documents
        first, last = np.searchsorted(every, [self.start, self.stop])
        return every[first:last] - self.start

    def read(self, start: int, stop: int) -> np.ndarray:
        return self.shards.read(self.start + start, self.start + stop)

    def gather(self, starts: np.ndarray, length: int) -> np.ndarray:
        return self.shards.gather(self.start + starts, length)
