"""Curves in a terminal: braille characters, two by four dots in each."""

from collections.abc import Sequence
from itertools import pairwise
from math import isfinite

from headway.render import Series
from headway.render.axis import labels, spread

_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # by row and column of a character

Cell = tuple[str, int | None]  # a character, and the number of the curve it belongs to


def plot(series: Sequence[Series], *, width: int = 72, height: int = 14, x: str = "step") -> list[list[Cell]]:
    """The curves over one another, in lines of characters; each ends in its letter (A, B, …), so colour is not needed.

    >>> for line in plot([Series("one", [(0, 0.0), (1, 1.0)])], width=16, height=4):
    ...     print("".join(character for character, _ in line).rstrip())
      1 ┤        ⢀⠤A
    0.5 ┤      ⡠⠊⠁
        │   ⢀⠤⠊⠁
      0 ┤ ⡠⠔⠁
        └───────────
         0    step 1
    """
    points = [[(x, y) for x, y in one.points if isfinite(y)] for one in series]
    flat = [point for some in points for point in some]
    if not flat:
        return [[(character, None) for character in "nothing to draw yet"]]
    across, up = spread([x for x, _ in flat], room=0.0), spread([y for _, y in flat], room=0.0)
    marks = {height - 1 - round(up.at(value) * (height - 1)): value for value in up.marks(max(2, height // 4))}
    names = dict(zip(marks, labels(list(marks.values())), strict=True))
    gutter = max(map(len, names.values()), default=0)
    inner = max(8, width - gutter - 3)
    grid = _Grid(inner, height)
    for number, some in enumerate(points):
        grid.draw(number, [(across.at(x), up.at(y)) for x, y in some])
    left, right = labels([across.low, across.high])
    lines = [
        [*_plain(f"{names.get(row, ''):>{gutter}} {'┤' if row in names else '│'} "), *grid.line(row)]
        for row in range(height)
    ]
    ruler = f"{'':>{gutter}}  {left}{f'{x} {right}':>{max(0, inner + 1 - len(left))}}"
    return [*lines, _plain(f"{'':>{gutter}} └{'─' * (inner + 1)}"), _plain(ruler)]


def letter(number: int) -> str:
    """The sign of a curve.

    >>> letter(0), letter(25), letter(26)
    ('A', 'Z', 'a')
    """
    return "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"[number % 52]


def _plain(text: str) -> list[Cell]:
    return [(character, None) for character in text]


class _Grid:
    """Dots in characters; a character belongs to the curve that was drawn there last."""

    def __init__(self, width: int, height: int) -> None:
        self.width, self.height = width, height
        self.dots: dict[tuple[int, int], int] = {}
        self.owner: dict[tuple[int, int], int] = {}
        self.ends: dict[tuple[int, int], str] = {}

    def draw(self, number: int, places: Sequence[tuple[float, float]]) -> None:
        """A curve through places from 0 to 1, and its letter at the end."""
        if not places:
            return
        spots = [(x * (2 * self.width - 1), (1 - y) * (4 * self.height - 1)) for x, y in places]
        for (x0, y0), (x1, y1) in pairwise([spots[0], *spots]):
            count = max(1, int(max(abs(x1 - x0), abs(y1 - y0))) + 1)
            for part in range(count + 1):
                self._dot(number, x0 + (x1 - x0) * part / count, y0 + (y1 - y0) * part / count)
        column, row = round(spots[-1][0]) // 2, round(spots[-1][1]) // 4
        while (row, column) in self.ends and column > 0:  # two curves that end in one place
            column -= 1
        self.ends[row, column], self.owner[row, column] = letter(number), number

    def _dot(self, number: int, x: float, y: float) -> None:
        column, row = round(x), round(y)
        cell = (row // 4, column // 2)
        self.dots[cell] = self.dots.get(cell, 0) | _DOTS[row % 4][column % 2]
        self.owner[cell] = number

    def line(self, row: int) -> list[Cell]:
        cells = [(row, column) for column in range(self.width)]
        signs = [self.ends.get(cell) or chr(0x2800 + self.dots[cell]) if cell in self.dots else " " for cell in cells]
        return [(sign, self.owner.get(cell)) for sign, cell in zip(signs, cells, strict=True)]
