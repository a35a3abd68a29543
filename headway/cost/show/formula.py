"""What a model costs as a formula: its own sizes as numbers, batch and length as letters.

>>> from headway.presets import preset
>>> formulas(preset("gpt2"))["dense FLOPs"]
36864*B*L**2 + 247064064*B*L
"""

from dataclasses import replace
from typing import Any

from headway.config import BlockConfig, DaViTConfig, Frozen
from headway.cost.asked import fixed_length
from headway.cost.compose import price_tree
from headway.cost.letters import symbol
from headway.cost.part import Part, depth, forward, parameters
from headway.cost.setting import Setting
from headway.cost.sheet import Sheet
from headway.cost.show.algebra import written
from headway.ops.attention import record_of
from headway.ops.mask.positions import Window
from headway.render.table import Table
from headway.steps import COUNTINGS

SOURCES = ("seq2seq", "recurrent")


def formulas(config: Frozen, *, source: bool = False) -> dict[str, Any]:
    """Polynomials in B and L (and M, the source, where it is not as long as the text)."""
    tree, scale = symbolic(config, source=source)
    cost = forward(tree)
    found = {
        "parameters": parameters(tree),
        "dense MACs": scale * cost.dense,
        "dense FLOPs": scale * cost.flops,
        "useful FLOPs": scale * cost.useful_flops,
        "other FLOPs": scale * cost.other,
        **{f"depth, {name}": depth(tree, how) for name, how in COUNTINGS.items()},
    }
    return {name: expanded(value) for name, value in found.items()}


def symbolic(config: Frozen, *, source: bool = False) -> tuple[Part, Any]:
    """The priced tree with letters for sizes, and what its counts are yet to be multiplied by.

    A model of one length is priced in numbers for one row: everything but its depth is as many times that as there are
    rows.
    """
    length = fixed_length(config)
    if length is not None:
        return price_tree(config, Setting(length=length)), symbol("B")
    asked = Setting(batch=symbol("B"), length=symbol("L"))
    return price_tree(config, replace(asked, source=symbol("M")) if source else asked), 1


def expanded(value: Any) -> Any:
    """Multiplied out; a whole number stays one."""
    if isinstance(value, int):
        return value
    import sympy

    return sympy.expand(value)


def values(sheet: Sheet) -> dict[str, int]:
    """The same quantities of a sheet, in numbers."""
    counts = {
        "parameters": sheet.params, "dense MACs": sheet.macs, "dense FLOPs": sheet.flops,
        "useful FLOPs": sheet.useful_flops, "other FLOPs": sheet.other_flops,
    }  # fmt: skip
    return counts | {f"depth, {name}": steps for name, steps in sheet.depth.items()}


def formula_table(sheet: Sheet) -> Table:
    """Formula beside value; masks of the sheet's own (padding) are in the value alone."""
    found = formulas(_config(sheet), source=_apart(sheet))
    numbers, at = values(sheet), sheet.setting
    rows = [
        (f"{name} ({arguments(value)})" if arguments(value) else name, written(value), numbers[name])
        for name, value in found.items()
    ]
    source = f", M = {at.source:,}" if _apart(sheet) else ""
    title = f"{sheet.name}, and its values at B = {at.batch:,}, L = {at.length:,}{source}"
    return Table(title, ("quantity", "formula", "value"), rows)


def formula_record(sheet: Sheet) -> dict[str, Any]:
    """For programs: expressions that Python and sympy can read."""
    found = formulas(_config(sheet), source=_apart(sheet))
    return {"name": sheet.name, "formulas": {name: str(value) for name, value in found.items()},
            "values": values(sheet), "notes": list(remarks(sheet))}  # fmt: skip


def remarks(sheet: Sheet) -> list[str]:
    """Where a formula holds."""
    stack = getattr(sheet.config, "stack", None)
    windows = [] if stack is None else list(dict.fromkeys(map(_window, stack.pattern)))
    found = [
        f"the useful FLOPs are those of texts at least as long as the window of {size:,}" for size in windows if size
    ]
    if isinstance(sheet.config, DaViTConfig) or (sheet.config is not None and fixed_length(sheet.config)):
        found.append("the model reads one length, so that its price depends on the batch alone")
    if sheet.setting.lengths is not None or sheet.setting.mask is not None:
        found.append("the formula knows no padding: the useful FLOPs of the values do")
    return found


def _window(block: BlockConfig) -> int | None:
    """The size of a plain window along a text; None for any other pattern."""
    spec = block.attention.mechanism
    match record_of(spec).pattern_of(spec):
        case Window(grid=None) as near:
            return near.size[1]
        case _:
            return None


def arguments(value: Any) -> str:
    """The letters that a formula depends on."""
    letters: set[Any] = getattr(value, "free_symbols", set())
    return ", ".join(sorted(str(one) for one in letters))


def _apart(sheet: Sheet) -> bool:
    """Whether the source has a length of its own."""
    return sheet.setting.source is not None


def _config(sheet: Sheet) -> Frozen:
    if sheet.config is None:
        raise ValueError(f"{sheet.name} was traced at one size: only configurations have a formula")
    return sheet.config
