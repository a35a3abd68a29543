"""One attention as a record to draw: its rows are gone through once, in chunks, and all is gathered on the way."""

from collections.abc import Iterator, Sequence

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.look.measure.given import Attention, Parts
from headway.look.measure.maps import Maps
from headway.look.measure.pack import BUDGET, Packing
from headway.look.measure.tally import Tally
from headway.look.record import Kind, Layer, Side
from headway.observe.weights import Selection
from headway.ops.mask.pairs import ALL

NUMBERS = 2**20  # weights that are computed at a time
ROWS = 2048  # of a long text, rows at even distances are measured, so many at least: all would take minutes


@torch.no_grad()
def layer_of(
    attention: Attention,
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
    heads, rows = held(attention, selection)
    _check(attention, sides[queries], sides[keys])
    parts = attention.parts()
    packing = Packing(attention, parts, heads=heads, rows=rows, budget=budget)
    tally = Tally(kind, sides[queries], sides[keys])
    maps = Maps(len(heads), rows.stop - rows.start, attention.shape[3])
    size, step = NUMBERS // max(len(heads) * attention.shape[3], 1), 1 if packing.whole else measured(rows)
    for some in _chunks(rows, size, step):
        weights = _weights(attention, some, heads)
        tally.add(weights, _may(parts, weights, some, heads), some)
        maps.add(weights, some.start - rows.start, step)
        packing.add(weights, some.start - rows.start)
    return Layer(
        attention.name, label, kind, attention.mechanism, queries, keys, heads, (rows.start, rows.stop - rows.start),
        packing.done(), maps.done(), tuple(tally.measures(head) for head in range(len(heads))),
    )  # fmt: skip


def measured(rows: slice) -> int:
    """Of how many rows one is measured, where weights need not be packed.

    >>> measured(slice(0, 4095)), measured(slice(0, 10000))
    (1, 4)
    """
    return max(1, (rows.stop - rows.start) // ROWS)


def held(attention: Attention, selection: Selection) -> tuple[tuple[int, ...], slice]:
    """The heads and rows of the selection that this attention has."""
    _, total, length, _ = attention.shape
    heads, rows = selection.heads_of(total), selection.rows_of(length)
    if not heads or rows.start == rows.stop:
        raise ValueError(
            f"{attention.name} has heads 0 to {total - 1} and rows 0 to {length - 1}, and none of those asked for: "
            "ask for others with --heads or --rows, or leave it out with --layers"
        )
    return heads, rows


def _check(attention: Attention, asking: Side, answering: Side) -> None:
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


def _weights(attention: Attention, rows: slice, heads: tuple[int, ...]) -> Float[Tensor, "h l M"]:
    every = heads == tuple(range(attention.shape[1]))
    found = attention.weights(rows, ALL if every else heads)[0].detach().cpu()
    if not bool(found.isfinite().all()):
        raise ValueError(f"{attention.name} has weights that are no numbers: look at earlier ones alone, with --layers")
    return found


def _may(parts: Parts | None, weights: Tensor, rows: slice, heads: tuple[int, ...]) -> Bool[Tensor, "a l M"]:
    """The keys that each row may see; where nothing is known of that, those that any head weighs."""
    if parts is None:
        return (weights > 0).any(0, keepdim=True)
    if parts.causal:
        return (torch.arange(weights.shape[2]) <= torch.arange(rows.start, rows.stop, rows.step)[:, None])[None]
    table = parts.allowed(rows)
    if table is None:
        return torch.ones(1, *weights.shape[1:], dtype=torch.bool)
    return (table if len(table) == 1 else table[list(heads)]).cpu()
