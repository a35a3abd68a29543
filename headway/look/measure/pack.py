"""How a layer is packed: its weights where they are few, else the queries and keys where those are fewer."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float
from torch import Tensor

from headway.look.measure.given import Attention, Parts
from headway.look.packed import Factors, Weights, factors

BUDGET = 8 * 2**20  # bytes of weights in one page, all layers together; beyond, queries and keys
LIMIT = 64 * 2**20  # bytes of anything in one page: a browser still opens it at once


class Packing:
    """Decides by the sizes alone, before anything is computed; `budget` is this layer's share of BUDGET."""

    def __init__(
        self, attention: Attention, parts: Parts | None, *, heads: Sequence[int], rows: slice, budget: int | float
    ) -> None:
        self.parts, self.heads, self.rows = parts, list(heads), rows
        shape = (len(heads), rows.stop - rows.start, attention.shape[3])
        whole, split = 2 * int(np.prod(shape)), None if parts is None else _bytes(parts, shape)
        as_parts = whole > budget and split is not None and split < whole
        size, limit = split if as_parts and split is not None else whole, budget * LIMIT / BUDGET
        if size > max(limit, budget):
            raise ValueError(
                f"{attention.name} has {shape[0]} heads of {shape[1]:,} x {shape[2]:,} weights, {size / 2**20:,.0f} MB "
                f"packed, and there is room for {limit / 2**20:,.1f} MB: ask for less with --layers, --heads or --rows"
            )
        self.values = None if as_parts else np.zeros(shape, np.float16)

    @property
    def whole(self) -> bool:
        """Whether every weight is packed."""
        return self.values is not None

    def add(self, weights: Float[Tensor, "h l M"], first: int) -> None:
        """Rows from `first` on, counted among those that are held."""
        if self.values is not None:
            self.values[:, first : first + weights.shape[1]] = weights.numpy()

    def done(self) -> Weights | Factors:
        if self.values is not None:
            return Weights(self.values)
        assert self.parts is not None
        return factored(self.parts, heads=self.heads, rows=self.rows)


def factored(parts: Parts, *, heads: Sequence[int], rows: slice) -> Factors:
    """The parts of these heads and rows, in 16 bits."""
    chosen, total = list(heads), parts.q.shape[1]
    allowed = None if parts.causal else parts.allowed(rows)
    if allowed is not None and len(allowed) > 1:
        allowed = allowed[chosen]
    bias = None
    if parts.bias is not None:
        start = total - rows.stop  # of all rows the bias knows L − 1 keys to the left, of these fewer
        bias = _array(parts.bias[chosen, start : start + rows.stop - rows.start + parts.k.shape[1] - 1])
    return factors(
        _array(parts.q[chosen, rows]), _array(parts.k[chosen]), softcap=parts.softcap, bias=bias,
        allowed=None if allowed is None else allowed.numpy(), causal=parts.causal, first=rows.start,
    )  # fmt: skip


def _bytes(parts: Parts, shape: tuple[int, int, int]) -> int:
    heads, rows, keys = shape
    first = None if parts.causal else parts.allowed(slice(0, 1))
    tables = 0 if first is None else min(len(first), heads)
    return 2 * heads * (rows + keys) * parts.q.shape[2] + tables * rows * (-(-keys // 8))


def _array(x: Tensor) -> Float[np.ndarray, "..."]:
    return x.detach().double().cpu().numpy()
