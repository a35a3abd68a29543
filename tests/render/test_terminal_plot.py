"""Curves in a terminal."""

from math import nan

from headway.render import Series
from headway.render.terminal_plot import plot


def drawn(*series: Series, width: int = 40, height: int = 8) -> list[str]:
    return ["".join(character for character, _ in line) for line in plot(series, width=width, height=height)]


def test_a_curve_that_falls_goes_down() -> None:
    lines = drawn(Series("a", [(0, 10.0), (1, 0.0)]))
    columns = [line.find(next(sign for sign in line if "⠀" < sign <= "⣿" or sign == "A")) for line in lines[:8]]
    assert columns == sorted(columns) and len(set(columns)) == 8
    assert lines[0].startswith("10 ┤") and lines[7].startswith(" 0 ┤") and lines[7].rstrip().endswith("A")
    assert all(len(line) <= 40 for line in lines)


def test_each_curve_ends_in_its_letter_and_owns_its_cells() -> None:
    cells = plot([Series("a", [(0, 1.0), (9, 1.0)]), Series("b", [(0, 2.0), (9, 2.0)])], width=30, height=6)
    owners = {sign: owner for line in cells for sign, owner in line if sign in "AB"}
    assert owners == {"A": 0, "B": 1}
    assert {owner for _, owner in cells[0]} == {None, 1} and {owner for _, owner in cells[5]} == {None, 0}


def test_curves_that_end_together_keep_both_letters() -> None:
    same = [(0, 1.0), (5, 2.0)]
    text = "".join(drawn(Series("a", same), Series("b", same), Series("c", same)))
    assert all(text.count(letter) == 1 for letter in "ABC")


def test_one_point_a_constant_gaps_and_nothing() -> None:
    assert "A" in "".join(drawn(Series("a", [(3, 1.7)])))
    assert "A" in "".join(drawn(Series("a", [(3, 1.7), (4, 1.7)])))
    assert "A" in "".join(drawn(Series("a", [(1, nan), (3, 1.7), (4, nan)])))
    assert drawn(Series("a", [(1, nan)])) == ["nothing to draw yet"]
    assert drawn() == ["nothing to draw yet"]
