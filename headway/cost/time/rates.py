"""Rates of a machine: tables of what was measured, and what lies between two measurements.

    ln rate is taken to be straight in the logarithms of the sizes; beyond the last knot the rate stays what it was.

>>> grid = Grid({"rows": (1.0, 4.0)}, (10.0, 40.0))
>>> grid.at(rows=1), round(grid.at(rows=2), 9), grid.at(rows=100)
(10.0, 20.0, 40.0)
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from math import exp, isfinite, log
from typing import Any

Axes = Mapping[str, tuple[float, ...]]


@dataclass(frozen=True)
class Grid:
    """Positive numbers over one or more axes of rising knots, the last axis running fastest."""

    axes: Axes
    values: tuple[float, ...]

    def __post_init__(self) -> None:
        expected = 1
        for name, knots in self.axes.items():
            expected *= len(knots)
            if not knots or knots[0] <= 0 or any(a >= b for a, b in pairwise(knots)):
                raise ValueError(f"knots of {name} are positive and rise, not {list(knots)}")
        if len(self.values) != expected or not all(isfinite(value) and value > 0 for value in self.values):
            raise ValueError(f"a table over {', '.join(self.axes)} holds {expected} positive numbers")

    def at(self, **point: float | int) -> float:
        """The rate at a point, which names every axis."""
        corners = [_between(knots, point[name]) for name, knots in self.axes.items()]
        if all(len(corner) == 1 for corner in corners):
            return self.values[self._place(tuple(corner[0][0] for corner in corners))]
        return exp(sum(weight * log(self.values[place]) for place, weight in self._weighted(corners)))

    def _weighted(self, corners: list[list[tuple[int, float]]]) -> Iterator[tuple[int, float]]:
        for chosen in product(*corners):
            weight = 1.0
            for _, share in chosen:
                weight *= share
            yield self._place(tuple(index for index, _ in chosen)), weight

    def _place(self, indices: tuple[int, ...]) -> int:
        place = 0
        for index, knots in zip(indices, self.axes.values(), strict=True):
            place = place * len(knots) + index
        return place

    def as_json(self) -> dict[str, Any]:
        return {"axes": {name: list(knots) for name, knots in self.axes.items()}, "values": list(self.values)}


def grid_of(found: Mapping[str, Any]) -> Grid:
    """The grid that `as_json` wrote."""
    axes = {str(name): tuple(float(knot) for knot in knots) for name, knots in found["axes"].items()}
    return Grid(axes, tuple(float(value) for value in found["values"]))


def tabulate(axes: Axes, value: Callable[..., float]) -> Grid:
    """A grid of a function's values at all knots.

    >>> tabulate({"rows": (1.0, 2.0), "side": (3.0, 5.0)}, lambda rows, side: rows * side).values
    (3.0, 5.0, 6.0, 10.0)
    """
    points = product(*axes.values())
    return Grid(axes, tuple(value(**dict(zip(axes, point, strict=True))) for point in points))


def _between(knots: tuple[float, ...], value: float | int) -> list[tuple[int, float]]:
    """The one or two knots that a value lies at, and their shares."""
    if value <= knots[0]:
        return [(0, 1.0)]
    for index in range(1, len(knots)):
        if value == knots[index]:
            return [(index, 1.0)]
        if value < knots[index]:
            share = log(value / knots[index - 1]) / log(knots[index] / knots[index - 1])
            return [(index - 1, 1.0 - share), (index, share)]
    return [(len(knots) - 1, 1.0)]


@dataclass(frozen=True)
class Rates:
    """What one precision reaches: work per second by kernel, and seconds that every call takes besides."""

    grids: Mapping[str, Grid]
    overheads: Mapping[str, float]

    def seconds(self, kernel: str, work: float, **point: float | int) -> float:
        """overhead + work / rate; no work, no call."""
        if not work:
            return 0.0
        return self.overheads[kernel] + work / self.grids[kernel].at(**point)

    def as_json(self) -> dict[str, Any]:
        grids = {name: grid.as_json() for name, grid in self.grids.items()}
        return {"grids": grids, "overheads": dict(self.overheads)}


def rates_of(found: Mapping[str, Any]) -> Rates:
    """The rates that `as_json` wrote."""
    overheads = {str(name): float(value) for name, value in found["overheads"].items()}
    return Rates({str(name): grid_of(grid) for name, grid in found["grids"].items()}, overheads)
