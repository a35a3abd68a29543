"""Position embeddings and biases that a model holds.

An embedding adds the position's vector to the token's: `x = positions(x, positions_of_x)`. A bias holds its numbers and
hands the attention an `ops.position.Bias`, a rule over positions.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.nn.init import normal
from headway.ops.bias import Alibi, Clipped, Relative, alibi_slopes
from headway.ops.position import sinusoidal, sinusoidal_cells


def embedding(count: int, width: int) -> nn.Embedding:
    """A table of vectors, drawn from N(0, 1) as torch draws it, or without memory on meta."""
    weight = torch.empty(count, width)
    normal(weight, std=1.0)
    return nn.Embedding(count, width, _weight=weight)


class SinusoidalPositions(nn.Module):
    """x + sinusoidal(positions): nothing to learn, any position, any width (arXiv:1706.03762)."""

    def __init__(self, width: int, *, base: float = 10000.0) -> None:
        super().__init__()
        self.width, self.base = width, base

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "*b L"]) -> Float[Tensor, "B L D"]:
        return _add(x, sinusoidal(positions, width=self.width, base=self.base, dtype=x.dtype))

    def extra_repr(self) -> str:
        return f"{self.width}, base={self.base}"


class LearnedPositions(nn.Module):
    """x + weight[positions]: one learned vector per position, and none past the table."""

    def __init__(self, length: int, width: int, *, std: float = 0.02, generator: torch.Generator | None = None) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(length, width))
        normal(self.weight, std=std, generator=generator)

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "*b L"]) -> Float[Tensor, "B L D"]:
        _check_range(positions, len(self.weight), "learned positions")
        return _add(x, F.embedding(positions, self.weight))

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)


class SinusoidalGridPositions(nn.Module):
    """x + sinusoidal_cells(y, x): half of the channels for the row, half for the column.

    Positions number the cells row by row: position p is cell (p // columns, p % columns).
    """

    def __init__(self, rows: int, columns: int, width: int, *, base: float = 10000.0) -> None:
        super().__init__()
        self.rows, self.columns, self.width, self.base = rows, columns, width, base

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "*b L"]) -> Float[Tensor, "B L D"]:
        _check_range(positions, self.rows * self.columns, f"cells of a {self.rows} x {self.columns} grid")
        y, column = positions // self.columns, positions % self.columns
        return _add(x, sinusoidal_cells(y, column, width=self.width, base=self.base, dtype=x.dtype))

    def extra_repr(self) -> str:
        return f"{self.rows}, {self.columns}, {self.width}, base={self.base}"


class LearnedGridPositions(nn.Module):
    """x + [row[y], column[x]]: a learned half-vector per row and per column, Y + X of them where a table has Y · X.

    Positions number the cells row by row: position p is cell (p // columns, p % columns).
    """

    def __init__(
        self, rows: int, columns: int, width: int, *, std: float = 0.02, generator: torch.Generator | None = None
    ) -> None:
        super().__init__()
        if width % 2:
            raise ValueError(f"a grid embedding gives half of its channels to y and half to x: width {width} is odd")
        self.row = nn.Parameter(torch.empty(rows, width // 2))
        self.column = nn.Parameter(torch.empty(columns, width // 2))
        normal(self.row, std=std, generator=generator)
        normal(self.column, std=std, generator=generator)

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "*b L"]) -> Float[Tensor, "B L D"]:
        rows, columns = len(self.row), len(self.column)
        _check_range(positions, rows * columns, f"cells of a {rows} x {columns} grid")
        halves = F.embedding(positions // columns, self.row), F.embedding(positions % columns, self.column)
        return _add(x, torch.cat(halves, dim=-1))

    def extra_repr(self) -> str:
        return f"{len(self.row)}, {len(self.column)}, {2 * self.row.shape[1]}"


class RelativeBias(nn.Module):
    """The learned numbers of `ops.position.Relative`: one per bucket of differences and head (arXiv:1910.10683)."""

    def __init__(
        self, heads: int, *, buckets: int = 32, max_distance: int = 128, bidirectional: bool = True, std: float = 0.02
    ) -> None:
        super().__init__()
        self.max_distance, self.bidirectional = max_distance, bidirectional
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        normal(self.weight, std=std)
        self()

    def forward(self) -> Relative:
        return Relative(self.weight, bidirectional=self.bidirectional, max_distance=self.max_distance)


class ClippedBias(nn.Module):
    """The learned numbers of `ops.position.Clipped`: one per difference -reach … reach and head."""

    def __init__(self, heads: int, *, reach: int, std: float = 0.02) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * reach + 1, heads))
        normal(self.weight, std=std)

    def forward(self) -> Clipped:
        return Clipped(self.weight)


class AlibiBias(nn.Module):
    """The fixed slopes of `ops.position.Alibi` (arXiv:2108.12409): nothing to learn, nothing to save."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.slopes: Tensor
        self.register_buffer("slopes", alibi_slopes(heads), persistent=False)

    def forward(self) -> Alibi:
        # Made anew: a model cast to bfloat16 would otherwise bend its slopes by up to 0.4 %.
        dtype = torch.promote_types(self.slopes.dtype, torch.float32)
        return Alibi(alibi_slopes(len(self.slopes), dtype=dtype, device=self.slopes.device))


def _add(x: Float[Tensor, "B L D"], embedding: Float[Tensor, "*b L E"]) -> Float[Tensor, "B L D"]:
    """x + embedding, in the dtype of x; refuses what broadcasting would let through."""
    if embedding.shape[-2:] != x.shape[-2:] or embedding.shape[:-2] not in ((), (1,), x.shape[:1]):
        shapes = f"{tuple(embedding.shape)} do not fit tokens of shape {tuple(x.shape)}"
        raise ValueError(f"position vectors of shape {shapes}: give each token its own position and the same width")
    return x + embedding.to(x.dtype)


def _check_range(positions: Int[Tensor, "*b L"], length: int, things: str) -> None:
    if positions.numel() == 0:
        return
    low, high = (int(bound) for bound in positions.aminmax())
    if low < 0:
        raise ValueError(f"position {low} is before the table of {length} {things}, which begins at position 0")
    if high >= length:
        raise ValueError(
            f"position {high} is past the table of {length} {things}; shorten the input to {length} tokens, or build "
            f"the table for at least {high + 1}"
        )
