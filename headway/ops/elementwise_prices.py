"""The prices of what moves numbers or adds them one by one: lookups, sums of two streams, rotations, dropout."""

from headway.sizes import Number, Operation, other
from headway.steps import Each


def lookup_price(rows: Number, entries: Number, width: Number, *, own: bool = True) -> Operation:
    """rows of a table of `entries` x width: no arithmetic. Backwards every row is added into the table's gradient."""
    table = entries * width
    return Operation(
        "embedding",
        other(0),
        other(rows * width),
        weights=table if own else 0,
        borrowed=0 if own else table,
        reads=rows * width,
        writes=rows * width,
    )


def add_price(entries: Number, *, weights: Number = 0, kind: str = "elementwise") -> Operation:
    """x + y, entry by entry; `weights` where y is a parameter. Backwards nothing but the sum of two gradients."""
    return Operation(
        kind, other(entries), other(entries), steps=(Each(1),), weights=weights, reads=2 * entries, writes=entries
    )


def scale_price(entries: Number, *, flops: int = 1, weights: Number = 0) -> Operation:
    """So many FLOPs on each entry, one after the other; twice that backwards. `weights`: learned numbers among them."""
    return Operation(
        "elementwise", other(flops * entries), other(2 * flops * entries), steps=(Each(flops),), reads=entries,
        writes=entries, weights=weights,
    )  # fmt: skip


def rotary_price(entries: Number) -> Operation:
    """Two multiplications and an addition for each entry turned; the table of angles is made beforehand."""
    return Operation(
        "elementwise", other(3 * entries), other(6 * entries), steps=(Each(2),), reads=entries, writes=entries
    )


def dropout_price(entries: Number) -> Operation:
    """Keep or not, and rescale: one multiplication; only in training."""
    return Operation("elementwise", other(entries), other(entries), steps=(Each(1),), reads=entries, writes=entries)
