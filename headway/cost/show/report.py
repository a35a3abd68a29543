"""Tables of a sheet: parameters, FLOPs of every phase, operations, memory, depth, reach, bottleneck, time.

Beside them the rules by which is counted, and predicted beside measured.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from headway.config.size_limits import available_memory
from headway.cost.memory import ModelMemory
from headway.cost.op_tree import Line
from headway.cost.optimiser import FLOPS as OPTIMISERS
from headway.cost.sheet import Sheet
from headway.cost.verify import Check
from headway.ops.activation import FLOPS as CURVES
from headway.ops.attention.cost import PER_SCORE
from headway.ops.norm import COSTS as NORMS
from headway.render.numbers import Number, byte_size
from headway.render.table import BYTES, SECONDS, Amount, Cell, Table, share
from headway.sizes import Cost
from headway.steps import COUNTINGS, SERIAL, SUMS, TREE, Each, Product, Step, Sum, depth_of


def amounts(sheet: Sheet) -> dict[str, int]:
    """Bytes by what they are for, in the order of a report; nothing that a model does not have."""
    memory = sheet.memory
    if memory is None:
        return {}
    known = {
        "weights": memory.weights,
        "gradients": memory.gradients,
        "optimiser state": memory.optimiser,
        "activations saved for the way back": memory.saved + memory.aside,
        "peak of a forward pass": memory.peak_forward,
        "peak of a training step": memory.peak_step,
    }
    return known | _more(memory) if isinstance(memory, ModelMemory) else known


def _more(memory: ModelMemory) -> dict[str, int]:
    """What is known of configurations alone."""
    found = {
        "activations saved with checkpointing": memory.saved_checkpointed,
        "output of a forward pass": memory.logits,
        "peak of a training step with checkpointing": memory.peak_step_checkpointed,
    }
    written = {
        "key/value cache of one token": memory.cache_token,
        "cache in all": memory.cache,
        "peak of a generation": memory.peak_generate,
    }
    return found | {name: count for name, count in written.items() if count}


def memory_table(sheet: Sheet) -> Table | None:
    found = amounts(sheet)
    rows: list[tuple[Cell, ...]] = [(name, count, Amount(count, BYTES)) for name, count in found.items()]
    return Table(f"Memory in {sheet.setting.dtype}", ("what", "bytes", ""), rows) if rows else None


def fit_table(sheet: Sheet) -> Table | None:
    """What fits, and what one more would take."""
    if not sheet.fits:
        return None
    rows = [(f"largest {one.what}", PHASE_NAMES[one.phase], one.count, Amount(one.bytes, BYTES),
             None if one.more is None or not one.count else Amount(one.more, BYTES)) for one in sheet.fits]  # fmt: skip
    limit = Amount(sheet.fits[0].memory, BYTES)
    return Table(f"Fits into {limit}", ("what", "for", "count", "takes", "one more"), rows)


PHASE_NAMES = {"step": "a training step", "generate": "a generation", "forward": "a forward pass"}


COUNTS = ("dense MACs", "dense FLOPs", "useful FLOPs", "executed FLOPs", "other FLOPs")


def title(sheet: Sheet) -> str:
    """The model and the size it was priced at, in one line."""
    kind = "a module" if sheet.config is None else sheet.config.kind_or_name()
    return f"{sheet.name}: {kind}, {sizes(sheet)}"


def sizes(sheet: Sheet) -> str:
    """The size that a model was priced at; of pictures their pixels, and the positions they become."""
    setting = sheet.setting
    if setting.image is not None:
        positions = f" ({setting.length:,} positions)" if setting.length else ""
        return f"batch {setting.batch:,}, image {setting.image[0]} x {setting.image[1]}{positions}, {setting.dtype}"
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
    if sheet.quantized is not None:
        found.insert(0, sheet.quantized.sentence())
    if sheet.reach is not None:
        found.append(f"reach: {sheet.reach.sentence()}")
    return found


LENGTHS = 1024  # terms of the sums in the table


def units() -> list[Table]:
    """FLOPs outside the matrix products, and steps by each way of counting."""
    return [_flops_of_units(), _steps_of_units()]


def _flops_of_units() -> Table:
    rows = [("one multiply-add of a matrix product", 2, "FLOPs")]
    rows += [(f"norm: {name}", one.flops, "FLOPs an entry") for name, one in NORMS.items() if one.flops]
    rows += [(f"activation: {name}", count, "FLOPs an entry") for name, count in CURVES.items()]
    rows += [
        ("softmax: scale, maximum, subtract, exp, sum, divide", PER_SCORE, "FLOPs a score (one less without a scale)"),
        ("bias, residual, position added; dropout", 1, "FLOPs an entry"),
        ("loss, forwards: maximum, subtract, exp, sum", 4, "FLOPs a logit"),
        ("loss, backwards: exp, divide, subtract", 3, "FLOPs a logit"),
        ("backwards: a product y = x W", 2, "times its forward (once where x needs no gradient)"),
        ("lookup, view, copy, selection by a mask", 0, "FLOPs"),
    ]
    rows += [(f"optimiser: {name}", count, "FLOPs a parameter") for name, count in OPTIMISERS.items() if count]
    return Table("FLOPs: each + - × ÷ exp log √ erf tanh max of two numbers is one", ("what", "count", "unit"), rows)


def _steps_of_units() -> Table:
    kinds: dict[str, Step] = {
        "+ - × ÷ exp log √ erf tanh max": Each(1),
        f"sum of n = {LENGTHS:,} terms over a width": Sum(LENGTHS),
        f"sum (or maximum) of n = {LENGTHS:,} terms over positions": Sum(LENGTHS, "positions"),
        f"inner product of n = {LENGTHS:,} terms over a width": Product(LENGTHS),
        f"inner product of n = {LENGTHS:,} terms over positions": Product(LENGTHS, "positions"),
    }
    rows = [(name, *(depth_of([step], how) for how in (TREE, SERIAL, SUMS))) for name, step in kinds.items()]
    rows.append(("moving numbers: views, copies, lookups, masks", 0, 0, 0))
    return Table("Steps of the parallel depth", ("what", *COUNTINGS), rows)


# Copies of the weights that are alive at once while it is measured: weights, gradients, and a pass with activations.
COPIES = 3


def check_room(sheet: Sheet) -> None:
    """Refuse a model that this machine cannot hold."""
    needed, free = COPIES * sheet.setting.itemsize * sheet.params, available_memory()
    if free is not None and needed > free:
        raise ValueError(
            f"--verify runs the model: {sheet.name} would take about {byte_size(needed)}, and {byte_size(free)} are "
            "free here; a smaller model of the same kind has the same formulas"
        )


def verified_table(sheet: Sheet, checks: Sequence[Check]) -> Table:
    """The difference is measured less predicted, and beside it in proportion to what was measured."""
    rows = [
        (one.name, one.unit, *(_checked(value, one.unit) for value in (one.predicted, one.measured, one.difference)),
         share(one.difference, one.measured) if one.difference else None)
        for one in checks
    ]  # fmt: skip
    return Table(
        f"{title(sheet)}: predicted and measured", ("what", "unit", "predicted", "measured", "difference", ""), rows
    )


def _checked(value: Number, unit: str) -> Cell:
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
