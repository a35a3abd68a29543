"""The price line by line, as one would on paper: formula, the same with numbers, value."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from headway.cost.compose import price_tree
from headway.cost.input_lengths import fixed_length
from headway.cost.op_tree import Line, Part, depth, lines
from headway.cost.setting import Setting
from headway.cost.sheet import Sheet
from headway.cost.show.formula import ORDER, written
from headway.cost.show.report import merged
from headway.cost.symbols import Symbols, symbol, with_symbols
from headway.render.table import Table
from headway.sizes import Number
from headway.steps import COUNTINGS, depth_of

QUANTITIES: dict[str, Callable[[Line], Number]] = {
    "parameters": lambda line: line.sets * line.operation.parameters,
    "MACs": lambda line: line.runs * line.operation.forward.dense,
    "useful MACs": lambda line: line.runs * line.operation.forward.useful,
    "other FLOPs": lambda line: line.runs * line.operation.forward.other,
    "depth": lambda line: depth_of(line.operation.steps, COUNTINGS["tree"]),
}


@dataclass(frozen=True)
class Step:
    """One quantity of one operation."""

    path: str
    quantity: str
    formula: str
    numbers: str
    value: int


def explained(sheet: Sheet) -> tuple[list[Step], dict[str, int]]:
    """Every quantity that is not 0, in the order of the pass; and what the letters stand for."""
    letters = Symbols()
    found = list(_pairs(sheet, letters))
    steps = [step for symbolic, plain in found for step in _steps(symbolic, plain, letters)]
    return [*steps, *_sums(found), *_depth(sheet)], letters.numbers


def _pairs(sheet: Sheet, letters: Symbols) -> Iterator[tuple[Line, Line]]:
    """Each operation in letters and in numbers; in numbers twice where there are no letters for it."""
    tree = _symbolic(sheet, letters)
    plain = merged(sheet.operations)
    symbolic = plain if tree is None else merged(lines(tree))
    if [line.path for line in symbolic] != [line.path for line in plain]:
        symbolic, letters.numbers = plain, {}
    return iter(list(zip(symbolic, plain, strict=True)))


def _symbolic(sheet: Sheet, letters: Symbols) -> Part | None:
    config = None if sheet.config is None else with_symbols(sheet.config, letters)
    if config is None or sheet.config is None:
        return None
    at = sheet.setting
    length: Any = at.length if fixed_length(sheet.config) else letters.of("L", at.length)
    asked = Setting(batch=letters.of("B", at.batch), length=length, dtype=at.dtype)
    if at.source is not None:
        asked = replace(asked, source=letters.of("M", at.source))
    try:
        return price_tree(config, asked)
    except ValueError:  # pairs of a mask that no formula counts
        letters.numbers.clear()
        return None


def _steps(symbolic: Line, plain: Line, letters: Symbols) -> Iterator[Step]:
    for name, quantity in QUANTITIES.items():
        value, formula = quantity(plain), quantity(symbolic)
        same = name == "useful MACs" and value == QUANTITIES["MACs"](plain)
        if value and not same:
            numbers = written(formula, letters.numbers)
            if name == "useful MACs" and _value(formula, letters) != value:
                formula, numbers = "pairs that the mask allows, counted", ""
            if name == "MACs" and formula == value:
                formula = _shaped(plain)
            yield Step(plain.path, name, formula if isinstance(formula, str) else written(formula), numbers, value)


def _shaped(line: Line) -> str:
    """A product in its numbers: how often, and rows · inner · columns."""
    sizes = [size for size in (line.runs, *line.operation.shape) if size != 1]
    text = "·".join(f"{size:,}" for size in sizes)
    macs = line.runs * line.operation.forward.dense
    return text if line.operation.kind in ("product", "convolution") and prod(sizes) == macs else f"{macs:,}"


def _value(formula: Any, letters: Symbols) -> int:
    numbers = {symbol(name): number for name, number in letters.numbers.items()}
    return formula if isinstance(formula, int) else int(formula.subs(numbers))


def _sums(found: list[tuple[Line, Line]]) -> Iterator[Step]:
    for name in ("parameters", "MACs", "useful MACs", "other FLOPs"):
        values = [QUANTITIES[name](plain) for _, plain in found]
        total = sum(values)
        yield Step("in all", name, "sum of the lines", " + ".join(f"{one:,}" for one in values if one), total)
        if name.endswith("MACs"):
            yield Step("in all", name.replace("MACs", "FLOPs"), "2 · MACs", f"2·{total:,}", 2 * total)


def _depth(sheet: Sheet) -> Iterator[Step]:
    if sheet.tree is not None:
        steps = depth(sheet.tree, COUNTINGS["tree"])
        yield Step("in all", "depth", "the longest way through, layer after layer", "", steps)


def explain_table(sheet: Sheet) -> Table:
    steps, _ = explained(sheet)
    rows = [(one.path, one.quantity, one.formula, one.numbers, one.value) for one in steps]
    return Table(f"{sheet.name}, line by line", ("operation", "quantity", "formula", "in numbers", "value"), rows)


def explain_text(sheet: Sheet) -> str:
    """A paragraph for each operation."""
    steps, numbers = explained(sheet)
    letters = Symbols(numbers)
    text = [f"{name} = {number:,}  {letters.meaning(name)}" for name, number in sorted(numbers.items(), key=_order)]
    path = None
    for one in steps:
        if one.path != path:
            text += ["", one.path]
        path = one.path
        # a sum over many lines is long, and repeats what stands above it
        middle = "" if one.path == "in all" or one.numbers in ("", one.formula) else f" = {one.numbers}"
        first = "" if one.formula == f"{one.value:,}" else f"{one.formula}{middle} = "
        text.append(f"  {one.quantity:<13}{first}{one.value:,}")
    return "\n".join(text) + "\n"


def _order(item: tuple[str, int]) -> tuple[int, str]:
    return ORDER.find(item[0][:1]), item[0]
