"""A table that no format has touched yet: whole numbers, fractions, words, and None where there is nothing to say."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.page import number, short, visible

Real = int | float


@dataclass(frozen=True)
class Amount:
    """A number with its unit: a share of one, bytes, seconds."""

    value: Real
    unit: str

    def __str__(self) -> str:
        return {SHARE: _share, BYTES: size, SECONDS: seconds}[self.unit](self.value)


SHARE, BYTES, SECONDS = "share", "bytes", "seconds"
Cell = int | float | str | Amount | None


@dataclass(frozen=True)
class Table:
    """A title, heads of columns, rows of cells; `total`: the last row sums up the others."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    total: bool = False

    def __post_init__(self) -> None:
        wrong = [row for row in self.rows if len(row) != len(self.columns)]
        assert not wrong, f"{self.title}: {wrong[0]} does not fit {self.columns}"

    def numeric(self, place: int) -> bool:
        """Whether a column holds numbers, which stand to the right."""
        return place > 0 and all(row[place] is None or _like_number(row[place]) for row in self.rows)


def table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Cell]], *, total: bool = False) -> Table:
    return Table(title, tuple(columns), tuple(tuple(row) for row in rows), total)


def _like_number(cell: Cell) -> bool:
    return not isinstance(cell, str) or cell[:1] == "×"


def shown(cell: Cell, *, brief: bool = False) -> str:
    """A cell as people read it; `brief`: large counts in a few digits.

    >>> shown(291648307200), shown(291648307200, brief=True), shown(None), shown("×12"), shown(1023, brief=True)
    ('291,648,307,200', '292 G', '–', '×12', '1,023')
    """
    if brief and isinstance(cell, int) and cell >= 10_000:
        return short(cell)
    return visible(number(cell))


def plain(cell: Cell) -> int | float | str:
    """A cell as programs read it: all digits, no units."""
    return "" if cell is None else cell.value if isinstance(cell, Amount) else cell


def share(part: Real, whole: Real = 1.0) -> Amount | None:
    """
    >>> str(share(1, 3)), share(1, 0), str(share(1e-5))
    ('33.3 %', None, '0.0 %')
    """
    return Amount(part / whole, SHARE) if whole else None


def _share(part: Real) -> str:
    return f"{100 * part:.1f} %"


def size(count: Real) -> str:
    """Bytes in three digits; k M G T are powers of 1,000.

    >>> size(497759232), size(17), size(2**40)
    ('497.8 MB', '17 B', '1.1 TB')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count:,.0f} B"


def seconds(value: Real) -> str:
    """
    >>> seconds(0.0000132), seconds(0.25), seconds(12.345), seconds(7200)
    ('13.2 µs', '250.0 ms', '12.3 s', '2.0 h')
    """
    if value >= 3600:
        return f"{value / 3600:,.1f} h"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.1f} {unit}"
    return f"{value / 1e-9:.1f} ns"
