"""Tables before any format: a title, columns and cells; and how they are printed in a terminal.

A cell is a whole number, a fraction, a text, an `Amount` with its unit, or None where there is nothing to say;
anything else prints as its str().
`formats` prints the same tables as Markdown, LaTeX, CSV and JSON, `html` on a page.
"""

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from headway.render.numbers import Number, byte_size, duration, number, percent, seconds, short
from headway.render.text import visible

SHARE, BYTES, SECONDS, DURATION, COUNT = "share", "bytes", "seconds", "duration", "count"
WIDE = 200  # columns of a file or a pipe, which has no width of its own


@dataclass(frozen=True)
class Amount:
    """A number that programs read in full and people by its unit, or by a text of its own.

    >>> str(Amount(2048, BYTES)), str(Amount(20, text="20 of 2,000")), str(Amount(90.0, DURATION))
    ('2.0 kB', '20 of 2,000', '1 min 30 s')
    """

    value: Number
    unit: str = ""
    text: str = ""

    def __str__(self) -> str:
        forms = {SHARE: percent, BYTES: byte_size, SECONDS: seconds, DURATION: duration, COUNT: short}
        return self.text or forms.get(self.unit, number)(self.value)


Cell = int | float | str | Amount | None


@dataclass(frozen=True)
class Table:
    """A title, heads of columns, rows of cells.

    total: the last row sums up the others. label: its label in LaTeX. styles: the style in a terminal of a cell with
    this text, for verdicts.
    """

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    total: bool = False
    label: str = ""
    styles: Mapping[str, str] = field(default_factory=dict, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "columns", tuple(self.columns))
        object.__setattr__(self, "rows", tuple(tuple(row) for row in self.rows))
        if wrong := next((row for row in self.rows if len(row) != len(self.columns)), None):
            raise ValueError(f"a row of {len(wrong)} cells does not fit {len(self.columns)} columns: {list(wrong)}")

    def numeric(self, place: int) -> bool:
        """Whether a column holds numbers, which stand to the right."""
        return place > 0 and all(row[place] is None or _like_number(row[place]) for row in self.rows)


def _like_number(cell: object) -> bool:
    return not isinstance(cell, str) or cell[:1] == "×"


def share(part: Number, whole: Number = 1.0) -> Amount | None:
    """
    >>> str(share(1, 3)), share(1, 0), str(share(1e-5))
    ('33.3 %', None, '0.0 %')
    """
    return Amount(part / whole, SHARE) if whole else None


def cell_text(cell: object, *, brief: bool = False) -> str:
    """A cell as people read it; `brief`: large counts in a few digits.

    >>> cell_text(291648307200), cell_text(291648307200, brief=True), cell_text(None), cell_text(1023, brief=True)
    ('291,648,307,200', '292 G', '–', '1,023')
    """
    if brief and isinstance(cell, int) and cell >= 10_000:
        return short(cell)
    return visible(number(cell))


def cell_value(cell: object) -> object:
    """A cell as programs read it: all digits, no units."""
    return "" if cell is None else cell.value if isinstance(cell, Amount) else cell


def console_for(stream: io.StringIO | None = None, *, width: int | None = None):
    """A console of rich: of the terminal, or of a stream without colours; what is no terminal is wide."""
    from rich.console import Console

    if stream is not None:
        return Console(file=stream, width=width or WIDE, no_color=True)
    console = Console()
    return console if console.is_terminal else Console(width=max(width or WIDE, console.width))


def plain_text(head: str, tables: Sequence[Table], sentences: Sequence[str] = ()) -> str:
    """A headline, the tables, and what is said in words, without colours."""
    stream = io.StringIO()
    print_tables(console_for(stream), head, tables, sentences)
    return stream.getvalue()


def print_tables(console, head: str, tables: Sequence[Table], sentences: Sequence[str] = ()) -> None:
    """The same on a console of rich."""
    if head:
        console.print(visible(head), style="bold", highlight=False, markup=False)
    for place, one in enumerate(tables):
        if head or place:
            console.print()
        if one.title:
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
    from rich.table import Table as Grid
    from rich.text import Text

    made = Grid(box=None, pad_edge=False, header_style="dim")
    for place, name in enumerate(one.columns):
        right = one.numeric(place)
        head = name.replace(" ", "\n") if brief and right else name  # narrow numbers deserve narrow heads
        made.add_column(
            Text(head), justify="right" if right else "left", overflow="fold", no_wrap=right, vertical="bottom"
        )
    for row in one.rows:
        last = one.total and row is one.rows[-1]
        made.add_row(*(_cell(cell, brief, one.styles) for cell in row), style="bold" if last else "")
    return made


def _cell(cell: object, brief: bool, styles: Mapping[str, str]):
    from rich.text import Text

    text = cell_text(cell, brief=brief)
    return Text(text, style=styles.get(text, "dim" if cell is None or cell == 0 else ""))
