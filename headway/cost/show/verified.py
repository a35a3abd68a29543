"""Predicted beside measured."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from headway.cost.sheet import Sheet
from headway.cost.show.report import title
from headway.cost.verify import Check
from headway.render.numbers import Number, byte_size
from headway.render.table import BYTES, SECONDS, Amount, Cell, Table, share

# Copies of the weights that are alive at once while it is measured: weights, gradients, and a pass with activations.
COPIES = 3


def check_room(sheet: Sheet) -> None:
    """Refuse a model that this machine cannot hold."""
    needed, free = COPIES * sheet.setting.itemsize * sheet.params, available()
    if free is not None and needed > free:
        raise ValueError(
            f"--verify runs the model: {sheet.name} would take about {byte_size(needed)}, and {byte_size(free)} are "
            "free here; a smaller model of the same kind has the same formulas"
        )


def available() -> int | None:
    """Bytes of memory that are free, as the system tells; None where it does not."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = [line.split() for line in lines if line.startswith("MemAvailable:")]
    return 1024 * int(found[0][1]) if found else None


def verified_table(sheet: Sheet, checks: Sequence[Check]) -> Table:
    """The difference is measured less predicted, and beside it in proportion to what was measured."""
    rows = [
        (one.name, one.unit, *(_cell(value, one.unit) for value in (one.predicted, one.measured, one.difference)),
         share(one.difference, one.measured) if one.difference else None)
        for one in checks
    ]  # fmt: skip
    return Table(
        f"{title(sheet)}: predicted and measured", ("what", "unit", "predicted", "measured", "difference", ""), rows
    )


def _cell(value: Number, unit: str) -> Cell:
    if unit == BYTES:
        return Amount(value, BYTES) if value >= 0 else f"-{byte_size(-value)}"
    if unit == SECONDS:
        return Amount(value, SECONDS) if value >= 0 else f"-{Amount(-value, SECONDS)}"
    return int(value) if value == int(value) else value


def verified_record(sheet: Sheet, checks: Sequence[Check]) -> dict[str, Any]:
    return {"name": sheet.name, "checks": [one.as_json() for one in checks]}


def mistaken(checks: Sequence[Check]) -> list[str]:
    """Counts, which have to be exact, that are not."""
    return [one.name for one in checks if one.unit in ("parameters", "FLOPs") and one.difference]
