"""Pieces of tensors in safetensors files: what a process holds, written in one pass, and any part read back.

The format is a header of names, dtypes, shapes and places in JSON, then the bytes. It is written here and not by its
library, since that refuses tensors that share memory, wants all of them copied first, and
does not hash what it writes.
"""

import hashlib
import json
import os
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor
from torch.distributed.tensor import DTensor

DTYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.int64: "I64",
    torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8", torch.bool: "BOOL",
}  # fmt: skip
_CHUNK = 1 << 24


@dataclass(frozen=True)
class Piece:
    """A box of a larger tensor: where it begins, and how far it reaches along each axis."""

    offset: tuple[int, ...]
    shape: tuple[int, ...]

    @property
    def empty(self) -> bool:
        return 0 in self.shape

    def common(self, other: "Piece") -> "Piece":
        """The box that both hold.

        >>> Piece((2, 0), (3, 7)).common(Piece((0, 5), (4, 9)))
        Piece(offset=(2, 5), shape=(2, 2))
        """
        starts = tuple(max(a, b) for a, b in zip(self.offset, other.offset, strict=True))
        ends = (min(a, b) for a, b in zip(self.ends, other.ends, strict=True))
        return Piece(starts, tuple(max(0, end - start) for start, end in zip(starts, ends, strict=True)))

    @property
    def ends(self) -> tuple[int, ...]:
        return tuple(start + size for start, size in zip(self.offset, self.shape, strict=True))

    def within(self, other: "Piece") -> tuple[slice, ...]:
        """This box as slices of the other one."""
        bounds = zip(self.offset, self.ends, other.offset, strict=True)
        return tuple(slice(start - base, end - base) for start, end, base in bounds)


@dataclass(frozen=True, eq=False)
class Share:
    """What this process holds of a tensor, which may be all of it: the memory itself, and which box it is."""

    held: Tensor
    piece: Piece
    shape: tuple[int, ...]

    @classmethod
    def of(cls, tensor: Tensor) -> "Share":
        held = local_part(tensor)
        if not isinstance(tensor, DTensor):
            return cls(held, Piece((0,) * tensor.ndim, tuple(tensor.shape)), tuple(tensor.shape))
        (chunk,) = tensor.__create_chunk_list__()
        return cls(held, Piece(tuple(chunk.offsets), tuple(chunk.sizes)), tuple(tensor.shape))

    def rows(self, start: int, count: int) -> "Share":
        """What is held of these rows, as a share of them alone.

        >>> Share.of(torch.zeros(7, 3)).rows(2, 4).shape
        (4, 3)
        """
        shape = (count, *self.shape[1:])
        found = self.piece.common(Piece((start, *(0 for _ in shape[1:])), shape))
        offset = (max(0, found.offset[0] - start), *found.offset[1:])
        return Share(self.held[found.within(self.piece)], Piece(offset, found.shape), shape)


def write(path: Path, tensors: Mapping[str, Tensor]) -> dict[str, Any]:
    """A safetensors file, safely on the disk; returns its size and hash."""
    # Wide numbers first: then each tensor begins at a multiple of its own width, and can be mapped as it is.
    ordered = sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))
    header, place = {}, 0
    for name in ordered:
        tensor, end = tensors[name], place + tensors[name].nbytes
        header[name] = {"dtype": DTYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [place, end]}
        place = end
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return write_whole(path, (struct.pack("<Q", len(text)), text, *(_bytes(tensors[name]) for name in ordered)))


def write_whole(path: Path, parts: Iterable[Any]) -> dict[str, Any]:
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


def _bytes(tensor: Tensor) -> Any:
    return tensor.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def hash_of(path: Path) -> dict[str, Any]:
    """Size and hash of a file, as `write` returns them."""
    digest, size = hashlib.sha256(), 0
    with open(path, "rb") as file:
        while part := file.read(_CHUNK):
            digest.update(part)
            size += len(part)
    return {"bytes": size, "sha256": digest.hexdigest()}


def read(path: Path, name: str, wanted: tuple[slice, ...]) -> Tensor:
    """A part of a tensor in a file; only its bytes are read."""
    with safe_open(path, framework="pt") as file:
        # A tensor without axes has nothing to slice.
        return file.get_slice(name)[wanted] if wanted else file.get_tensor(name)


def local_part(tensor: Tensor) -> Tensor:
    """The memory of a tensor in this process, without gradients of its own."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()
