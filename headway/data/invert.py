"""Inverted sentences, and different ones with exactly the same words, so that a bag of words cannot tell them apart.

A sentence is taken as blocks: its clauses, at commas and conjunctions, or stretches of words where it has none. Its
inversion has the blocks in reverse order, each as it was: "when it rains, the boy runs" becomes "the boy runs, when it
rains". Another sentence with the same words has content words of one block exchanged against those of another: "when it
runs, the boy rains". Of a sentence x and its other x', with π for inverting, the pairs are

    reordered:  (x, π x)  (x', π x')          different:  (x, π x')  (x', π x)

all four equally often. So the words of both sides agree in every pair; and the first sentence alone, or the second
alone, is the same mixture under both answers. Only a comparison of what stands beside what gives the answer.
"""

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from headway.data.sentences import BREAK, CONTENT, JOIN, LAST, WORD

SHORTEST = 2  # words in a block


@dataclass(frozen=True)
class Words:
    """The words of a sentence, each its tokens, and what each is for."""

    tokens: list[tuple[int, ...]]
    kinds: np.ndarray

    @classmethod
    def of(cls, tokens: np.ndarray, marks: np.ndarray) -> "Words":
        starts = np.flatnonzero(marks & WORD)
        starts[:1] = 0
        flat, bounds = tokens.tolist(), [*starts.tolist(), len(tokens)]
        return cls([tuple(flat[first:last]) for first, last in pairwise(bounds)], marks[starts])


def pair(words: Words, rng: np.random.Generator) -> tuple[list[int], list[int], int] | None:
    """(first, second, 1 = reordered | 0 = different); None where the sentence has nothing to exchange."""
    blocks = cut(words.kinds, rng)
    other = None if blocks is None else exchange(words, blocks, rng)
    if blocks is None or other is None:
        return None
    label, swapped = (int(draw) for draw in rng.integers(0, 2, 2))
    versions = (other, words.tokens) if swapped else (words.tokens, other)
    return _flat(versions[0]), _flat(invert(versions[1 - label], blocks)), label


def cut(kinds: np.ndarray, rng: np.random.Generator) -> list[tuple[int, int]] | None:
    """Two or three blocks (first word, last word + 1); what stands between them, and the full stop, stays in place."""
    end = len(kinds) - int((np.flip(kinds) & LAST == 0).argmax())
    inner = range(SHORTEST, end - SHORTEST + 1)
    places = [(at, at + bool(kinds[at] & BREAK)) for at in inner if at < end and kinds[at] & (BREAK | JOIN)]
    places = places or [(at, at) for at in inner]
    if not places:
        return None
    chosen = sorted(rng.permutation(len(places))[: rng.integers(1, 3)].tolist())
    bounds = [(0, 0), *(places[one] for one in chosen), (end, end)]
    blocks = [(left[1], right[0]) for left, right in pairwise(bounds)]
    if any(last - first < SHORTEST for first, last in blocks):  # the two cuts were too near one another, or to the end
        at = places[chosen[0]]
        blocks = [(0, at[0]), (at[1], end)]
    return blocks if all(last - first >= SHORTEST for first, last in blocks) else None


def invert(words: list[tuple[int, ...]], blocks: list[tuple[int, int]]) -> list[tuple[int, ...]]:
    """The blocks in reverse order.

    >>> invert([(1,), (2,), (9,), (3,), (4,), (0,)], [(0, 2), (3, 5)])  # 9 is a comma, 0 a full stop
    [(3,), (4,), (9,), (1,), (2,), (0,)]
    """
    found: list[tuple[int, ...]] = []
    end = 0
    for (first, last), (source, stop) in zip(blocks, reversed(blocks), strict=True):
        found += [*words[end:first], *words[source:stop]]
        end = last
    return found + words[end:]


def exchange(words: Words, blocks: list[tuple[int, int]], rng: np.random.Generator) -> list[tuple[int, ...]] | None:
    """The same words, content words of the first block against as many of the last; None where none would differ."""
    (first, last), (start, stop) = blocks[0], blocks[-1]
    content = np.flatnonzero(words.kinds & CONTENT)
    left = rng.permutation(content[(content >= first) & (content < last)])
    right = rng.permutation(content[(content >= start) & (content < stop)])
    found = list(words.tokens)
    for one, two in zip(left, right, strict=False):
        found[one], found[two] = found[two], found[one]
    return None if found == words.tokens else found


def _flat(words: list[tuple[int, ...]]) -> list[int]:
    return [token for word in words for token in word]
