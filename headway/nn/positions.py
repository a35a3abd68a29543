"""Positions that a model holds: embeddings without a table for each position, and biases.

An embedding adds the position's vector to the token's: `x = positions(x, positions_of_x)`. A bias holds its numbers and
hands the attention an `ops.bias.Bias`, a rule over positions.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway import config as config_of
from headway.config import AttentionConfig, PositionBias
from headway.nn.layers import LearnedPositions, add_positions, check_range, normal
from headway.ops.bias import Alibi, Clipped, Relative, alibi_slopes
from headway.ops.position import sinusoidal, sinusoidal_cells


def make_positions(kind: str, length: int, width: int, *, offset: int = 0) -> nn.Module | None:
    """The position embedding of that kind; None where positions live elsewhere (rotary, biases)."""
    if kind == "learned":
        return LearnedPositions(length, width, offset=offset)
    return SinusoidalPositions(width) if kind == "sinusoidal" else None


def make_bias(config: PositionBias, attention: AttentionConfig) -> nn.Module:
    """The bias of that kind for an attention layer: in a causal one, keys that come later need no number."""
    if isinstance(config, config_of.Alibi):
        return AlibiBias(attention.heads)
    if isinstance(config, config_of.Clipped):
        return ClippedBias(attention.heads, reach=config.reach)
    return RelativeBias(
        attention.heads, buckets=config.buckets, max_distance=config.max_distance, bidirectional=not attention.causal
    )


class SinusoidalPositions(nn.Module):
    """x + sinusoidal(positions): nothing to learn, any position, any width (arXiv:1706.03762)."""

    def __init__(self, width: int, *, base: float = 10000.0) -> None:
        super().__init__()
        self.width, self.base = width, base

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "*b L"]) -> Float[Tensor, "B L D"]:
        return add_positions(x, sinusoidal(positions, width=self.width, base=self.base, dtype=x.dtype))

    def extra_repr(self) -> str:
        return f"{self.width}, base={self.base}"


class SinusoidalGridPositions(nn.Module):
    """x + sinusoidal_cells(y, x): half of the channels for the row, half for the column.

    Positions number the cells row by row: position p is cell (p // columns, p % columns).
    """

    def __init__(self, rows: int, columns: int, width: int, *, base: float = 10000.0) -> None:
        super().__init__()
        self.rows, self.columns, self.width, self.base = rows, columns, width, base

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "*b L"]) -> Float[Tensor, "B L D"]:
        check_range(positions, self.rows * self.columns, f"cells of a {self.rows} x {self.columns} grid")
        y, column = positions // self.columns, positions % self.columns
        return add_positions(x, sinusoidal_cells(y, column, width=self.width, base=self.base, dtype=x.dtype))

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
        check_range(positions, rows * columns, f"cells of a {rows} x {columns} grid")
        halves = F.embedding(positions // columns, self.row), F.embedding(positions % columns, self.column)
        return add_positions(x, torch.cat(halves, dim=-1))

    def extra_repr(self) -> str:
        return f"{len(self.row)}, {len(self.column)}, {2 * self.row.shape[1]}"


class RelativeBias(nn.Module):
    """The learned numbers of `ops.bias.Relative`: one per bucket of differences and head (arXiv:1910.10683)."""

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
    """The learned numbers of `ops.bias.Clipped`: one per difference -reach … reach and head."""

    def __init__(self, heads: int, *, reach: int, std: float = 0.02) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(2 * reach + 1, heads))
        normal(self.weight, std=std)

    def forward(self) -> Clipped:
        return Clipped(self.weight)


class AlibiBias(nn.Module):
    """The fixed slopes of `ops.bias.Alibi` (arXiv:2108.12409): nothing to learn, nothing to save."""

    def __init__(self, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.place: Tensor  # without entries: it goes where the model goes, and takes its dtype
        self.register_buffer("place", torch.empty(0), persistent=False)

    def forward(self) -> Alibi:
        # Made anew: a model cast to bfloat16 would otherwise bend its slopes by up to 0.4 %.
        dtype = torch.promote_types(self.place.dtype, torch.float32)
        return Alibi(alibi_slopes(self.heads, dtype=dtype, device=self.place.device))
