"""The price of a run for people, and as the file cost.json in its directory."""

from pathlib import Path
from typing import Any

from headway.app.cost_section import FILE
from headway.app.price import StepPrice
from headway.app.price.measured import Measured
from headway.app.price.run import RunPrice, compared
from headway.config.run_files import RunFiles
from headway.cost.part import Line
from headway.data.files import write_json
from headway.render import duration, short
from headway.sizes import Cost

COLUMNS = ("what", "predicted", "measured", "remark")


def opening(price: RunPrice) -> list[str]:
    """The price in a few lines, for a terminal."""
    step, cost = price.step, price.step.cost
    besides = (
        f"{short(step.flops)}FLOP in matrix products ({short(2 * cost.useful)} of use), {short(cost.other)} besides"
    )
    rows = [("parameters", f"{step.parameters:,}"), ("a step", besides)]
    rows.append(("", f"{short(price.memory)}B in use at most ({_bytes(price.held)})"))
    if step.seconds is not None:
        each = f"{_seconds(step.seconds)} expected, {price.tokens / step.seconds:,.0f} {price.unit}/s"
        rows += [("", each), (f"{price.steps:,} steps", _whole(price, step.seconds))]
    else:
        rows.append((f"{price.steps:,} steps", f"{short(price.steps * step.flops)}FLOP"))
    return ["price", *(f"  {name:<14}{text}" for name, text in rows), *(f"  {note}" for note in price.notes)]


def _bytes(held: dict[str, int]) -> str:
    """All but the last, which is said before."""
    return ", ".join(f"{name} {short(size)}" for name, size in list(held.items())[:-1])


def _whole(price: RunPrice, seconds: float) -> str:
    time = price.steps * seconds
    shown = _seconds(time) if time < 10 else duration(time)
    return f"{short(price.steps * price.step.flops)}FLOP, {shown} and the validations"


def _seconds(value: float) -> str:
    """
    >>> _seconds(0.01234), _seconds(2.5)
    ('12.3 ms', '2.5 s')
    """
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def closing(price: RunPrice, found: Measured) -> list[str]:
    """Predicted beside measured, for a terminal."""
    rows = [
        (what, "–" if said is None else _shown(what, said), "–" if seen is None else _shown(what, seen), remark)
        for what, said, seen, remark in compared(price, found)
    ]
    head = f"{'cost':<24}{'predicted':>12}{'measured':>12}"
    return [head, *(f"  {what:<22}{said:>12}{seen:>12}  {remark}".rstrip() for what, said, seen, remark in rows)]


def _shown(what: str, value: int | float) -> str:
    if what.startswith("seconds"):
        return _seconds(value)
    return f"{short(value)}B" if what.startswith("memory") else short(value)


def write(place: RunFiles, price: RunPrice, found: Measured | None = None) -> Path:
    """cost.json of a run, whole."""
    path = place.path / FILE
    write_json(path, as_json(price, found))
    return path


def as_json(price: RunPrice, found: Measured | None) -> dict[str, Any]:
    step = price.step
    rows = None if found is None else [dict(zip(COLUMNS, row, strict=True)) for row in compared(price, found)]
    return {
        "parameters": step.kinds,
        "batch": {"rows": step.setting.batch, "length": step.setting.length, "parts": step.parts},
        price.unit: price.tokens,
        "seconds": step.seconds,
        "memory": price.held,
        "phases": {name: _cost(cost) for name, cost in _phases(step).items()},
        "machine": None if price.machine is None else str(price.machine),
        "operations": [_operation(line, seconds) for line, seconds in step.operations],
        "compared": rows,
        "notes": list(price.notes),
    }


def _phases(step: StepPrice) -> dict[str, Cost]:
    return {"forward": step.forward, "backward": step.backward, "step": step.cost}


def _cost(cost: Cost) -> dict[str, int | None]:
    executed = None if cost.executed is None else 2 * cost.executed
    return {
        "flops": cost.flops,
        "useful_flops": cost.useful_flops,
        "executed_flops": executed,
        "other_flops": cost.other,
    }


def _operation(line: Line, seconds: float | None) -> dict[str, Any]:
    one = line.operation
    flops, other = line.runs * one.forward.flops, line.runs * one.forward.other
    return {
        "path": line.path, "kind": one.kind, "runs": line.runs, "parameters": line.sets * one.parameters,
        "flops": flops, "other_flops": other, "seconds": seconds,
    }  # fmt: skip
