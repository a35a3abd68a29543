"""The table of heads as aligned text."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from headway.page import visible

SHARES = ("share", "chance")


def heads_table(rows: Sequence[Any]) -> str:
    """Rows of measures (mappings or dataclasses) under the names of their fields; numbers to the right.

    Layers go by their kind and label where a row has them, as they do in pictures and pages.

    >>> print(heads_table([{"layer": 7, "head": 0, "role": "previous", "share": 0.75, "reach": None}]))
    layer  head  role       share  reach
        7     0  previous  75.0 %      –
    """
    cells = [_fields(row) for row in rows]
    if not cells:
        return "There is no head to tell of."
    columns = [_column(name, [row[name] for row in cells]) for name in cells[0]]
    return "\n".join("  ".join(line).rstrip() for line in zip(*columns, strict=True))


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
