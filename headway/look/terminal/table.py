"""The table of heads as aligned text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import Any

from headway.render import visible

SHARES = ("share", "chance")
LEAST = 3  # columns that always stand: layer, head, role


def heads_table(rows: Sequence[Any], *, width: int | None = None) -> str:
    """Rows of measures (mappings or dataclasses) under the names of their fields; numbers to the right.

    Where not all fit into so many letters, the last columns are left out, and it is said which.

    Layers go by their kind and label where a row has them, as they do in pictures and pages.

    >>> print(heads_table([{"layer": 7, "head": 0, "role": "previous", "share": 0.75, "reach": None}]))
    layer  head  role       share  reach
        7     0  previous  75.0 %      –
    """
    cells = [_fields(row) for row in rows]
    if not cells:
        return "There is no head to tell of."
    columns = [_column(name, [row[name] for row in cells]) for name in cells[0]]
    kept = len(columns) if width is None else max(LEAST, _fitting(columns, width))
    missing = list(cells[0])[kept:]
    lines = ["  ".join(line).rstrip() for line in zip(*columns[:kept], strict=True)]
    return "\n".join([*lines, *([f"no room for {', '.join(missing)}"] if missing else [])])


def _fitting(columns: Sequence[list[str]], width: int) -> int:
    """How many of the first columns fit, two blanks between them."""
    ends = accumulate(len(column[0]) + 2 for column in columns)
    return sum(end - 2 <= width for end in ends)


def _fields(row: Any) -> dict[str, Any]:
    found = dict(row) if isinstance(row, Mapping) else asdict(row)
    if "label" in found and "kind" in found:
        found["layer"] = f"{found.pop('kind')} {found.pop('label')}"
    return found


def _column(name: str, values: Sequence[Any]) -> list[str]:
    """A column's name and cells, as wide as the widest."""
    texts = [_text(value, percent=name in SHARES) for value in values]
    wide = max(map(len, (name, *texts)))
    numbers = all(value is None or isinstance(value, int | float) for value in values)
    return [text.rjust(wide) if numbers else text.ljust(wide) for text in (name, *texts)]


def _text(value: Any, *, percent: bool) -> str:
    if value is None:
        return "–"
    if percent:
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if isinstance(value, float) else " ".join(visible(str(value)).split())
