"""A diagnosis as lines for a terminal: a row for each layer, the depth, and the symptoms with their remedies."""

import textwrap
from collections.abc import Sequence
from itertools import groupby

from headway.audit.health.record import Depth, Head, Health, Symptom
from headway.render import number, visible

_WIDTH = 100

# Columns of the table by layer: a head, and the measure averaged over the layer's heads.
COLUMNS = {
    "spread": "spread", "entropy": "entropy", "saturated": "saturated", "jacobian": "jacobian",
    "uniform": "jacobian_uniform", "q": "q_rms", "k": "k_rms", "q·k": "variance", "expected": "predicted",
    "scale": "scale",
}  # fmt: skip


def lines(health: Health) -> list[str]:
    """The whole diagnosis."""
    found = []
    if health.heads:
        found += ["attention, by layer (means over heads)", *_grid(layer_table(health.heads)), ""]
    if health.depth:
        found += ["depth", *_grid(depth_table(health.depth)), ""]
    if health.logits is not None:
        found.append(f"largest |output| {number(health.logits.largest, digits=4)} ({health.logits.dtype})")
    found += [f"note: {note}" for note in health.notes]
    return [visible(line) for line in [*found, "", *_symptoms(health.symptoms)]]


def layer_table(heads: Sequence[Head]) -> list[list[str]]:
    """A head, then a row for each layer: its name, how many heads, and the means of its measures."""
    rows = [["layer", "heads", *COLUMNS]]
    for name, group in groupby(heads, key=lambda one: one.module):
        layer = list(group)
        rows.append([name or "the model", str(len(layer)), *(_text(mean(layer, one)) for one in COLUMNS.values())])
    return rows


def mean(layer: Sequence[Head], measure: str) -> float | None:
    """Of the heads that have it."""
    held = [value for one in layer if (value := getattr(one, measure)) is not None]
    return sum(held) / len(held) if held else None


def depth_table(depth: Sequence[Depth]) -> list[list[str]]:
    rows = [[one.module, _text(one.activation), _text(one.gradient), "yes" if one.finite else "NO"] for one in depth]
    return [["block", "activation", "gradient", "finite"], *rows]


def _text(value: float | None) -> str:
    return number(value, digits=3)


def _grid(rows: list[list[str]]) -> list[str]:
    """Columns as wide as their widest cell, the first to the left and numbers to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell.ljust(wide) if place == 0 else cell.rjust(wide) for place, (cell, wide) in enumerate(cells))
        for cells in (list(zip(row, widths, strict=True)) for row in rows)
    ]


def _symptoms(symptoms: Sequence[Symptom]) -> list[str]:
    if not symptoms:
        return ["healthy: no symptom was found"]
    found = ["1 symptom" if len(symptoms) == 1 else f"{len(symptoms)} symptoms"]
    for one in symptoms:
        found += ["", f"{one.name}: {places(one.where, 3)}"]
        for word in ("measured", "expected", "why", "remedy"):
            told = textwrap.fill(getattr(one, word), _WIDTH - 12).split("\n")
            found += [f"  {word if place == 0 else '':<9} {line}" for place, line in enumerate(told)]
    return found


def places(where: Sequence[str], limit: int = 4) -> str:
    """The first few, and how many more.

    >>> places(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    named = ", ".join(where[:limit])
    return named if len(where) <= limit else f"{named} and {len(where) - limit} more"
