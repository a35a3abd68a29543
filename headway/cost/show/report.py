"""Tables of a sheet: parameters, FLOPs of every phase, operations, memory, depth, reach, bottleneck, time."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from headway.cost.part import Line
from headway.cost.setting import Setting
from headway.cost.sheet import Sheet
from headway.cost.show.memory import fit_table, memory_table
from headway.render.table import SECONDS, Amount, Cell, Table, share
from headway.sizes import Cost

COUNTS = ("dense MACs", "dense FLOPs", "useful FLOPs", "executed FLOPs", "other FLOPs")


def title(sheet: Sheet) -> str:
    """The model and the size it was priced at, in one line."""
    kind = "a module" if sheet.config is None else sheet.config.kind_or_name()
    return f"{sheet.name}: {kind}, {sizes(sheet.setting)}"


def sizes(setting: Setting) -> str:
    """The size that was asked for.

    >>> sizes(Setting(batch=2, length=1024))
    'batch 2, length 1,024, float32'
    """
    source = "" if setting.source is None else f", source {setting.source:,}"
    padded = "" if setting.lengths is None else f" (rows of {', '.join(map(str, setting.lengths))})"
    return f"batch {setting.batch:,}, length {setting.length:,}{padded}{source}, {setting.dtype}"


def report(sheet: Sheet) -> list[Table]:
    """Everything, in the order in which it is read."""
    found = [parameters, phases, operations, memory_table, fit_table, depth, reach, bottleneck, time]
    return [made for one in found if (made := one(sheet)) is not None]


def parameters(sheet: Sheet) -> Table:
    rows = [(kind, count, share(count, sheet.params)) for kind, count in sheet.parameters.items() if count]
    return Table("Parameters", ("kind", "parameters", "share"), [*rows, ("all", sheet.params, None)], total=True)


def phases(sheet: Sheet) -> Table:
    """One multiply-add (MAC) is two FLOPs."""
    rows = [(phase_name(sheet, name), *counts(cost)) for name, cost in sheet.phases.items()]
    return Table("Matrix products, and FLOPs beside them", ("phase", *COUNTS), rows)


def phase_name(sheet: Sheet, name: str) -> str:
    """A phase with the size that it speaks of."""
    return f"decode after {sheet.setting.past:,}" if name == "decode" else name


def counts(cost: Cost, runs: int = 1) -> tuple[Cell, ...]:
    """dense MACs, then dense, useful, executed and other FLOPs."""
    executed = None if cost.executed is None else 2 * runs * cost.executed
    return runs * cost.dense, 2 * runs * cost.dense, 2 * runs * cost.useful, executed, runs * cost.other


def operations(sheet: Sheet) -> Table:
    """Forwards; what stands in identical layers is one line. The share is of all FLOPs, dense products and others."""
    whole = sheet.flops + sheet.other_flops
    rows = [_operation(line, whole) for line in merged(sheet.operations)]
    last = ("all", None, sheet.params, *counts(sheet.phases["forward"])[1:], None)
    columns = ("operation", "runs", "parameters", *COUNTS[1:], "share")
    return Table("Operations of a forward pass", columns, [*rows, last], total=True)


def _operation(line: Line, whole: int) -> tuple[Cell, ...]:
    dense, *rest = counts(line.operation.forward, line.runs)[1:]
    _, _, others = rest
    part = share(dense + others, whole)  # pyright: ignore
    return line.path, f"×{line.runs:,}", line.sets * line.operation.parameters, dense, *rest, part


def sums(sheet: Sheet) -> dict[str, Any]:
    """The numbers that stand for a sheet, by name."""
    return {
        "parameters": sheet.params,
        "dense MACs": sheet.macs,
        "dense FLOPs": sheet.flops,
        "useful FLOPs": sheet.useful_flops,
        "executed FLOPs": sheet.executed_flops,
        "other FLOPs": sheet.other_flops,
        "depth": sheet.depth["tree"],
    }


def merged(found: Iterable[Line]) -> list[Line]:
    """Operations that compute or hold parameters; those of one path that cost the same forwards are one line."""
    kept: dict[tuple[object, ...], Line] = {}
    for line in found:
        operation = line.operation
        if not operation.parameters and not (operation.forward.dense or operation.forward.other):
            continue
        key = (line.path, operation.kind, operation.forward, operation.parameters)
        held = kept.get(key)
        kept[key] = line if held is None else replace(line, runs=held.runs + line.runs, sets=held.sets + line.sets)
    return list(kept.values())


def depth(sheet: Sheet) -> Table:
    words = {
        "tree": "every sum of n terms in ⌈lg n⌉ steps",
        "serial": "sums over widths one after the other, n - 1 steps; over positions in ⌈lg n⌉",
        "sums": "as tree, the additions of sums (and maxima) alone",
    }
    rows = [(name, steps, words.get(name, "")) for name, steps in sheet.depth.items()]
    return Table("Parallel depth", ("counting", "steps", "rule"), rows)


def reach(sheet: Sheet) -> Table | None:
    """Of how many inputs a position knows; layers that know the same are one line."""
    if sheet.reach is None or not sheet.reach.layers:
        return None
    kept: dict[tuple[Cell, ...], list[int]] = {}
    for layer in sheet.reach.layers:
        row = (layer.part, layer.smallest, layer.largest, layer.mean, layer.inputs, "yes" if layer.full else "no")
        kept.setdefault(row, []).append(layer.number)
    rows = [(part, _span(numbers), *rest) for (part, *rest), numbers in kept.items()]
    columns = ("part", "layers", "fewest", "most", "mean", "inputs", "all it may")
    return Table(f"Reach, in {things(sheet)}", columns, rows)


def things(sheet: Sheet) -> str:
    """What a reach counts."""
    return "patches" if sheet.reach.unit == "patch" else f"{sheet.reach.unit}s"


def _span(numbers: list[int]) -> str:
    return f"{numbers[0]}" if len(numbers) == 1 else f"{numbers[0]} to {numbers[-1]}"


def bottleneck(sheet: Sheet) -> Table | None:
    if sheet.bottleneck is None:
        return None
    rows = [(part, share(value)) for part, value in sheet.bottleneck.shares.items() if value]
    return Table("Share of the dense FLOPs", ("part", "share"), rows)


def time(sheet: Sheet) -> Table | None:
    if sheet.time is None:
        return None
    rows = [(phase_name(sheet, name), Amount(value, SECONDS)) for name, value in sheet.time.seconds.items()]
    return Table(f"Expected time on {sheet.time.machine}", ("phase", "time"), rows)


def sentences(sheet: Sheet) -> list[str]:
    """What is said in words: the bottleneck, where it changes, the reach."""
    found = [] if sheet.bottleneck is None else sheet.bottleneck.sentences()
    if sheet.reach is not None:
        found.append(f"reach: {sheet.reach.sentence()}")
    return found
