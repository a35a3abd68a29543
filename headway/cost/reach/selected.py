"""Windows and selected positions (Longformer, arXiv:2004.05150) on texts too long for a table, by counting.

Whoever is selected sees all and is seen by all, so two layers pass everything on: without causality each position sees
all from layer 2 on. Under causality it sees, from layer 2 on, all up to the last selected position s at or before it,
and after s what n layers of the window reach:

    reach_n(i) = s + 1 + min(n (w - 1), ⌊(i - s - 1) / step⌋) + 1          i + 1 where i itself is selected

Before the first selected position there is the window alone.
"""

import torch
from jaxtyping import Int
from torch import Tensor

from headway.config import AttentionConfig
from headway.cost.reach.masks import pattern_of
from headway.cost.reach.sets import Counted, Sets
from headway.ops.mask.base import Or
from headway.ops.mask.positions import Selected, Window


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
