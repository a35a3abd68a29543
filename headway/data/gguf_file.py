"""GGUF files: metadata and tensors in one file, as llama.cpp writes them. Headers are read and checked before any body.

    GGUF | version | counts | metadata | names, shapes, types and offsets of tensors | padding | tensors

Nothing in a file is believed: counts, lengths and offsets have to lie in it. Quantised tensors are blocks of 32 weights
with one scale of 16 bits (and one minimum); they are read as stored numbers and scales, apart.
"""

import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import pairwise
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

MAGIC = b"GGUF"
VERSIONS = (2, 3)
BLOCK = 32
MOST_AXES = 4
# Number of a type of metadata -> its struct format; strings and arrays are apart.
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9


@dataclass(frozen=True)
class TensorType:
    """How weights are stored: `bytes` hold `count` of them."""

    name: str
    count: int
    bytes: int


TYPES = {
    0: TensorType("f32", 1, 4),
    1: TensorType("f16", 1, 2),
    2: TensorType("q4_0", BLOCK, 18),
    3: TensorType("q4_1", BLOCK, 20),
    8: TensorType("q8_0", BLOCK, 34),
    30: TensorType("bf16", 1, 2),
}
OTHER_TYPES = {6: "q5_0", 7: "q5_1", 10: "q2_K", 11: "q3_K", 12: "q4_K", 13: "q5_K", 14: "q6_K", 15: "q8_K"}


