"""Sets of input positions, one for each output position, and what becomes of them from layer to layer.

Where each set is a range (or the product of a range of rows and one of columns), two numbers an axis say it, and a
layer costs O(L) whatever the width of its window; elsewhere a table of L x M says it.

>>> near = Axis(torch.tensor([0, 0, 1, 2]), torch.tensor([1, 2, 3, 4]), 4)
>>> compose(Boxes((near,)), Boxes((near,))).counts.tolist()
[1, 2, 3, 3]
"""

from dataclasses import dataclass
from math import prod

import torch
from jaxtyping import Bool, Int
from torch import Tensor

# The longest side of a table: at 2,048 one layer takes a product of 2,048³.
LONGEST = 2048


class TooLong(ValueError):
    """A pattern without ranges, on too many positions to tabulate."""


@dataclass(frozen=True, eq=False)
class Axis:
    """For each position the places low, low + step, … up to high - 1, out of `size`; none where low = high."""

    low: Int[Tensor, " L"]
    high: Int[Tensor, " L"]
    size: int
    step: int = 1

    @property
    def counts(self) -> Int[Tensor, " L"]:
        return (self.high - self.low + self.step - 1) // self.step

    @property
    def table(self) -> Bool[Tensor, "L M"]:
        place, low, high = torch.arange(self.size), self.low[:, None], self.high[:, None]
        return (place >= low) & (place < high) & ((place - low) % self.step == 0)


@dataclass(frozen=True, eq=False)
class Boxes:
    """Ranges along each axis: a sequence has one, a grid two (its positions stand row by row)."""

    axes: tuple[Axis, ...]

    @property
    def inputs(self) -> int:
        return prod(axis.size for axis in self.axes)

    @property
    def counts(self) -> Int[Tensor, " L"]:
        found = self.axes[0].counts
        for axis in self.axes[1:]:
            found = torch.outer(found, axis.counts).flatten()
        return found

    @property
    def table(self) -> Bool[Tensor, "L M"]:
        outputs = prod(len(axis.low) for axis in self.axes)
        if outputs * self.inputs > LONGEST**2:
            raise TooLong(
                f"sets of {outputs:,} positions over {self.inputs:,} without a formula need a table, and tables go up "
                f"to {LONGEST:,} x {LONGEST:,}: ask for a shorter length"
            )
        found = self.axes[0].table
        for axis in self.axes[1:]:
            found = torch.kron(found.byte(), axis.table.byte()).bool()
        return found


@dataclass(frozen=True, eq=False)
class TableSets:
    """Any sets, written out."""

    table: Bool[Tensor, "L M"]

    @property
    def inputs(self) -> int:
        return self.table.shape[1]

    @property
    def counts(self) -> Int[Tensor, " L"]:
        return self.table.sum(-1)


@dataclass(frozen=True, eq=False)
class Counted:
    """How large sets are that nobody has written out."""

    counts: Int[Tensor, " L"]
    inputs: int

    @property
    def table(self) -> Bool[Tensor, "L M"]:
        raise TooLong(
            f"sets of {len(self.counts):,} positions over {self.inputs:,} are counted and not written out, tables "
            f"going up to {LONGEST:,} x {LONGEST:,}: ask for a shorter length"
        )


Sets = Boxes | TableSets | Counted


@dataclass(frozen=True, eq=False)
class LayerSets:
    """What the positions of one layer see; `causal`: of what comes later they cannot see anything in any layer."""

    part: str
    number: int
    sets: Sets
    causal: bool = False


def everything(outputs: int, inputs: int) -> Axis:
    """Every position sees all."""
    return Axis(torch.zeros(outputs, dtype=torch.long), torch.full((outputs,), inputs), inputs)


def nothing(outputs: int, inputs: int) -> Axis:
    """No position sees any."""
    return Axis(torch.zeros(outputs, dtype=torch.long), torch.zeros(outputs, dtype=torch.long), inputs)


def itself(length: int, step: int = 1) -> Axis:
    """Every position sees itself; to be seen further by layers of this step."""
    return Axis(torch.arange(length), torch.arange(length) + 1, length, step)


def compose(outer: Sets, inner: Sets) -> Sets:
    """What is seen through a layer: the union of what the positions that it looks at have seen."""
    if isinstance(outer, Boxes) and isinstance(inner, Boxes) and len(outer.axes) == len(inner.axes):
        axes = [_through(one, other) for one, other in zip(outer.axes, inner.axes, strict=True)]
        if all(axis is not None for axis in axes):
            return Boxes(tuple(axis for axis in axes if axis is not None))
    if _sees_all(outer) and bool((inner.counts == inner.inputs).any()):
        return Boxes((everything(len(outer.counts), inner.inputs),))
    # A sum of numbers that are not negative is 0 only where all are: no rounding can hide a way.
    return TableSets(outer.table.float() @ inner.table.float() > 0)


def _sees_all(sets: Sets) -> bool:
    return bool((sets.counts == sets.inputs).all())


def _through(outer: Axis, inner: Axis) -> Axis | None:
    """The same along one axis; None where the union of ranges would have gaps."""
    step, empty = outer.step, outer.low >= outer.high
    if step != inner.step or not _rising(inner.low, step) or not _rising(inner.high, step):
        return None
    first, last = outer.low.clamp(max=len(inner.low) - 1), (outer.high - 1).clamp(min=0)
    apart = inner.low[step:] > inner.high[:-step] + step - 1
    before = torch.cat([torch.zeros(1, dtype=torch.long), apart.cumsum(0)])
    gaps = apart.any() if step > 1 else (before[last] > before[first]).logical_and(~empty).any()
    if bool(gaps):
        return None
    low, high = inner.low[first].masked_fill(empty, 0), inner.high[last].masked_fill(empty, 0)
    return Axis(low, high, inner.size, step)


def _rising(bounds: Int[Tensor, " L"], step: int) -> bool:
    return bool((bounds[step:] >= bounds[:-step]).all())


def union(one: Sets, other: Sets) -> Sets:
    """What is seen in one of two ways."""
    for first, second in ((one, other), (other, one)):
        if not bool(first.counts.any()) or _sees_all(second):
            return second
    return TableSets(one.table | other.table)


def same(one: Sets, other: Sets) -> bool:
    """Whether two are equal, without writing out ranges."""
    if isinstance(one, Boxes) and isinstance(other, Boxes) and len(one.axes) == len(other.axes):
        pairs = zip(one.axes, other.axes, strict=True)
        return all(torch.equal(a.low, b.low) and torch.equal(a.high, b.high) for a, b in pairs)
    return isinstance(one, TableSets) and isinstance(other, TableSets) and torch.equal(one.table, other.table)
