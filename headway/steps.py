"""Parallel depth: how many steps a computation takes when everything that can run at once does (work and span).

A step is one addition, multiplication, division, exponential, root, curve or comparison of two numbers. Moving numbers
(views, copies, lookups, selection by a mask) takes none. What n terms take to add up is the choice of the counting:

    tree      ⌈lg n⌉ for every sum: halves are added side by side
    serial    sums over widths (D, K, F …) one after the other, n - 1; sums over positions stay trees
    sums      as tree, and nothing counts but the additions of sums (and the comparisons of a maximum)

>>> depth_of((Product(8, WIDTH), *softmax_steps(5)), TREE), depth_of((Product(8, WIDTH),), SERIAL)
(13, 8)
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

# An int, or anything that adds and multiplies like one (a sympy symbol, say).
Number = Any

WIDTH, POSITIONS = "width", "positions"


@dataclass(frozen=True)
class Each:
    """Entry by entry: so many operations one after the other."""

    steps: Number = 1


@dataclass(frozen=True)
class Sum:
    """A sum (or a maximum) over so many terms."""

    terms: Number
    over: str = WIDTH


@dataclass(frozen=True)
class Product:
    """An inner product: one multiplication of all pairs at once, and the sum."""

    terms: Number
    over: str = WIDTH


Step = Each | Sum | Product


@dataclass(frozen=True)
class Counting:
    """How steps are counted: whether sums over widths are serial, and whether single operations count at all."""

    name: str
    serial_widths: bool = False
    each: bool = True


TREE, SERIAL, SUMS = Counting("tree"), Counting("serial", serial_widths=True), Counting("sums", each=False)
COUNTINGS = {counting.name: counting for counting in (TREE, SERIAL, SUMS)}


def depth_of(steps: Iterable[Step], counting: Counting) -> Number:
    """Steps one after the other."""
    return sum((_depth(step, counting) for step in steps), 0)


def _depth(step: Step, counting: Counting) -> Number:
    if isinstance(step, Each):
        return step.steps if counting.each else 0
    multiplied = 1 if isinstance(step, Product) and counting.each else 0
    serial = counting.serial_widths and step.over == WIDTH
    return multiplied + (step.terms - 1 if serial else levels(step.terms))


def levels(terms: Number) -> Number:
    """⌈lg n⌉: how high a tree is that adds n terms.

    >>> [levels(terms) for terms in (1, 2, 3, 768, 1024)]
    [0, 1, 2, 10, 10]
    """
    if isinstance(terms, int):
        return max(0, terms - 1).bit_length()
    import sympy  # only symbols need it, and it takes half a second

    return sympy.ceiling(sympy.log(terms, 2))


def longest(depths: Sequence[Number]) -> Number:
    """The largest of some depths; of symbols, their maximum as a formula."""
    if all(isinstance(one, int) for one in depths):
        return max(depths, default=0)
    import sympy

    largest: Callable[..., Any] = sympy.Max
    return largest(*depths)


def softmax_steps(terms: Number, over: str = POSITIONS) -> tuple[Step, ...]:
    """Maximum, subtract, exponential, sum, divide."""
    return (Sum(terms, over), Each(2), Sum(terms, over), Each(1))
