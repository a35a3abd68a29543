"""Which positions one attention layer looks at, under its own pattern, causality and any further mask.

The sets are of inputs that *matter*: the keys that a position may see, and the position itself, whose query decides
how they are weighed (unless it sees one key at most, and there is no residual).

Windows with selected positions (Longformer, arXiv:2004.05150) on texts too long for a table are counted. Whoever is
selected sees all and is seen by all, so two layers pass everything on: without causality each position sees all from
layer 2 on. Under causality it sees, from layer 2 on, all up to the last selected position s at or before it, and after
s what n layers of the window reach:

    reach_n(i) = s + 1 + min(n (w - 1), ⌊(i - s - 1) / step⌋) + 1          i + 1 where i itself is selected

Before the first selected position there is the window alone.
"""

from functools import reduce
from operator import and_

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.config import AttentionConfig, Pair
from headway.cost.reach.sets import LONGEST, Axis, Boxes, Counted, Sets, TableSets, TooLong, everything, itself
from headway.ops.attention import record_of
from headway.ops.mask import Mask, causal
from headway.ops.mask.base import Or
from headway.ops.mask.kernel import kept_keys, without_padding
from headway.ops.mask.pairs import Pairs
from headway.ops.mask.positions import Full, Selected, Tiles, Window


def looked_at(
    config: AttentionConfig, pairs: Pairs, *, mask: Mask | None = None, residual: bool = True, own: bool = True
) -> Sets:
    """What each query looks at; `own`: keys are of the same sequence as queries (padding is then no query either)."""
    if mask is not None:
        mask.check(1, config.heads, *pairs.shape)
    if record_of(config.mechanism).between == "channels":
        return _between_channels(config, pairs, mask)
    whole = _whole(config, mask)
    found = _ranges(config, pairs, mask) or _spans(whole, pairs)
    if found is not None and (not own or _holds_itself(found)):
        return found
    return _table(whole, pairs, residual=residual, own=own)


def _between_channels(config: AttentionConfig, pairs: Pairs, mask: Mask | None) -> Sets:
    """Every score is a sum over all positions; a single channel to choose from is chosen whatever its score."""
    if config.causal or (mask is not None and without_padding(mask) is not None):
        raise ValueError(
            "channel attention mixes all positions into every score: causal=False, and no mask but padding"
        )
    length = pairs.shape[0]
    if config.head_width == 1:
        return Boxes((itself(length),))
    keep = None if mask is None else kept_keys(mask)
    if keep is None:
        return Boxes((everything(length, length),))
    return _kept(torch.ones(length, length, dtype=torch.bool), keep)


def _whole(config: AttentionConfig, mask: Mask | None) -> Mask:
    parts = [pattern_of(config), causal() if config.causal else None, mask]
    found = [part for part in parts if part is not None]
    return reduce(and_, found) if found else Full()


def pattern_of(config: AttentionConfig) -> Mask | None:
    """The mask that a layer's mechanism stands for; None where it sees whatever others allow."""
    return record_of(config.mechanism).pattern_of(config.mechanism)


def _ranges(config: AttentionConfig, pairs: Pairs, mask: Mask | None) -> Boxes | None:
    """Patterns that are ranges in steps or on a grid; None for others."""
    own = pattern_of(config)
    if mask is not None or not pairs.counted:
        return None
    if isinstance(own, Tiles) and own.grid is not None and not config.causal:
        return _tiles(own.grid, own.size)
    if isinstance(own, Window) and own.grid is None:
        return Boxes((_window(pairs.shape[0], own.size[1], own.step[1], causal=config.causal),))
    if not isinstance(own, Window) or own.grid is None:
        return None
    whole = own.grid[0] * own.grid[1] == pairs.shape[0] and not config.causal
    axes = (_window(*one, causal=False) for one in zip(own.grid, own.size, own.step, strict=True))
    return Boxes(tuple(axes)) if whole else None


