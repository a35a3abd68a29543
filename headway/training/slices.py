"""Boxes of tensors: what a process holds of one, and any part of one read back from a safetensors file."""

from dataclasses import dataclass
from pathlib import Path

from safetensors import safe_open
from torch import Tensor
from torch.distributed.tensor import DTensor


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

        >>> import torch
        >>> Share.of(torch.zeros(7, 3)).rows(2, 4).shape
        (4, 3)
        """
        shape = (count, *self.shape[1:])
        found = self.piece.common(Piece((start, *(0 for _ in shape[1:])), shape))
        offset = (max(0, found.offset[0] - start), *found.offset[1:])
        return Share(self.held[found.within(self.piece)], Piece(offset, found.shape), shape)


def read(path: Path, name: str, wanted: tuple[slice, ...]) -> Tensor:
    """A part of a tensor in a file; only its bytes are read."""
    with safe_open(path, framework="pt") as file:
        # A tensor without axes has nothing to slice.
        return file.get_slice(name)[wanted] if wanted else file.get_tensor(name)


def local_part(tensor: Tensor) -> Tensor:
    """The memory of a tensor in this process, without gradients of its own."""
    return (tensor.to_local() if isinstance(tensor, DTensor) else tensor).detach()
