"""Rows as a table for the terminal."""

from collections.abc import Iterable

from rich.markup import escape
from rich.table import Table

from headway.bench.row import Row

COLOURS = {"met": "green", "missed": "red", "unclear": "yellow", "not measured": "magenta"}


def table(rows: Iterable[Row], *, title: str = "") -> Table:
    """One line a row; the note stands under the model it belongs to."""
    grid = Table(title=title or None, title_justify="left", show_lines=False)
    for name in ("model", "shape", "precision"):
        grid.add_column(name, overflow="fold")
    for name in ("headway", "best peer", "ratio", "spread", "of limit"):
        grid.add_column(name, justify="right")
    grid.add_column("target", overflow="fold")
    grid.add_column("verdict")
    for row in rows:
        grid.add_row(*cells(row))
    return grid


def cells(row: Row) -> list[str]:
    """The words of one row.

    >>> figures = {"headway": 1.5, "peers": {"torch": 3.0}, "best_peer": "torch", "ratio_to_best": 0.5}
    >>> cells(Row("toy", "sum", "L9", "float32", **figures))
    ['sum', 'L9', 'float32', '1.5 ms', 'torch 3 ms', '0.500 x', '', '', '', '']
    """
    peer = "" if row.best_peer is None else f"{row.best_peer} {_figure(row.peers[row.best_peer], row.unit)}"
    colour = COLOURS.get(row.verdict or "")
    return [
        row.model if not row.note else f"{row.model}\n[dim]{escape(row.note)}[/dim]",
        row.shape,
        row.precision,
        _figure(row.headway, row.unit),
        peer,
        "" if row.ratio_to_best is None else f"{row.ratio_to_best:.3f} x",
        _percent(row.spread),
        _percent(row.share_of_limit),
        row.target or "",
        f"[{colour}]{row.verdict}[/{colour}]" if colour else row.verdict or "",
    ]


def _figure(value: float | None, unit: str) -> str:
    return "" if value is None else f"{value:.3g} {unit}" if value < 1000 else f"{value:,.0f} {unit}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{value:.0%}"
