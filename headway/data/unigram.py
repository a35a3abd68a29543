"""Unigram pieces learnt from counted words (Kudo 2018, arXiv:1804.10959): the same words give the same pieces.

P(word) = Σ over its segmentations of Π P(piece)

From many candidates: expectation-maximisation fits P; pieces whose loss would cost the least likelihood go; and again,
until as many are left as were asked for. (The tokenizers library sums in an order that differs from run to run.)
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

LONGEST = 16  # characters of a piece
WORDS, WORD = 100_000, 64  # words that are looked at, the most frequent first; longer ones are cut
CANDIDATES = 20  # for each piece asked for, at the beginning
ROUNDS, SHRINK = 2, 0.75  # of fitting before pieces go; how many stay each time
RARE = 0.5  # a piece that is expected less often than this is none


def learn(words: Mapping[str, int], size: int, *, alphabet: Sequence[str]) -> list[tuple[str, float]]:
    """`size` pieces with the logarithms of their probabilities, the likeliest first; the alphabet is always among them.

    >>> [piece for piece, _ in learn({"hugs": 5, "hug": 10}, 5, alphabet="hugs")]
    ['hug', 's', 'g', 'h', 'u']
    """
    texts, counts = _words(words)
    pieces = [*alphabet, *_candidates(texts, counts, CANDIDATES * size, set(alphabet))]
    index = {piece: at for at, piece in enumerate(pieces)}
    lattice, own = Lattice.of(texts, index), Lattice.of(pieces, index, whole=False)
    score, fixed = np.full(len(pieces), -np.log(len(pieces))), np.arange(len(pieces)) < len(alphabet)
    while True:
        for _ in range(ROUNDS):
            expected = lattice.expected(score, counts)
            score = _log_shares(expected)
            lattice, own, score = _without(lattice, own, score, (expected < RARE) & ~fixed)
        gone = _gone(score, expected, own, size, len(alphabet))
        if not gone.any():
            break
        lattice, own, score = _without(lattice, own, score, gone)
    left = np.flatnonzero(score > -np.inf)
    return sorted(((pieces[at], float(score[at])) for at in left), key=lambda pair: (-pair[1], pair[0]))


def _without(
    lattice: "Lattice", own: "Lattice", score: np.ndarray, gone: np.ndarray
) -> tuple["Lattice", "Lattice", np.ndarray]:
    return lattice.without(gone), own.without(gone), np.where(gone, -np.inf, score)


def _words(words: Mapping[str, int]) -> tuple[list[str], np.ndarray]:
    short: Counter[str] = Counter()
    for word, count in words.items():
        for at in range(0, len(word), WORD):
            short[word[at : at + WORD]] += count
    often = sorted(short.items(), key=lambda pair: (-pair[1], pair[0]))[:WORDS]
    return [word for word, _ in often], np.array([count for _, count in often], dtype=np.float64)


def _candidates(texts: Iterable[str], counts: Iterable[float], most: int, known: set[str]) -> list[str]:
    """Parts of words that come at least twice, those first that cover the most text."""
    covered: Counter[str] = Counter()
    for word, count in zip(texts, counts, strict=True):
        for start in range(len(word)):
            for stop in range(start + 2, min(start + LONGEST, len(word)) + 1):
                covered[word[start:stop]] += (stop - start) * int(count)
    often = [(part, total) for part, total in covered.items() if total >= 2 * len(part) and part not in known]
    return [part for part, _ in sorted(often, key=lambda pair: (-pair[1], pair[0]))[:most]]


def _log_shares(expected: np.ndarray) -> np.ndarray:
    """ψ(expected) - ψ(Σ expected): a sparse prior, under which rare pieces count for less than their share."""
    # Below 0.1 the digamma function falls so fast that a letter of the alphabet could never be used again.
    return digamma(np.maximum(expected, 0.1)) - digamma(expected.sum(keepdims=True))


def digamma(x: np.ndarray) -> np.ndarray:
    """ψ(x) = ψ(x + 6) - Σ 1 / (x + k), and its series for large x.

    >>> digamma(np.array([1.0])).round(8).tolist()
    [-0.57721566]
    """
    below = sum(1 / (x + step) for step in range(6))
    y = 1 / (x + 6) ** 2
    return np.log(x + 6) - 0.5 / (x + 6) - y * (1 / 12 - y * (1 / 120 - y * (1 / 252 - y / 240))) - below


def _gone(score: np.ndarray, expected: np.ndarray, own: "Lattice", size: int, fixed: int) -> np.ndarray:
    """Which pieces to give up now: those whose text is nearly as likely when it is written with the other pieces.

    loss = expected · (log P(piece) - log P(its best segmentation into others))
    """
    alive = np.flatnonzero(score > -np.inf)
    loss = expected[alive] * (score[alive] - own.best(score)[alive])
    loss[:fixed] = np.inf
    order = np.argsort(-loss, kind="stable")
    gone = np.zeros(len(score), dtype=bool)
    gone[alive[order[max(size, int(SHRINK * len(alive))) :]]] = True
    return gone


@dataclass(frozen=True, eq=False)
class Lattice:
    """All ways through words: an edge goes from a place in a word to a later one and is a piece."""

    origin: np.ndarray
    goal: np.ndarray
    piece: np.ndarray
    first: np.ndarray  # of each word, the number of the place before it; the place behind it is first[w + 1] - 1
    depth: np.ndarray  # of each place, how many characters stand before it

    @classmethod
    def of(cls, words: Sequence[str], index: Mapping[str, int], *, whole: bool = True) -> "Lattice":
        """The words' ways; without `whole`, a word of several characters is not its own piece."""
        first = np.array([0, *accumulate(len(word) + 1 for word in words)])
        edges = [
            (base + start, base + stop, at)
            for base, word in zip(first.tolist(), words, strict=False)
            for start in range(len(word))
            for stop in range(start + 1, min(start + LONGEST, len(word)) + 1)
            if (at := index.get(word[start:stop])) is not None and (whole or stop - start < len(word) or len(word) == 1)
        ]
        origin, goal, piece = np.array(edges, dtype=np.int64).reshape(-1, 3).T
        depth = np.arange(first[-1]) - np.repeat(first[:-1], np.diff(first))
        return cls(origin, goal, piece, first, depth)

    def without(self, gone: np.ndarray) -> "Lattice":
        left = ~gone[self.piece]
        return Lattice(self.origin[left], self.goal[left], self.piece[left], self.first, self.depth)

    def expected(self, score: np.ndarray, counts: np.ndarray) -> np.ndarray:
        """How often each piece is used, over all segmentations by their probability."""
        before = self._sweep(self.origin, self.goal, self.depth, score, np.logaddexp)
        behind = self._sweep(self.goal, self.origin, -self.depth, score, np.logaddexp)
        word = np.searchsorted(self.first, self.origin, side="right") - 1
        share = np.exp(before[self.origin] + score[self.piece] + behind[self.goal] - before[self.first[1:] - 1][word])
        return np.bincount(self.piece, weights=counts[word] * share, minlength=len(score))

    def best(self, score: np.ndarray) -> np.ndarray:
        """The logarithm of the probability of each word's best segmentation."""
        return self._sweep(self.origin, self.goal, self.depth, score, np.maximum)[self.first[1:] - 1]

    def _sweep(
        self, known: np.ndarray, asked: np.ndarray, depth: np.ndarray, score: np.ndarray, add: np.ufunc
    ) -> np.ndarray:
        """For every place, `add` over the edges that end there of what is known where they begin plus their score."""
        order = np.lexsort((asked, depth[asked]))
        known, asked, weight = known[order], asked[order], score[self.piece[order]]
        found = np.zeros(len(depth))  # as it stays where ways begin
        starts = np.flatnonzero(np.diff(asked, prepend=-1))
        bounds = np.flatnonzero(np.diff(depth[asked][starts], prepend=depth.min() - 1))
        for low, high in zip(bounds, [*bounds[1:], len(starts)], strict=True):
            begin, end = starts[low], starts[high] if high < len(starts) else len(asked)
            values = found[known[begin:end]] + weight[begin:end]
            found[asked[starts[low:high]]] = add.reduceat(values, starts[low:high] - begin)
        return found
