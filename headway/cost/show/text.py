"""Tables in a terminal: numbers in full where they fit, in a few digits where they do not."""

import io
from collections.abc import Sequence

from headway.cost.show.table import Cell, Table, shown
from headway.page import visible

WIDE = 200  # columns of a file or a pipe, which has no width of its own


def text(head: str, tables: Sequence[Table], sentences: Sequence[str] = ()) -> str:
    """A headline, the tables, and what is said in words, without colours."""
    from rich.console import Console

    console = Console(file=io.StringIO(), width=WIDE, no_color=True)
    show(console, head, tables, sentences)
    return console.file.getvalue()  # pyright: ignore


def show(console, head: str, tables: Sequence[Table], sentences: Sequence[str] = ()) -> None:
    """The same on a console of rich."""
    if head:
        console.print(visible(head), style="bold", highlight=False, markup=False)
    for place, one in enumerate(tables):
        if head or place:
            console.print()
        console.print(visible(one.title), style="bold", highlight=False, markup=False, soft_wrap=True)
        console.print(_fitted(console, one))
    if sentences:
        console.print()
    for line in sentences:
        console.print(visible(line), highlight=False, markup=False, soft_wrap=True)


def _fitted(console, one: Table):
    from rich.measure import Measurement

    full = _rich(one, brief=False)
    wanted = Measurement.get(console, console.options.update(max_width=10_000), full).maximum
    return full if wanted <= console.width else _rich(one, brief=True)


def _rich(one: Table, *, brief: bool):
    from rich.table import Table as Rich
    from rich.text import Text

    made = Rich(box=None, pad_edge=False, header_style="dim")
    for place, name in enumerate(one.columns):
        right = one.numeric(place)
        head = name.replace(" ", "\n") if brief and right else name  # narrow numbers deserve narrow heads
        made.add_column(
            Text(head), justify="right" if right else "left", overflow="fold", no_wrap=right, vertical="bottom"
        )
    for row in one.rows:
        last = one.total and row is one.rows[-1]
        made.add_row(*(_cell(cell, brief) for cell in row), style="bold" if last else "")
    return made


def _cell(cell: Cell, brief: bool):
    from rich.text import Text

    return Text(visible(shown(cell, brief=brief)), style="dim" if cell in (0, None) else "")
