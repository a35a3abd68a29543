"""How formulas are written."""

import pytest
import sympy

from headway.cost.show.formula import written
from headway.cost.symbols import symbol

B, D, F, H, K, L = (symbol(name) for name in "BDFHKL")


def lg(x: sympy.Expr) -> sympy.Expr:
    return sympy.ceiling(sympy.log(x, 2))


@pytest.mark.parametrize(
    ("formula", "text"),
    [
        (0, "0"),
        (1234567, "1,234,567"),
        (-3 * L, "-3·L"),
        (L**2 * B * 36864 + 247064064 * B * L, "36,864·B·L² + 247,064,064·B·L"),
        (B * L - 5 * B, "B·L - 5·B"),
        (D * (F + 1), "D·(F + 1)"),
        (L * (L + 1) / 2, "L·(L + 1)/2"),
        (B * L / (D * F), "B·L/(D·F)"),
        (3 * lg(L) + 2, "3·⌈lg L⌉ + 2"),
        (L * lg(H * K) + lg(D), "L·⌈lg (H·K)⌉ + ⌈lg D⌉"),
        (sympy.Max(L, 2 * D), "max(L, 2·D)"),
        ((B + L) ** 3, "(B + L)³"),
        (symbol("F₂") * D, "D·F₂"),
    ],
)
def test_as_on_paper(formula: sympy.Expr, text: str) -> None:
    assert written(formula) == text


def test_numbers_stand_where_the_letters_stood() -> None:
    formula = 2 * B * L**2 * D + lg(D) * (F + 1)
    numbers = {"B": 3, "L": 1024, "D": 5, "F": 7}
    assert written(formula, numbers) == "5·(7 + 1)".replace("5", "⌈lg 5⌉") + " + 2·3·1,024²·5"
    assert written(formula, {"B": 3}) == written(formula.subs({B: sympy.Integer(3)})).replace("6", "2·3")