@dataclass(frozen=True)
class TensorInfo:
    """What the header says of one tensor: rows first, as torch counts axes."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    start: int  # in the file
    size: int  # bytes


@dataclass(frozen=True)
class Blocks:
    """Quantised weights [O, I]: numbers of 8 bits or from 0 to 15, scales and minimums [O, I / 32] of 16 bits."""

    numbers: np.ndarray
    scale: np.ndarray
    minimum: np.ndarray | None


class GGUFFile:
    """A file that was checked: `metadata` by key, `tensors` by name."""

    def __init__(self, path: Path) -> None:
        self.path = path
        with path.open("rb") as file:
            try:
                self._bytes: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except ValueError:  # an empty file cannot be mapped
                self._bytes = b""
        self._at = 0
        self._read()

    def _read(self) -> None:
        if self._take(4, "its first bytes") != MAGIC:
            raise self._wrong("it does not begin with GGUF")
        version = self._number("I")
        if version not in VERSIONS:
            raise self._wrong(f"its version is {version}, and headway reads {' and '.join(map(str, VERSIONS))}")
        count, keys = self._number("Q"), self._number("Q")
        self._check_count(count, 24, "tensors")
        self._check_count(keys, 12, "keys")
        self.metadata: dict[str, Any] = {}
        for _ in range(keys):
            key = self._text()
            if key in self.metadata:
                raise self._wrong(f"the key {key!r} stands there twice")
            self.metadata[key] = self._value(self._number("I"), key)
        heads = [self._head() for _ in range(count)]
        self.tensors = self._placed(heads)

    def _placed(self, heads: list[tuple[str, tuple[int, ...], TensorType, int]]) -> dict[str, TensorInfo]:
        """Tensors by name, each within the file and none over another."""
        alignment = self.metadata.get("general.alignment", 32)
        if not isinstance(alignment, int) or alignment < 8 or alignment & (alignment - 1):
            raise self._wrong(f"general.alignment is {alignment!r}, and no power of two from 8 on")
        begin = -(-self._at // alignment) * alignment
        found: dict[str, TensorInfo] = {}
        for name, shape, kind, offset in heads:
            size = prod(shape) // kind.count * kind.bytes
            if name in found:
                raise self._wrong(f"the tensor {name!r} stands there twice")
            if offset % alignment or begin + offset + size > len(self._bytes):
                raise self._wrong(
                    f"the tensor {name!r} has {size:,} bytes from {begin + offset:,} on, and the file has "
                    f"{len(self._bytes):,}"
                )
            found[name] = TensorInfo(name, shape, kind, begin + offset, size)
        ordered = sorted(found.values(), key=lambda one: one.start)
        for one, other in pairwise(ordered):
            if one.start + one.size > other.start:
                raise self._wrong(f"the tensors {one.name!r} and {other.name!r} lie over each other")
        return found

    def _head(self) -> tuple[str, tuple[int, ...], TensorType, int]:
        name, axes = self._text(), self._number("I")
        if not 1 <= axes <= MOST_AXES:
            raise self._wrong(f"the tensor {name!r} has {axes} axes")
        shape = tuple(self._number("Q") for _ in range(axes))[::-1]
        kind, offset = self._number("I"), self._number("Q")
        if kind not in TYPES:
            known = ", ".join(one.name for one in TYPES.values())
            other = OTHER_TYPES.get(kind, f"number {kind}")
            raise self._wrong(f"the tensor {name!r} is of type {other}; headway reads {known}")
        if min(shape) < 1 or prod(shape) > 8 * len(self._bytes):
            raise self._wrong(f"the tensor {name!r} has the shape {shape}, which the file cannot hold")
        if shape[-1] % TYPES[kind].count:
            raise self._wrong(f"the tensor {name!r} has {shape[-1]} columns, no whole blocks of {TYPES[kind].count}")
        return name, shape, TYPES[kind], offset

    def _value(self, kind: int, key: str) -> Any:
        if kind == STRING:
            return self._text()
        if kind in SCALARS:
            return self._number(SCALARS[kind])
        if kind != ARRAY:
            raise self._wrong(f"the key {key!r} has a value of type {kind}, which nobody has defined")
        inner, count = self._number("I"), self._number("Q")
        if inner == STRING:
            self._check_count(count, 8, f"strings of {key!r}")
            return [self._text() for _ in range(count)]
        if inner not in SCALARS:
            raise self._wrong(f"the key {key!r} has an array of type {inner}, which headway does not read")
        code = SCALARS[inner]
        self._check_count(count, struct.calcsize(code), f"numbers of {key!r}")
        return list(struct.unpack(f"<{count}{code}", self._take(count * struct.calcsize(code), key)))

    def _number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._take(struct.calcsize(f"<{code}"), "a number"))[0]

    def _text(self) -> str:
        size = self._number("Q")
        try:
            return self._take(size, "a text").decode()
        except UnicodeDecodeError:
            raise self._wrong("a text in it is not UTF-8") from None

    def _take(self, size: int, what: str) -> bytes:
        if size > len(self._bytes) - self._at:
            raise self._wrong(f"it ends within {what}")
        self._at += size
        return self._bytes[self._at - size : self._at]

    def _check_count(self, count: int, each: int, what: str) -> None:
        if count > (len(self._bytes) - self._at) // each:
            raise self._wrong(f"it announces {count:,} {what}, more than it can hold")

    def _wrong(self, why: str) -> ValueError:
        return ValueError(f"{self.path} is no GGUF file that can be read: {why}")

    @cached_property
    def _array(self) -> np.ndarray:
        return np.frombuffer(self._bytes, np.uint8)

    def _body(self, name: str) -> np.ndarray:
        info = self.tensors[name]
        return self._array[info.start : info.start + info.size]

    def blocks(self, name: str) -> Blocks:
        """A quantised matrix as it is stored."""
        info = self.tensors[name]
        rows = self._body(name).reshape(*info.shape[:-1], info.shape[-1] // BLOCK, info.type.bytes)
        found = _BLOCKS[info.type.name](rows)
        if not (np.isfinite(found.scale).all() and (found.minimum is None or np.isfinite(found.minimum).all())):
            raise self._wrong(f"scales of the tensor {name!r} are not finite")
        return found

    def floats(self, name: str) -> np.ndarray:
        """Any tensor in float32."""
        info = self.tensors[name]
        if info.type.count == 1:
            return _FLOATS[info.type.name](self._body(name)).reshape(info.shape)
        found = self.blocks(name)
        numbers = found.numbers.reshape(*found.scale.shape, BLOCK).astype(np.float32)
        numbers -= 8 if info.type.name == "q4_0" else 0
        numbers *= found.scale[..., None].astype(np.float32)
        if found.minimum is not None:
            numbers += found.minimum[..., None].astype(np.float32)
        return numbers.reshape(info.shape)


def is_gguf(path: Path) -> bool:
    return path.suffix == ".gguf" and path.is_file()


def read_gguf(path: Path) -> GGUFFile:
    """The checked header of a file; the last one is kept as long as its file stays as it is."""
    found = path.stat()
    return _read_gguf(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=1)
def _read_gguf(path: Path, changed: int, size: int) -> GGUFFile:
    return GGUFFile(path)


def _halves(rows: np.ndarray, start: int) -> np.ndarray:
    """Numbers of 4 bits: the first 16 of a block in the low halves of its bytes, the others in the high ones."""
    found = rows[..., start:]
    return np.concatenate([found & 15, found >> 4], -1).reshape(*rows.shape[:-2], -1)


def _sixteen(rows: np.ndarray, start: int) -> np.ndarray:
    return np.ascontiguousarray(rows[..., start : start + 2]).view("<f2")[..., 0]


_BLOCKS: dict[str, Callable[[np.ndarray], Blocks]] = {
    "q4_0": lambda rows: Blocks(_halves(rows, 2), _sixteen(rows, 0), None),
    "q4_1": lambda rows: Blocks(_halves(rows, 4), _sixteen(rows, 0), _sixteen(rows, 2)),
    "q8_0": lambda rows: Blocks(
        np.ascontiguousarray(rows[..., 2:]).view(np.int8).reshape(*rows.shape[:-2], -1), _sixteen(rows, 0), None
    ),
}
_FLOATS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "f32": lambda body: np.frombuffer(body.tobytes(), "<f4").copy(),
    "f16": lambda body: np.frombuffer(body.tobytes(), "<f2").astype(np.float32),
    "bf16": lambda body: (np.frombuffer(body.tobytes(), "<u2").astype(np.uint32) << 16).view(np.float32),
}
