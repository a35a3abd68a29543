"""Rates of a machine, and the seconds of an operation by the kernel that computes it.

Rates are tables of measurements; between two of them ln rate is linear in the logarithms of the sizes, and beyond the
last one it stays constant. Work is multiply-adds for products and attention, bytes for everything that only streams.
What a block takes beyond its kernels (Python between them) is charged to its attention, of which every block has one.

>>> grid = Grid({"rows": (1.0, 4.0)}, (10.0, 40.0))
>>> grid.at(rows=1), round(grid.at(rows=2), 9), grid.at(rows=100)
(10.0, 20.0, 40.0)
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise, product
from math import exp, isfinite, log, sqrt
from typing import Any

from headway.cost.op_tree import Line
from headway.cost.setting import BYTES
from headway.ops.loss import ENTRIES, FEW
from headway.sizes import Cost, Operation

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


FORWARD, LEARNING, BACKWARD, UPDATE, DECODING = "forward", "learning", "backward", "update", "decoding"
WIDE = 2**13  # columns from which on a product is a head over a vocabulary, if they are many more than its inputs
PHASES = (FORWARD, LEARNING, BACKWARD, UPDATE, DECODING)


@dataclass(frozen=True)
class WeightBytes:
    """What the operations of a model use in turn: bytes of weights, and bytes of one entry."""

    weights: float
    itemsize: int

    @classmethod
    def of(cls, lines: Iterable[Line], dtype: str) -> "WeightBytes":
        if dtype not in BYTES:
            raise ValueError(f"there is no precision {dtype!r}; there are {', '.join(BYTES)}")
        entries = sum(
            line.sets * _table(line.operation) for line in lines if line.runs and line.operation.kind != "embedding"
        )
        return cls(float(entries * BYTES[dtype]), BYTES[dtype])


def seconds_of(rates: Rates, line: Line, phase: str, held: WeightBytes) -> float:
    """An operation as often as it runs, in one phase; decoding is forward, one token at a time."""
    if phase not in PHASES:
        raise ValueError(f"there is no phase {phase!r}; there are {', '.join(PHASES)}")
    if phase == UPDATE:
        return line.sets * _update(rates, line.operation, held)
    if line.path.endswith("dropout"):
        return line.runs * _streamed(rates, "elementwise" if phase == BACKWARD else "dropout", line.operation, held)
    return line.runs * _once(rates, line.operation, phase, held)


def _once(rates: Rates, operation: Operation, phase: str, held: WeightBytes) -> float:
    if operation.kind in ("product", "convolution"):
        return _product(rates, operation, phase, held)
    if operation.kind == "attention":
        return _attention(rates, operation, phase, held)
    if operation.kind == "embedding":
        return _embedding(rates, operation, phase, held)
    return _stream(rates, operation, phase, held)


def executed(cost: Cost) -> float:
    """Multiply-adds that are really done; all pairs where nobody knows."""
    return float(cost.dense if cost.executed is None else cost.executed)


def _cost(operation: Operation, phase: str) -> Cost:
    return operation.backward if phase == BACKWARD else operation.forward


def _kernel(phase: str) -> str:
    return FORWARD if phase == DECODING else phase


def _product(rates: Rates, operation: Operation, phase: str, held: WeightBytes) -> float:
    work, phase = executed(_cost(operation, phase)), _kernel(phase)
    count, rows, inner, columns = _shape(operation, work)
    if not _table(operation):
        return rates.seconds("batched/forward", work, side=(rows * inner * columns) ** (1 / 3))
    if columns >= WIDE and columns >= 4 * inner:
        return _head(rates, operation, phase, held)
    far = max(held.weights, inner * columns * held.itemsize)
    found = rates.seconds(f"product/{phase}", work, rows=count * rows, side=sqrt(inner * columns), held=far)
    return found + _tied(rates, operation, held) if phase == BACKWARD else found


def _head(rates: Rates, operation: Operation, phase: str, held: WeightBytes) -> float:
    """While training, a loss over many logits takes a few rows at a time; the gradient of all weights is made of zeros,
    and once more in the scale of the loss."""
    work = executed(_cost(operation, phase))
    _, rows, inner, columns = _shape(operation, work)
    rows = rows if phase == FORWARD or rows * columns <= FEW else min(rows, max(1.0, ENTRIES // columns))
    if phase != BACKWARD:
        return rates.seconds("wide/forward", work, rows=rows, columns=columns)
    fresh = 3.0 * 4.0 * inner * columns
    gradient = rates.seconds("elementwise/forward", fresh, bytes=fresh)
    return rates.seconds("wide/backward", work, rows=rows, columns=columns) + gradient + _tied(rates, operation, held)


def _shape(operation: Operation, work: float) -> tuple[float, float, float, float]:
    """count, rows, inner, columns; a cube of that work where nobody says."""
    if len(operation.shape) == 4:
        count, rows, inner, columns = (float(size) for size in operation.shape)
        return count, rows, inner, columns
    side = max(1.0, work) ** (1 / 3)
    return 1.0, side, side, side


def _tied(rates: Rates, operation: Operation, held: WeightBytes) -> float:
    """The gradient of a table that two operations share comes in two parts, which are added."""
    bytes = 3.0 * float(operation.borrowed) * held.itemsize
    return rates.seconds("elementwise/forward", bytes, bytes=bytes)


def _attention(rates: Rates, operation: Operation, phase: str, held: WeightBytes) -> float:
    work = executed(_cost(operation, phase))
    _, queries, width, keys = _shape(operation, work)
    kernel = f"{'written' if _written(operation) else 'attention'}/{_kernel(phase)}"
    found = rates.seconds(kernel, work, queries=queries, keys=keys, width=width)
    return found + rates.overheads[f"block/{phase}"]


def _written(operation: Operation) -> bool:
    """Whether scores are written out: backwards then twice the products (three times, made again), not 2.5."""
    forward, backward = executed(operation.forward), executed(operation.backward)
    return backward in (2 * forward, 3 * forward)


def _embedding(rates: Rates, operation: Operation, phase: str, held: WeightBytes) -> float:
    """Backwards, a table of zeros with a few rows added."""
    entries = _table(operation) if phase == BACKWARD else operation.reads + operation.writes
    work = float(entries * held.itemsize)
    return rates.seconds(f"embedding/{BACKWARD if phase == BACKWARD else FORWARD}", work, bytes=work)


def _stream(rates: Rates, operation: Operation, phase: str, held: WeightBytes) -> float:
    """Norms, activations, losses and sums: what they read and write."""
    side = BACKWARD if phase == BACKWARD else FORWARD
    if operation.kind == "activation":
        flops = max(1.0, float(operation.forward.other) / max(1.0, float(operation.writes)))
        bytes = _bytes(operation, held)
        return rates.seconds(f"activation/{side}", bytes, bytes=bytes, flops=flops)
    if operation.kind == "norm":
        return _streamed(rates, "norm", operation, held, side)
    if operation.kind == "loss":
        # The gradient of a loss is taken where the loss is.
        return 0.0 if phase == BACKWARD else _streamed(rates, "loss", operation, held)
    return _streamed(rates, "elementwise", operation, held)


def _streamed(rates: Rates, kernel: str, operation: Operation, held: WeightBytes, side: str = FORWARD) -> float:
    bytes = _bytes(operation, held)
    return rates.seconds(f"{kernel}/{side}", bytes, bytes=bytes)


def _bytes(operation: Operation, held: WeightBytes) -> float:
    return float((operation.reads + operation.writes) * held.itemsize)


def _update(rates: Rates, operation: Operation, held: WeightBytes) -> float:
    """Its parameters' part of the optimiser, which goes through those of the whole model."""
    work = 4.0 * float(operation.parameters)
    return rates.seconds("update/forward", work, bytes=max(work, held.weights))


def _table(operation: Operation) -> float:
    """Entries of the weights it multiplies or looks up, its own or another's."""
    return float(operation.weights + operation.borrowed)
