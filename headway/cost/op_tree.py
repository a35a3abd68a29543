"""The tree of operations that a computation is made of, in series or side by side, each with its cost.

>>> each = Operation("elementwise", forward=other(5), backward=other(10), steps=(Each(1),))
>>> sheet = series("block", leaf("add", each), leaf("norm", each), times=3)
>>> total(sheet, lambda operation: operation.forward.other), depth(sheet, TREE)
(30, 6)
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from headway.sizes import NOTHING, Cost, Number, Operation, other
from headway.steps import SERIAL, TREE, Counting, Each, depth_of, longest

__all__ = [
    "SERIAL", "TREE", "Each", "Line", "Operation", "Part", "beside", "depth", "leaf", "lines", "other", "series",
    "total",
]  # fmt: skip


@dataclass(frozen=True)
class Part:
    """An operation, or parts of it: in series, or side by side. `times` repeats it with parameters of its own, `again`
    with the same ones (a recurrence). `early`: ready long before anybody waits for it, so that depth passes it by."""

    name: str
    inside: tuple["Part", ...] = ()
    operation: Operation | None = None
    abreast: bool = False
    times: Number = 1
    again: Number = 1
    early: bool = False


@dataclass(frozen=True)
class Line:
    """An operation where it stands: its path, how often it runs, and how many sets of parameters it has."""

    path: str
    runs: Number
    sets: Number
    operation: Operation


def leaf(name: str, operation: Operation) -> Part:
    return Part(name, operation=operation)


def series(name: str, *parts: Part | None, times: Number = 1, again: Number = 1) -> Part:
    """One after the other; None is left out."""
    return Part(name, tuple(part for part in parts if part is not None), times=times, again=again)


def beside(name: str, *parts: Part | None) -> Part:
    """Side by side: none waits for another."""
    return replace(series(name, *parts), abreast=True)


def cut(part: Part, at: str) -> tuple[Part | None, Part | None]:
    """A series in two, before the first operation whose path ends so: what comes before it, and the rest with it.

    >>> nothing = Operation("elementwise")
    >>> before, rest = cut(series("a", leaf("b", nothing), leaf("c", nothing), leaf("d", nothing)), "a.c")
    >>> [line.path for half in (before, rest) for line in lines(half)]
    ['a.b', 'a.c', 'a.d']
    """
    found = next((index for index, inner in enumerate(part.inside) if _holds(inner, at, part.name)), None)
    if part.operation is not None or found is None:
        return None, part
    before, after = cut(part.inside[found], at)
    halves = (*part.inside[:found], before), (after, *part.inside[found + 1 :])
    first, second = (replace(part, inside=tuple(one for one in half if one is not None)) for half in halves)
    return (first if first.inside else None), second


def _holds(part: Part, at: str, path: str) -> bool:
    return any(f".{line.path}".endswith(f".{at}") for line in lines(part, path))


def gathered(found: Iterable[Line]) -> list[Line]:
    """Lines of one path and one price as one, where the first stands."""
    held: dict[tuple[str, Operation], Line] = {}
    for line in found:
        key = line.path, line.operation
        known = held.get(key)
        held[key] = line if known is None else replace(known, runs=known.runs + line.runs, sets=known.sets + line.sets)
    return list(held.values())


def lines(part: Part, path: str = "", runs: Number = 1, sets: Number = 1) -> Iterator[Line]:
    """Every operation of a tree, in the order in which they run; a part without a name adds no level."""
    path = ".".join(name for name in (path, part.name) if name)
    runs, sets = runs * part.times * part.again, sets * part.times
    if part.operation is not None:
        yield Line(path, runs, sets, part.operation)
    for inner in part.inside:
        yield from lines(inner, path, runs, sets)


def total(part: Part, value: Callable[[Operation], Number]) -> Number:
    """The sum over all operations, as often as they run."""
    return sum((line.runs * value(line.operation) for line in lines(part)), 0)


def parameters(part: Part) -> Number:
    """Entries of all parameters, a shared one once."""
    return sum((line.sets * line.operation.parameters for line in lines(part)), 0)


def forward(part: Part) -> Cost:
    """The price of all operations forwards."""
    return summed(lines(part))


def backward(part: Part) -> Cost:
    """The price of all operations backwards."""
    return summed(lines(part), backward=True)


def summed(found: Iterable[Line], *, backward: bool = False) -> Cost:
    """The price of all lines as often as they run, forwards or backwards."""
    total = NOTHING
    for line in found:
        total = total + (line.operation.backward if backward else line.operation.forward) * line.runs
    return total


def depth(part: Part, counting: Counting) -> Number:
    """Steps on the longest way through: sums in series, the longest of what runs side by side."""
    if part.early:
        return 0
    own = 0 if part.operation is None else depth_of(part.operation.steps, counting)
    inner = [depth(one, counting) for one in part.inside]
    within = longest(inner) if part.abreast else sum(inner, 0)
    return (own + within) * part.times * part.again
