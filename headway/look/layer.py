"""One attention as a record to draw: its rows are read once, in chunks, for small maps, measures and packed weights."""

from collections.abc import Iterator, Sequence
from typing import Protocol, runtime_checkable

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, UInt8
from torch import Tensor

from headway.look.measures import HeadMeasures
from headway.look.packed import Factors, Weights, factors
from headway.look.reading.sample import AttentionInfo
from headway.look.record import Kind, Layer, Side
from headway.observe.weights import Selection
from headway.ops.mask.pairs import ALL

NUMBERS = 2**20  # weights that are computed at a time
ROWS = 2048  # of a long text, rows at even distances are measured, so many at least: all would take minutes
POINTS = 48  # on either side
BUDGET = 8 * 2**20  # bytes of weights in one page, all layers together; beyond, queries and keys
LIMIT = 64 * 2**20  # bytes of anything in one page: a browser still opens it at once


@runtime_checkable
class SoftmaxFactors(Protocol):
    """softmax over the allowed keys of cap(q·k) + bias, of item 0 of the batch."""

    @property
    def q(self) -> Float[Tensor, "H L K"]: ...  # already times the scale
    @property
    def k(self) -> Float[Tensor, "H M K"]: ...
    @property
    def softcap(self) -> float | None: ...
    @property
    def bias(self) -> Float[Tensor, "H d"] | None: ...  # at j − i + L − 1
    @property
    def causal(self) -> bool: ...
    def allowed(self, rows: slice) -> Bool[Tensor, "a l M"] | None: ...


@runtime_checkable
class AttentionWeights(AttentionInfo, Protocol):
    """One attention of a running model; its weights are computed on request."""

    def weights(self, rows: slice = ALL, heads: Sequence[int] | slice = ALL) -> Float[Tensor, "B h l M"]: ...
    def parts(self) -> SoftmaxFactors | None: ...


@torch.no_grad()
def layer_of(
    attention: AttentionWeights,
    *,
    label: str,
    kind: Kind,
    queries: int,
    keys: int,
    sides: Sequence[Side],
    selection: Selection = Selection(),  # noqa: B008
    budget: int | float = BUDGET,
) -> Layer:
    """Item 0 of the batch: small maps, measures, and the packed weights of the rows and heads selected, of no others.

    `budget` is how many of the page's bytes this layer may take as weights; see `pack`.
    """
    heads, rows = selected_of(attention, selection)
    _check(attention, sides[queries], sides[keys])
    parts = attention.parts()
    packing = Packing(attention, parts, heads=heads, rows=rows, budget=budget)
    measures = HeadMeasures(kind, sides[queries], sides[keys])
    maps = SmallMaps(len(heads), rows.stop - rows.start, attention.shape[3])
    size, step = NUMBERS // max(len(heads) * attention.shape[3], 1), 1 if packing.whole else row_step(rows)
    for some in _chunks(rows, size, step):
        weights = _weights(attention, some, heads)
        measures.add(weights, _may(parts, weights, some, heads), some)
        maps.add(weights, some.start - rows.start, step)
        packing.add(weights, some.start - rows.start)
    return Layer(
        attention.name, label, kind, attention.mechanism, queries, keys, heads, (rows.start, rows.stop - rows.start),
        packing.done(), maps.done(), tuple(measures.of_head(head) for head in range(len(heads))),
    )  # fmt: skip


