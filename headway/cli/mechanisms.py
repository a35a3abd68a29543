"""`headway mechanisms`: all mechanisms on one input."""

import sys
from typing import Annotated

from cyclopts import Parameter

from headway.cli.output import STDOUT, Output
from headway.config.size_limits import check_room


def mechanisms(
    *,
    side: int = 24,
    heads: int = 8,
    width: int = 64,
    seed: int = 0,
    force: Annotated[bool, Parameter(negative="")] = False,
    output: Output = STDOUT,
) -> int:
    """One table over all attention mechanisms on one input.

    The difference is the largest one between the fast path in float32 and the readable reference in float64. The price
    is exact: multiply-adds (MACs) of the pairs the pattern allows, and of those the fast path really computes. The time
    is taken in turns with dense softmax attention, and given beside it as a ratio.

    For example:

        headway mechanisms
        headway mechanisms --side 32 --json

    Parameters
    ----------
    side
        The input is a grid of side x side positions, read row by row where a mechanism knows no grid.
    heads
        Attention heads.
    width
        Channels of each head.
    seed
        Seed of the random input.
    force
        Try it even where the machine has too little memory.
    """
    for name, value in (("side", side), ("heads", heads), ("width", width)):
        if value < 1 or (name == "side" and not 2 <= value <= 64):
            raise ValueError(f"--{name} is {'from 2 to 64' if name == 'side' else 'at least 1'}, not {value}")
    # Queries, keys, values and outputs of two precisions, and some copies.
    check_room(heads, 50 * side**4, f"an input of {heads:,} heads", "heads")
    check_room(width, 200 * side * side * heads, f"an input of {heads} heads with {width:,} channels each", "channels")
    from headway.app.mechanism_table import mechanism_rows, mechanism_table

    output.check()
    found = []
    for stop in mechanism_rows(side=side, heads=heads, width=width, seed=seed):
        print(f"{stop.name} …", file=sys.stderr, flush=True)
        found.append(stop)
    title = f"{side * side} positions, {heads} heads of {width} channels, float32, batch 1"
    output.write([mechanism_table(found, title)], record=[stop.as_json() for stop in found])
    return 0
