"""Reading piece by piece with a cache equals reading at once, whatever the pieces and the padding before them."""

from dataclasses import replace

from headway.adapt.adapter import Reading
from headway.audit.laws.padding import compare as padded
from headway.audit.report import Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Comparison
from headway.audit.search.find import search
from headway.audit.search.search_context import SearchContext, TrialRng


def cache(context: SearchContext) -> Finding:
    """Token by token, in pieces, and rows that begin at different places."""
    return search(context, "cache", draw, compare)


def draw(context: SearchContext, rng: TrialRng) -> Case:
    length = context.draw_length(rng, least=2)
    left = rng.randint(1, 3) if context.subject.missing("keep") is None and rng.turn([False, True]) else 0
    longest = context.subject.adapter.longest
    left = 0 if longest is not None and length + left > longest else left
    chunks = split(rng, length + left)
    return Case(
        rng.randrange(1 << 30),
        length,
        rng.randint(1, min(3, context.effort.items)),
        left=left,
        chunks=chunks,
        source=length + 2,
    )


def split(rng: TrialRng, length: int) -> tuple[int, ...]:
    """Ones, or pieces of any sizes: often a first piece and then token by token, as in decoding.

    >>> sum(split(TrialRng("", 2), 9))
    9
    """
    kind = rng.turn(["prompt", "ones", "any"])
    if kind == "ones":
        return (1,) * length
    first = rng.randint(1, max(1, length - 1))
    if kind == "prompt":
        return (first,) + (1,) * (length - first)
    pieces, left = [], length
    while left:
        pieces.append(rng.randint(1, left))
        left -= pieces[-1]
    return tuple(pieces)


def compare(context: SearchContext, case: Case) -> Comparison | None:
    """At once, and in pieces; where rows are padded on the left, both are (whether padding matters is another law)."""
    total = case.length + case.left
    if len(case.chunks) < 2:
        return None
    if case.left:
        comparison = padded(context, replace(case, right=0, content="tokens"))
        if comparison is None:
            return None
        whole = comparison.after[0]
        fits = bool(whole.labels[:, : case.chunks[0]].ge(0).any(-1).all())
        if not fits:  # a first piece of nothing but padding is nobody's prompt
            return None
    else:
        whole = case.reading(context.subject.adapter)
    sizes = _pieces(case.chunks, total)
    padding = f" after {case.left} of padding" if case.left else ""
    sentence = f"reading in pieces of {', '.join(map(str, sizes))}{padding} differs from reading at once"
    return Comparison((whole,), _cut(whole, sizes), sentence, stepwise=True)


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