def row_step(rows: slice) -> int:
    """Of how many rows one is row_step, where weights need not be packed.

    >>> row_step(slice(0, 4095)), row_step(slice(0, 10000))
    (1, 4)
    """
    return max(1, (rows.stop - rows.start) // ROWS)


def selected_of(attention: AttentionWeights, selection: Selection) -> tuple[tuple[int, ...], slice]:
    """The heads and rows of the selection that this attention has."""
    _, total, length, _ = attention.shape
    heads, rows = selection.heads_of(total), selection.rows_of(length)
    if not heads or rows.start == rows.stop:
        raise ValueError(
            f"{attention.name} has heads 0 to {total - 1} and rows 0 to {length - 1}, and none of those asked for: "
            "ask for others with --heads or --rows, or leave it out with --layers"
        )
    return heads, rows


def _check(attention: AttentionWeights, asking: Side, answering: Side) -> None:
    sizes, tokens = attention.shape[2:], (len(asking.tokens), len(answering.tokens))
    if sizes != tokens:
        raise ValueError(
            f"{attention.name} attends from {sizes[0]} places to {sizes[1]}, and there are {tokens[0]} and {tokens[1]} "
            "tokens to name them"
        )


def _chunks(rows: slice, size: int, step: int) -> Iterator[slice]:
    """So many rows at a time, of every `step` rows one."""
    span = max(size, 1) * step
    for first in range(rows.start, rows.stop, span):
        yield slice(first, min(first + span, rows.stop), step)


def _weights(attention: AttentionWeights, rows: slice, heads: tuple[int, ...]) -> Float[Tensor, "h l M"]:
    every = heads == tuple(range(attention.shape[1]))
    found = attention.weights(rows, ALL if every else heads)[0].detach().cpu()
    if not bool(found.isfinite().all()):
        raise ValueError(f"{attention.name} has weights that are no numbers: look at earlier ones alone, with --layers")
    return found


def _may(parts: SoftmaxFactors | None, weights: Tensor, rows: slice, heads: tuple[int, ...]) -> Bool[Tensor, "a l M"]:
    """The keys that each row may see; where nothing is known of that, those that any head weighs."""
    if parts is None:
        return (weights > 0).any(0, keepdim=True)
    if parts.causal:
        return (torch.arange(weights.shape[2]) <= torch.arange(rows.start, rows.stop, rows.step)[:, None])[None]
    table = parts.allowed(rows)
    if table is None:
        return torch.ones(1, *weights.shape[1:], dtype=torch.bool)
    return (table if len(table) == 1 else table[list(heads)]).cpu()


class SmallMaps:
    """A point is the mean over its rows of the largest weight among its keys: a thin diagonal keeps its strength."""

    def __init__(self, heads: int, rows: int, keys: int) -> None:
        self.rows, self.across = rows, min(keys, POINTS)
        self.total = torch.zeros(heads, min(rows, POINTS), self.across)
        self.count = torch.zeros(min(rows, POINTS), dtype=torch.long)

    def add(self, weights: Float[Tensor, "h l M"], first: int, step: int = 1) -> None:
        """Rows from `first` on, of every `step` rows one, counted among those that the map shows."""
        largest = weights if weights.shape[2] == self.across else F.adaptive_max_pool1d(weights, self.across)
        rows = torch.arange(first, first + weights.shape[1] * step, step)
        blocks = rows * self.total.shape[1] // max(self.rows, 1)
        self.total.index_add_(1, blocks, largest.float())
        self.count += blocks.bincount(minlength=len(self.count))

    def done(self) -> UInt8[np.ndarray, "h y x"]:
        """255 is the largest point of each map."""
        means = self.total / self.count.clamp(min=1)[:, None]
        top = means.amax((1, 2), keepdim=True).clamp(min=torch.finfo(torch.float32).tiny)
        return (means * (255 / top)).round().clamp(0, 255).to(torch.uint8).numpy()


class Packing:
    """Decides by the sizes alone, before anything is computed; `budget` is this layer's share of BUDGET."""

    def __init__(
        self,
        attention: AttentionWeights,
        parts: SoftmaxFactors | None,
        *,
        heads: Sequence[int],
        rows: slice,
        budget: int | float,
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
        """Rows from `first` on, counted among those that are selected_of."""
        if self.values is not None:
            self.values[:, first : first + weights.shape[1]] = weights.numpy()

    def done(self) -> Weights | Factors:
        if self.values is not None:
            return Weights(self.values)
        assert self.parts is not None
        return factored(self.parts, heads=self.heads, rows=self.rows)


def factored(parts: SoftmaxFactors, *, heads: Sequence[int], rows: slice) -> Factors:
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


def _bytes(parts: SoftmaxFactors, shape: tuple[int, int, int]) -> int:
    heads, rows, keys = shape
    first = None if parts.causal else parts.allowed(slice(0, 1))
    tables = 0 if first is None else min(len(first), heads)
    return 2 * heads * (rows + keys) * parts.q.shape[2] + tables * rows * (-(-keys // 8))


def _array(x: Tensor) -> Float[np.ndarray, "..."]:
    return x.detach().double().cpu().numpy()
