"""A trial in a few whole numbers, and the simpler trials that a counter-example is shrunk to."""

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any

from headway.adapt.adapter import Adapter, Reading
from headway.adapt.inputs import draw_reading


@dataclass(frozen=True)
class Case:
    """`seed` draws every token. `changed` are places in the text that the law speaks of (changed, hidden, deleted);
    `left` and `right` count padding, `chunks` are the pieces that a cache reads, `content` is a law's own word."""

    seed: int
    length: int
    items: int = 1
    left: int = 0
    right: int = 0
    changed: tuple[int, ...] = ()
    chunks: tuple[int, ...] = ()
    source: int = 0
    content: str = ""

    def reading(self, adapter: Adapter) -> Reading:
        """Its whole text for each item, nothing masked."""
        return draw_reading(adapter, seed=self.seed, length=self.length, items=self.items, source=self.source)

    def as_json(self) -> dict[str, Any]:
        """What is not the default."""
        plain = asdict(replace(self, changed=(), chunks=()))
        told = {key: value for key, value in plain.items() if value not in (0, "", ()) or key == "seed"}
        lists = {"changed": list(self.changed), "chunks": list(self.chunks)}
        return told | {key: value for key, value in lists.items() if value}


def smaller(case: Case, *, shortest: int = 1, multiple: int = 1) -> Iterator[Case]:
    """Simpler cases, the boldest first: shorter, fewer items, fewer changes, less padding, fewer pieces."""
    for length in _below(case.length, max(shortest, multiple)):
        if length % multiple == 0:
            yield from _shortened(case, length)
    yield from (replace(case, items=items) for items in _below(case.items, 1))
    yield from (replace(case, source=source) for source in _below(case.source, 1))
    if len(case.changed) > 1:
        yield from (replace(case, changed=case.changed[:k] + case.changed[k + 1 :]) for k in range(len(case.changed)))
    for left in _below(case.left, 0):
        yield replace(case, left=left, chunks=_fitted(case.chunks, case.length + left))
    yield from (replace(case, right=right) for right in _below(case.right, 0))
    for k in range(len(case.chunks) - 1):
        joined = (*case.chunks[:k], case.chunks[k] + case.chunks[k + 1], *case.chunks[k + 2 :])
        yield replace(case, chunks=joined)


def _below(value: int, least: int) -> list[int]:
    """Smaller whole numbers to try: the least, the middle, one less."""
    return sorted({least, (value + least) // 2, value - 1} & set(range(least, value)))


def _shortened(case: Case, length: int) -> Iterator[Case]:
    """The text without its end, and without its beginning (places and pieces move along)."""
    cut = case.length - length
    kept = tuple(place for place in case.changed if place < length)
    moved = tuple(place - cut for place in case.changed if place >= cut)
    if kept or not case.changed:
        yield replace(case, length=length, changed=kept, chunks=_fitted(case.chunks, length + case.left))
    if moved and moved != kept:
        yield replace(case, length=length, changed=moved, chunks=_fitted(case.chunks, length + case.left))


def _fitted(chunks: tuple[int, ...], length: int) -> tuple[int, ...]:
    """Pieces of a shorter text: the largest lose first, so that as many as possible stay.

    >>> _fitted((14, 1), 4)
    (3, 1)
    """
    sizes = list(chunks)
    while sum(sizes) > length:
        sizes[sizes.index(max(sizes))] -= 1
    if sizes and sum(sizes) < length:
        sizes[-1] += length - sum(sizes)
    return tuple(size for size in sizes if size)


def shrink(case: Case, breaks: Callable[[Case], bool], *, tries: int, shortest: int = 1, multiple: int = 1) -> Case:
    """The last case that still breaks, after at most so many tries.

    >>> shrink(Case(0, 9, changed=(3, 7)), lambda case: case.length > 4 and bool(case.changed), tries=99)
    Case(seed=0, length=5, items=1, left=0, right=0, changed=(3,), chunks=(), source=0, content='')
    """
    while tries > 0:
        for simpler in smaller(case, shortest=shortest, multiple=multiple):
            tries -= 1
            if breaks(simpler):
                case = simpler
                break
            if tries <= 0:
                return case
        else:
            return case
    return case