def _window(length: int, size: int, step: int, *, causal: bool) -> Axis:
    """i - (size - 1) · step, …, i - step, i, i + step, …, those within the sequence."""
    place = torch.arange(length)
    back = (place // step).clamp(max=size - 1)
    ahead = ((length - 1 - place) // step).clamp(max=size - 1) * (not causal)
    return Axis(place - back * step, place + ahead * step + 1, length, step)


def _tiles(grid: Pair, side: Pair) -> Boxes:
    return Boxes(tuple(tile_axis(size, part) for size, part in zip(grid, side, strict=True)))


def tile_axis(length: int, part: int) -> Axis:
    """Windows that do not overlap, along one axis."""
    start = torch.arange(length) // part * part
    return Axis(start, (start + part).clamp(max=length), length)


def _spans(whole: Mask, pairs: Pairs) -> Boxes | None:
    spans = whole.spans(pairs)
    if not spans.exact or spans.extra is not None or spans.low.shape[0] > 1 or whole.heads > 1:
        return None
    low, high = (bound[0].expand(pairs.shape[0]) for bound in (spans.low, spans.high))
    return Boxes((Axis(low, torch.maximum(low, high), pairs.shape[1]),)) if kept_keys(whole) is None else None


def _holds_itself(found: Boxes) -> bool:
    """Whether every position is in its own set."""
    return all(_inside(axis) for axis in found.axes)


def _inside(axis: Axis) -> bool:
    place = torch.arange(len(axis.low))
    return bool(((axis.low <= place) & (place < axis.high)).all())


def _table(whole: Mask, pairs: Pairs, *, residual: bool, own: bool) -> TableSets:
    queries, keys = pairs.shape
    if queries * keys > LONGEST**2:
        raise TooLong(
            f"this pattern is no range of positions, and {queries:,} x {keys:,} of them are too many for a table of "
            f"who sees whom (up to {LONGEST:,} x {LONGEST:,}): ask for a shorter length"
        )
    by_head = whole.at(pairs)[0].expand(-1, queries, keys)
    found, keep = by_head.any(0), kept_keys(whole)
    if own:
        found = found | torch.diag(torch.ones(queries, dtype=torch.bool) if residual else queries_matter(by_head))
    return TableSets(found) if keep is None else _kept(found, keep, own=own)


def queries_matter(by_head: Bool[Tensor, "H L M"]) -> Bool[Tensor, " L"]:
    """Whether a query changes anything: one key alone has weight 1 whatever its score."""
    return (by_head.sum(-1) > 1).any(0)


def _kept(table: Bool[Tensor, "L M"], keep: Bool[Tensor, "1 M"], *, own: bool = True) -> TableSets:
    """Without padding: it is no input, and what stands at its place is no output."""
    return TableSets(table[keep[0]][:, keep[0]] if own else table[:, keep[0]])


def selects(config: AttentionConfig, length: int) -> bool:
    """Whether this is a window along a text with selected positions in it."""
    found = _parts(config)
    return found is not None and bool(_points(found[1], length))


def _parts(config: AttentionConfig) -> tuple[Window, Selected] | None:
    """A window and the positions that are selected beside it; None for any other pattern."""
    match pattern_of(config):
        case Or(Window(grid=None) as near, Selected() as chosen):
            return near, chosen
        case _:
            return None


def selected_layers(config: AttentionConfig, length: int, layers: int) -> list[Sets]:
    """How many tokens each position sees after each layer.

    >>> config = AttentionConfig(width=2, causal=True, mechanism={"kind": "local", "window": 2, "selected": (1,)})
    >>> [found.counts.tolist() for found in selected_layers(config, 5, 2)]
    [[1, 2, 2, 3, 3], [1, 2, 3, 4, 5]]
    """
    found = _parts(config)
    assert found is not None
    near, points = found[0], _points(found[1], length)
    first = _first(near, points, length, causal=config.causal)
    later = [_later(near, points, length, number, causal=config.causal) for number in range(2, layers + 1)]
    return [Counted(counts, length) for counts in (first, *later)]


def _points(chosen: Selected, length: int) -> list[int]:
    return sorted({point for point in chosen.points.tolist() if 0 <= point < length})


def _first(near: Window, points: list[int], length: int, *, causal: bool) -> Int[Tensor, " L"]:
    """The window and the selected positions outside of it; of a selected position all."""
    place, step, most = torch.arange(length), near.step[1], near.size[1] - 1
    counts = (place // step).clamp(max=most) + 1
    if not causal:
        counts = counts + ((length - 1 - place) // step).clamp(max=most)
    for point in points:
        apart = (place - point).abs()
        within = (apart % step == 0) & (apart <= most * step)
        counts = counts + (~within & ((place >= point) | (not causal)))
    whole = place + 1 if causal else torch.full_like(place, length)
    return torch.where(torch.isin(place, torch.tensor(points)), whole, counts)


def _later(near: Window, points: list[int], length: int, layers: int, *, causal: bool) -> Int[Tensor, " L"]:
    if not causal:
        return torch.full((length,), length)
    place, chosen = torch.arange(length), torch.tensor(points)
    step, most = near.step[1], layers * (near.size[1] - 1)
    before = torch.searchsorted(chosen, place, right=True)
    last = torch.where(before > 0, chosen[(before - 1).clamp(min=0)], -1)
    # Where none is selected yet, the window's own steps back to the first token.
    room = torch.where(last >= 0, (place - last - 1) // step, place // step)
    return last + 1 + torch.where(place > last, room.clamp(max=most) + 1, 0)
