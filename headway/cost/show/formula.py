"""What a model costs as a formula: its own sizes as numbers, batch and length as symbols.

Formulas are written as on paper: 36,864·B·L² + 247,064,064·B·L, and ⌈lg L⌉ for the height of a tree.

>>> from headway.presets import preset
>>> formulas(preset("gpt2"))["dense FLOPs"]
36864*B*L**2 + 247064064*B*L
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.config import BlockConfig, DaViTConfig, Frozen
from headway.cost.compose import price_tree
from headway.cost.input_lengths import fixed_length
from headway.cost.op_tree import Part, depth, forward, parameters
from headway.cost.setting import Setting
from headway.cost.sheet import Sheet
from headway.cost.symbols import symbol
from headway.ops.attention import record_of
from headway.ops.mask.positions import Window
from headway.render.table import Table
from headway.steps import COUNTINGS

RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
# In this order letters stand in a product.
ORDER = "NBLMSTDHGKWRFVC"


def written(expression: Any, numbers: Mapping[str, int] | None = None) -> str:
    """An expression in letters; with `numbers`, these in place of the letters.

    >>> from headway.cost.symbols import symbol
    >>> D, L = symbol("D"), symbol("L")
    >>> written(2 * L**2 * D + D), written(2 * L**2 * D + D, {"L": 1024, "D": 5}), written(L * (L + 1) / 2)
    ('2·L²·D + D', '2·1,024²·5 + 5', 'L·(L + 1)/2')
    """
    import sympy

    return _sum(sympy.sympify(expression), numbers or {})


def _sum(expression: Any, numbers: Mapping[str, int]) -> str:
    if not expression.is_Add:
        return _product(expression, numbers)
    text = ""
    for term in sorted(expression.args, key=_rank):
        minus = term.could_extract_minus_sign()
        shown = _product(-term if minus else term, numbers)
        text += f"{' - ' if minus else ' + '}{shown}" if text else ("-" if minus else "") + shown
    return text


def _rank(term: Any) -> tuple[Any, ...]:
    """Higher degrees first, then the order of letters."""
    degree = sum(int(power) for base, power in term.as_powers_dict().items() if base.is_Symbol and power.is_Integer)
    return (not _rounded(term), -degree, sorted(_place(one) for one in term.free_symbols), str(term))


def _rounded(term: Any) -> bool:
    import sympy

    return bool(term.has(sympy.ceiling))


def _place(letter: Any) -> tuple[int, str]:
    return (ORDER.find(letter.name[:1]) % 100, letter.name)


def _product(expression: Any, numbers: Mapping[str, int]) -> str:
    above, below = expression.as_numer_denom() if _logarithm(expression) is None else (expression, 1)
    text = _factors(above, numbers)
    if below == 1:
        return text
    text = f"({text})" if above.is_Add else text
    under = _factors(below, numbers)
    return f"{text}/({under})" if below.is_Mul or below.is_Add else f"{text}/{under}"


def _factors(expression: Any, numbers: Mapping[str, int]) -> str:
    if expression.is_Add:
        return _sum(expression, numbers)
    if not expression.is_Mul or _logarithm(expression) is not None:
        return _power(expression, numbers)
    factors = sorted(expression.args, key=lambda one: (not one.is_Number, *_first(one), str(one)))
    return "·".join(f"({_sum(one, numbers)})" if one.is_Add else _power(one, numbers) for one in factors)


def _first(factor: Any) -> tuple[Any, ...]:
    letters = sorted(_place(one) for one in factor.free_symbols)
    return (factor.is_Add, letters)


def _power(expression: Any, numbers: Mapping[str, int]) -> str:
    if not (expression.is_Pow and expression.exp.is_Integer):
        return _atom(expression, numbers)
    base = _sum(expression.base, numbers)
    return f"{f'({base})' if expression.base.is_Add else base}{str(expression.exp).translate(RAISED)}"


def _atom(expression: Any, numbers: Mapping[str, int]) -> str:
    import sympy

    if expression.is_Symbol:
        return f"{numbers[expression.name]:,}" if expression.name in numbers else expression.name
    if expression.is_Integer:
        return f"{int(expression):,}"
    if isinstance(expression, sympy.ceiling):
        return f"⌈{_product(expression.args[0], numbers)}⌉"
    if isinstance(expression, sympy.Max):
        return f"max({', '.join(_sum(one, numbers) for one in expression.args)})"
    inside = _logarithm(expression)
    return str(expression) if inside is None else f"lg {_wrapped(inside, numbers)}"


def _logarithm(expression: Any) -> Any:
    """x of lg x = ln x / ln 2, else None."""
    import sympy

    scaled = expression * sympy.log(2)
    return scaled.args[0] if isinstance(scaled, sympy.log) else None


def _wrapped(expression: Any, numbers: Mapping[str, int]) -> str:
    text = _sum(expression, numbers)
    return f"({text})" if expression.is_Add or expression.is_Mul else text


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
