"""A plan for people and for programs, and times as people write them."""

import re
from typing import Any

from headway.app.plan import Plan
from headway.app.plan.candidate import MEMORY, Candidate, Wanted
from headway.app.plan.data import DataSize
from headway.render.numbers import short, step_time
from headway.render.table import COUNT, DURATION, Amount, Cell, Table

UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)")


def read_seconds(text: str) -> float:
    """A time in seconds.

    >>> read_seconds("90s"), read_seconds("1h30min"), read_seconds("1.5 d")
    (90.0, 5400.0, 129600.0)
    """
    total, at = 0.0, 0
    lower = text.strip().lower()
    while at < len(lower) and (part := _PART.match(lower, at)) and part[2] in UNITS:
        total, at = total + float(part[1]) * UNITS[part[2]], part.end()
    if at < len(lower) or not 0 < total < float("inf"):
        raise ValueError(f"a budget is a time such as 90s, 20min, 2h or 1d, not {text!r}")
    return total


HEADS = (
    "", "width", "layers", "heads", "parameters", "batch", "memory", "a step", "steps", "time", "tokens",
    "per parameter", "passes", "FLOPs",
)  # fmt: skip
SIZES = ("width", "layers", "heads")


def plan_table(plan: Plan) -> Table:
    """The sizes that were considered; the best one is marked."""
    return Table("", HEADS, [_cells(one, marked=one is plan.best) for one in plan.candidates])


def remarks(plan: Plan) -> list[str]:
    """The reason for the choice, and the command."""
    return [f"* {plan.why}", "", plan.command]


def data_text(known: DataSize) -> str:
    if known.pictures is not None:
        p = known.pictures
        return f"{p.count:,} images of {p.size[0]} x {p.size[1]} pixels, {len(p.labels)} classes"
    rows = "" if known.rows is None else f"{'' if known.complete else 'about '}{known.rows:,} rows, "
    size = 0 if known.tokenizer is None else known.tokenizer.size
    classes = f", {len(known.labels)} classes" if known.labels else ""
    return f"{rows}about {known.tokens:,} tokens, {size:,} different ones{classes}"


def _cells(one: Candidate, *, marked: bool) -> list[Cell]:
    memory = Amount(one.price.memory, text=f"{short(one.price.memory)}B")
    sizes = (getattr(one.choice, name) for name in SIZES)
    start = ["*" if marked else "", *sizes, one.price.parameters, one.batch, memory]
    if one.limit == MEMORY:
        return [*start, Amount(one.seconds, text="too large"), *[None] * 6]
    return [
        *start,
        Amount(one.seconds, text=step_time(one.seconds)),
        one.steps,
        Amount(one.steps * one.seconds, DURATION),
        Amount(one.tokens, COUNT),
        Amount(one.ratio, text=f"{one.ratio:,.3g}"),
        Amount(one.passes, text=f"{one.passes:,.1f}"),
        Amount(one.flops, COUNT),
    ]


def as_json(plan: Plan, wanted: Wanted) -> dict[str, Any]:
    """A plan in numbers."""
    known = plan.known
    rows = [_row(one) | {"recommended": one is plan.best} for one in plan.candidates]
    data = {"tokens": known.tokens, "rows": known.rows, "exact": known.exact, "classes": len(known.labels) or None}
    spent = {"budget": wanted.seconds, "memory": wanted.memory, "machine": str(wanted.machine)}
    return {"data": data, **spent, "candidates": rows, "why": plan.why, "command": plan.command}


def _row(one: Candidate) -> dict[str, Any]:
    return {name: getattr(one.choice, name) for name in (*SIZES, "dropout")} | {
        "parameters": one.price.parameters, "parameters_outside_embeddings": one.price.inner, "batch": one.batch,
        "length": one.length, "memory": one.price.memory, "seconds_per_step": one.seconds, "steps": one.steps,
        "seconds": one.steps * one.seconds, "tokens": one.tokens, "tokens_per_parameter": one.ratio,
        "passes": one.passes, "flops": one.flops, "limit": one.limit,
    }  # fmt: skip
