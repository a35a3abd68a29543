"""Reading piece by piece with a cache equals reading at once, whatever the pieces and the padding before them."""

from dataclasses import replace

from headway.adapt.adapter import Reading
from headway.audit.laws.padding import pose as padded
from headway.audit.report import Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Contrast
from headway.audit.search.find import search
from headway.audit.search.search_context import Dice, Scene


def cache(scene: Scene) -> Finding:
    """Token by token, in pieces, and rows that begin at different places."""
    return search(scene, "cache", draw, pose)


def draw(scene: Scene, random: Dice) -> Case:
    length = scene.a_length(random, least=2)
    left = random.randint(1, 3) if scene.subject.missing("keep") is None and random.turn([False, True]) else 0
    longest = scene.subject.adapter.longest
    left = 0 if longest is not None and length + left > longest else left
    chunks = split(random, length + left)
    return Case(
        random.randrange(1 << 30),
        length,
        random.randint(1, min(3, scene.effort.items)),
        left=left,
        chunks=chunks,
        source=length + 2,
    )


def split(random: Dice, length: int) -> tuple[int, ...]:
    """Ones, or pieces of any sizes: often a first piece and then token by token, as in decoding.

    >>> sum(split(Dice("", 2), 9))
    9
    """
    kind = random.turn(["prompt", "ones", "any"])
    if kind == "ones":
        return (1,) * length
    first = random.randint(1, max(1, length - 1))
    if kind == "prompt":
        return (first,) + (1,) * (length - first)
    pieces, left = [], length
    while left:
        pieces.append(random.randint(1, left))
        left -= pieces[-1]
    return tuple(pieces)


def pose(scene: Scene, case: Case) -> Contrast | None:
    """At once, and in pieces; where rows are padded on the left, both are (whether padding matters is another law)."""
    total = case.length + case.left
    if len(case.chunks) < 2:
        return None
    if case.left:
        contrast = padded(scene, replace(case, right=0, content="tokens"))
        if contrast is None:
            return None
        whole = contrast.after[0]
        fits = bool(whole.labels[:, : case.chunks[0]].ge(0).any(-1).all())
        if not fits:  # a first piece of nothing but padding is nobody's prompt
            return None
    else:
        whole = case.reading(scene.subject.adapter)
    sizes = _pieces(case.chunks, total)
    padding = f" after {case.left} of padding" if case.left else ""
    told = f"reading in pieces of {', '.join(map(str, sizes))}{padding} differs from reading at once"
    return Contrast((whole,), _cut(whole, sizes), told, stepwise=True)


def _pieces(chunks: tuple[int, ...], total: int) -> tuple[int, ...]:
    """The pieces, made to fit: a shrunk case may have lost some of its text."""
    found: list[int] = []
    for size in chunks:
        found.append(min(size, total - sum(found)))
    rest = total - sum(found)
    return tuple(size for size in [*found, rest] if size > 0)


def _cut(whole: Reading, sizes: tuple[int, ...]) -> tuple[Reading, ...]:
    ends = [sum(sizes[: k + 1]) for k in range(len(sizes))]
    return tuple(whole.part(end - size, end) for end, size in zip(ends, sizes, strict=True))
