"""`headway mechanisms`: all mechanisms on one input."""

import json as json_format
import sys
from typing import Annotated

from cyclopts import Parameter


def mechanisms(
    *,
    side: int = 24,
    heads: int = 8,
    width: int = 64,
    seed: int = 0,
    json: Annotated[bool, Parameter(negative="")] = False,
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
    json
        A list of rows instead of a table.
    """
    for name, value in (("side", side), ("heads", heads), ("width", width)):
        if value < 1 or (name == "side" and not 2 <= value <= 64):
            raise ValueError(f"--{name} is {'from 2 to 64' if name == 'side' else 'at least 1'}, not {value}")
    from headway.app.mechanism_table import mechanism_rows

    found = []
    for stop in mechanism_rows(side=side, heads=heads, width=width, seed=seed):
        print(f"{stop.name} …", file=sys.stderr, flush=True)
        found.append(stop)
    if json:
        print(json_format.dumps([stop.as_json() for stop in found], indent=2))
    else:
        _print_table(found, f"{side * side} positions, {heads} heads of {width} channels, float32, batch 1")
    return 0


def _print_table(stops, title: str) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console = console if console.is_terminal else Console(width=120)
    table = Table(title=title, title_justify="left")
    table.add_column("mechanism")
    for name in (
        "difference from\nreference",
        "MACs\nuseful",
        "MACs\nexecuted",
        "other\nFLOPs",
        "ms",
        "x dense\nsoftmax",
    ):
        table.add_column(name, justify="right")
    for stop in stops:
        macs = (f"{value / 1e6:,.1f} M" for value in (stop.useful_macs, stop.executed_macs, stop.other_flops))
        table.add_row(stop.name, f"{stop.difference:.1e}", *macs, f"{stop.milliseconds:.2f}", f"{stop.ratio:.2f}")
    console.print(table)
