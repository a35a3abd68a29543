"""How many pairs a mask allows: by ranges and prefix sums where it can, by tables of a few rows where it must."""

import torch

from headway.ops.mask.base import Mask
from headway.ops.mask.kernel import kept_keys, without_padding
from headway.ops.mask.pairs import ALL, Pairs, Spans
from headway.ops.mask.positions import Causal, Full, Window
from headway.sizes import Number

# Rows tabulated at once: enough to keep the processor busy, and a constant, so memory stays O(L + M).
_ROWS = 16


def count_pairs(mask: Mask, pairs: Pairs, batch: int = 1, heads: int = 1) -> int:
    """The pairs allowed over `batch` rows and `heads` heads; a mask that treats all alike is counted once."""
    rows = max(mask.batch, pairs.query.shape[0], pairs.key.shape[0])
    if batch > 1 and rows not in (1, batch):
        raise ValueError(f"a mask and positions for {rows} rows do not fit a batch of {batch}")
    mask.check(max(rows, batch), max(mask.heads, heads), *pairs.shape)
    found = _by_ranges(mask, pairs, rows)
    if found is None:
        found = _by_tables(mask, pairs, rows)
    return found * max(1, batch // rows) * max(1, heads // mask.heads)


def _by_ranges(mask: Mask, pairs: Pairs, rows: int) -> int | None:
    """Σ (kept keys in [low, high)) where the rest of the mask is exactly a range per query; None elsewhere."""
    rest, keep = without_padding(mask), kept_keys(mask)
    spans = Spans.everything(pairs, exact=True) if rest is None else rest.spans(pairs)
    if not spans.exact:
        return None
    low, high = spans.low.expand(rows, -1), spans.high.expand(rows, -1)
    if keep is None:
        return int((high - low).sum())
    before = torch.nn.functional.pad(keep.long().cumsum(-1), (1, 0)).expand(rows, -1)
    return int((before.gather(1, high) - before.gather(1, low)).sum())


def _by_tables(mask: Mask, pairs: Pairs, rows: int) -> int:
    total = 0
    for row in range(rows):
        for start in range(0, pairs.shape[0], _ROWS):
            part = pairs.at(slice(row, row + 1), slice(start, start + _ROWS), ALL)
            table = mask.at(part).expand(-1, mask.heads, *part.shape)
            total += int(table.sum())
    return total


def formula(mask: Mask, queries: Number, keys: Number) -> Number:
    """The pairs allowed per row and head, as arithmetic on sizes that may be symbols (windows: where L >= size).

    >>> formula(Causal() & Window((1, 3), (1, 1), None), 5, 5)
    12
    """
    parts = [part for part in mask.parts() if not isinstance(part, Full)]
    causal = any(isinstance(part, Causal) for part in parts)
    windows = [part for part in parts if not isinstance(part, Causal)]
    if queries != keys and parts:
        raise ValueError(f"{queries} queries and {keys} keys have positions that no formula knows: count whole numbers")
    if not windows:
        return _half(queries * (queries + 1)) if causal else queries * keys
    only = windows[0]
    if len(windows) > 1 or not isinstance(only, Window) or only.grid is not None or only.step[1] != 1:
        raise ValueError(f"the pairs that {mask} allows have no formula here: give sizes as whole numbers")
    size = only.size[1]
    one_sided = size * queries - size * (size - 1) // 2
    return one_sided if causal else 2 * one_sided - queries


def _half(even: Number) -> Number:
    return even // 2 if isinstance(even, int) else even / 2
