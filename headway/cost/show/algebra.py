"""Formulas as one writes them: 36,864·B·L² + 247,064,064·B·L, and ⌈lg L⌉ for the height of a tree."""

from collections.abc import Mapping
from typing import Any

RAISED = str.maketrans("0123456789-", "⁰¹²³⁴⁵⁶⁷⁸⁹⁻")
# In this order letters stand in a product.
ORDER = "NBLMSTDHGKWRFVC"


def written(expression: Any, numbers: Mapping[str, int] | None = None) -> str:
    """An expression in letters; with `numbers`, these in place of the letters.

    >>> from headway.cost.letters import symbol
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
