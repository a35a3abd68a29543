"""Attention in tiles: a block of queries with the keys it can reach, so that no L x M tensor is ever alive.

The backward pass recomputes each tile, and adds its gradients in place: memory stays that of one tile.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from headway.ops.attention.call import Extra
from headway.ops.mask import Mask
from headway.ops.mask.pairs import ALL, Pairs, Spans, Where, take
from headway.ops.values import tracing

# Rows of queries in a tile: enough to fill the matrix units, few enough to waste little at a window's edges.
ROWS = 128

Block = Callable[..., Tensor]


@dataclass(frozen=True, eq=False)
class Tile:
    """Some rows of the batch, some queries, some keys; indices into the whole call."""

    batch: slice
    rows: Where
    columns: Where
    alike: tuple[int, ...] | None = None  # tiles of a grid with the same mark have the same table of near positions

    def size(self, batch: int, queries: int, keys: int) -> int:
        """How many pairs a dense computation of the tile covers."""
        return length(self.batch, batch) * length(self.rows, queries) * length(self.columns, keys)


def length(where: Where, total: int) -> int:
    return len(range(*where.indices(total))) if isinstance(where, slice) else len(where)


def plan_tiles(mask: Mask | None, pairs: Pairs, *, rows: int = ROWS) -> list[Tile]:
    """Tiles that cover every allowed pair. Rows that see far more than the others get tiles of their own."""
    reach = (math.inf, math.inf) if mask is None else mask.reach
    if reach is not None and (pairs.start is not None or (tracing() and pairs.rises)):
        return _plan_counted(*reach, pairs.shape[0], rows)
    pairs = pairs.real()
    spans = Spans.everything(pairs) if mask is None else mask.spans(pairs)
    apart = spans.low.shape[0] > 1
    return [
        tile
        for row in range(spans.low.shape[0])
        for tile in _plan_row(spans, pairs, row, slice(row, row + 1) if apart else ALL, rows)
    ]


def _plan_counted(before: int | float, after: int | float, total: int, rows: int) -> list[Tile]:
    """The same for one sequence with itself at consecutive positions: arithmetic, with nothing to look at."""
    tiles = []
    for first in range(0, total, rows):
        last = min(total, first + rows)
        columns = slice(int(max(0, first - before)), int(min(total, last + after)))
        tiles.append(Tile(ALL, slice(first, last), columns))
    return tiles


def _plan_row(spans: Spans, pairs: Pairs, row: int, batch: slice, rows: int) -> list[Tile]:
    low, high = spans.low[row], spans.high[row]
    extra = None if spans.extra is None or not len(spans.extra) else spans.extra
    wide = (high - low > 2 * (high - low).median() + rows).nonzero()[:, 0]
    tiles = [Tile(batch, some, ALL) for some in wide.split(rows) if len(some)]
    lows, highs = _hulls(low, high, wide, rows)
    for index, (first, last) in enumerate(zip(lows, highs, strict=True)):
        block = _without(index * rows, min(len(low), (index + 1) * rows), wide)
        columns = _with_extra(first, last, extra)
        if length(block, len(low)) and length(columns, pairs.shape[1]):
            tiles.append(Tile(batch, block, columns))
    return tiles


def _hulls(low: Tensor, high: Tensor, wide: Tensor, rows: int) -> tuple[list[int], list[int]]:
    """For each block of rows, the range of keys that all its rows together reach."""
    nothing = (low >= high).index_fill(0, wide, True)
    far = int(high.max()) if len(high) else 0
    pad = (0, -len(low) % rows)
    lows = torch.nn.functional.pad(low.masked_fill(nothing, far), pad, value=far).view(-1, rows)
    highs = torch.nn.functional.pad(high.masked_fill(nothing, 0), pad).view(-1, rows)
    last = highs.amax(1)
    return torch.minimum(lows.amin(1), last).tolist(), last.tolist()


def _without(first: int, last: int, gone: Tensor) -> Where:
    inside = (gone >= first) & (gone < last)
    if not bool(inside.any()):
        return slice(first, last)
    rows = torch.ones(last - first, dtype=torch.bool, device=gone.device)
    return rows.index_fill(0, gone[inside] - first, False).nonzero()[:, 0] + first


def _with_extra(first: int, last: int, extra: Tensor | None) -> Where:
    if extra is None:
        return slice(first, last)
    outside = extra[(extra < first) | (extra >= last)]
    if not len(outside):
        return slice(first, last)
    return torch.cat([torch.arange(first, last, device=extra.device), outside])


def cut_extra(extra: Extra, tile: Tile) -> Tensor:
    """The part of an extra tensor that a tile needs."""
    return _cut(extra.value, tile) if extra.cut else extra.value


def _add_extra(total: Tensor, tile: Tile, gradient: Tensor, *, cut: bool) -> None:
    if not cut:
        total += gradient
    elif isinstance(tile.rows, slice) and isinstance(tile.columns, slice):
        _cut(total, tile).add_(gradient)
    else:
        index = torch.arange(total.numel(), device=total.device).view(total.shape)
        total.view(-1).index_add_(0, _cut(index, tile).reshape(-1), gradient.reshape(-1))


def _cut(x: Tensor, tile: Tile) -> Tensor:
    return take(take(take(x, tile.batch, 0), tile.rows, 2), tile.columns, 3)


def in_tiles(
    block: Block, tiles: Sequence[Tile], q: Tensor, k: Tensor, v: Tensor, *extras: Extra, careful: bool = False
) -> Tensor:
    """block(tile, q, k, v, *extras) for every tile, put together; queries of no tile get 0.

    A careful block is told in the backward pass which of its rows got no gradient, so that it can leave them out:
    0 x NaN would otherwise carry a bad row into the gradients of others.
    """
    cuts = [extra.cut for extra in extras]
    if tracing() and not careful:
        # torch.compile knows no backward pass that differentiates: the tiles as plain operations, which it follows.
        return _one_by_one(block, tiles, cuts, q, k, v, *(extra.value for extra in extras))
    return _InTiles.apply(block, tiles, cuts, careful, q, k, v, *(extra.value for extra in extras))


def _one_by_one(block: Block, tiles: Sequence[Tile], cuts: list[bool], *tensors: Tensor) -> Tensor:
    q, _, v = tensors[:3]
    found = [block(tile, *_parts(tile, cuts, tensors)) for tile in tiles]
    if _in_order(tiles, q.shape[2]):
        return torch.cat(found, 2)
    out = q.new_zeros(*q.shape[:3], v.shape[3])
    for tile, part in zip(tiles, found, strict=True):
        _put(out, tile.batch, tile.rows, part)
    return out


def _in_order(tiles: Sequence[Tile], queries: int) -> bool:
    """Whether the rows of the tiles, one after the other, are all rows in their order."""
    end = 0
    for tile in tiles:
        if tile.batch != ALL or not isinstance(tile.rows, slice):
            return False
        first, last, step = tile.rows.indices(queries)
        if first != end or step != 1:
            return False
        end = last
    return end == queries


class _InTiles(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, block: Block, tiles: Sequence[Tile], cuts: list[bool], careful: bool, *tensors: Tensor
    ) -> Tensor:
        q, _, v = tensors[:3]
        ctx.block, ctx.tiles, ctx.cuts, ctx.careful = block, tiles, cuts, careful
        ctx.save_for_backward(*tensors)
        out = q.new_zeros(*q.shape[:3], v.shape[3])
        for tile in tiles:
            _put(out, tile.batch, tile.rows, block(tile, *_parts(tile, cuts, tensors)))
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        wanted, tensors = ctx.needs_input_grad[4:], ctx.saved_tensors  # once: a checkpoint hands them out a single time
        totals: dict[int, Tensor] = {}
        for tile in ctx.tiles:
            _pull_tile(ctx, tensors, tile, _at(gradient, tile.batch, tile.rows), totals)
        for index, x in enumerate(tensors):
            if wanted[index] and index not in totals:
                totals[index] = torch.zeros_like(x)
        found = (totals.get(index) for index in range(len(wanted)))
        return (None, None, None, None, *found)


def _pull_tile(ctx: Any, tensors: Sequence[Tensor], tile: Tile, pull: Tensor, totals: dict[int, Tensor]) -> None:
    """Compute one tile again, and add what its output pulls to the gradients of what it came from."""
    wanted = ctx.needs_input_grad[4:]
    asked = [index for index, want in enumerate(wanted) if want]
    silent = {"silent": (pull == 0).all(-1, keepdim=True)} if ctx.careful else {}
    with torch.enable_grad():
        parts = [part.detach() for part in _parts(tile, ctx.cuts, tensors)]
        for index in asked:
            parts[index].requires_grad_()
        out = ctx.block(tile, *parts, **silent)
    grads = torch.autograd.grad(out, [parts[index] for index in asked], pull)
    for index, grad in zip(asked, grads, strict=True):
        _add(totals, index, tensors[index], tile, ctx.cuts, grad)


def _parts(tile: Tile, cuts: list[bool], tensors: Sequence[Tensor]) -> list[Tensor]:
    q, k, v, *extras = tensors
    places = ((q, tile.rows), (k, tile.columns), (v, tile.columns))
    cut = [cut_extra(Extra(value, flag), tile) for value, flag in zip(extras, cuts, strict=True)]
    return [_at(x, tile.batch, where) for x, where in places] + cut


def _add(totals: dict[int, Tensor], index: int, x: Tensor, tile: Tile, cuts: list[bool], grad: Tensor) -> None:
    """Add a tile's gradient of the index-th tensor x to its total."""
    if index not in totals:
        if (
            grad.shape == x.shape
            and grad.dtype == x.dtype
            and isinstance(tile.columns, slice)
            and tile.columns == ALL
            and index in (1, 2)
        ):
            totals[index] = grad  # a tile of all keys brings a whole gradient: it need not be copied
            return
        totals[index] = torch.zeros_like(x)
    total = totals[index]
    if index >= 3:
        _add_extra(total, tile, grad, cut=cuts[index - 3])
    elif isinstance(where := tile.rows if index == 0 else tile.columns, slice):
        _at(total, tile.batch, where).add_(grad)
    else:
        part = _at(total, tile.batch, ALL)
        part[:, :, where] = part[:, :, where] + grad  # no key stands twice in a tile


def _at(x: Tensor, batch: slice, where: Where) -> Tensor:
    x = x if batch == ALL else x[batch]
    return x[:, :, where] if isinstance(where, slice) else x.index_select(2, where)


def _put(out: Tensor, batch: slice, rows: Where, found: Tensor) -> None:
    part = out if batch == ALL else out[batch]
    if isinstance(rows, slice):
        part[:, :, rows] = found
    else:
        part.index_copy_(2, rows, found.to(out.dtype))
