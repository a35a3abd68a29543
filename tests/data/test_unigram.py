"""Unigram pieces: their probabilities against sums over all segmentations, written out."""

from collections import Counter
from itertools import pairwise, product
from math import lgamma

import numpy as np
import pytest

from headway.data import unigram
from headway.data.unigram import Lattice, digamma

PIECES = ("a", "b", "c", "ab", "bc", "abc", "ca")
WORDS = ("abcab", "b", "cabc", "aab")
COUNTS = np.array([3.0, 7.0, 2.0, 5.0])


def segmentations(word: str) -> list[list[int]]:
    """Every way to write the word, by trying all cuts."""
    ways = []
    for cuts in product([False, True], repeat=len(word) - 1):
        bounds = [0, *(at + 1 for at, cut in enumerate(cuts) if cut), len(word)]
        parts = [word[low:high] for low, high in pairwise(bounds)]
        if set(parts) <= set(PIECES):
            ways.append([PIECES.index(part) for part in parts])
    return ways


def test_expected_counts_are_sums_over_all_segmentations() -> None:
    score = np.log(np.array([2, 3, 5, 7, 11, 13, 17]) / 58)
    wanted = np.zeros(len(PIECES))
    for word, count in zip(WORDS, COUNTS, strict=True):
        ways = segmentations(word)
        chances = np.array([np.exp(score[way].sum()) for way in ways])
        for way, chance in zip(ways, chances / chances.sum(), strict=True):
            np.add.at(wanted, way, count * chance)
    lattice = Lattice.of(WORDS, {piece: at for at, piece in enumerate(PIECES)})
    np.testing.assert_allclose(lattice.expected(score, COUNTS), wanted, rtol=1e-12)


def test_the_best_segmentation_leaves_out_the_piece_itself() -> None:
    score = np.log(np.array([2, 3, 5, 7, 11, 13, 17]) / 58)
    best = Lattice.of(PIECES, {piece: at for at, piece in enumerate(PIECES)}, whole=False).best(score)
    for at, piece in enumerate(PIECES):
        ways = [way for way in segmentations(piece) if len(piece) == 1 or way != [at]]
        assert best[at] == pytest.approx(max(score[way].sum() for way in ways), abs=1e-12)


def test_pieces_that_are_gone_are_used_no_more() -> None:
    gone = np.array([piece == "ab" for piece in PIECES])
    lattice = Lattice.of(WORDS, {piece: at for at, piece in enumerate(PIECES)})
    expected = lattice.without(gone).expected(np.log(np.full(len(PIECES), 1 / 7)), COUNTS)
    assert expected[PIECES.index("ab")] == 0
    lengths = np.array([len(piece) for piece in PIECES])
    assert expected @ lengths == pytest.approx(COUNTS @ [len(word) for word in WORDS])


def test_frequent_words_become_pieces_and_the_size_is_kept() -> None:
    words = Counter({"abababab": 101, "cdcdcd": 53, "abcd": 11, "dcba": 1})
    pieces = unigram.learn(words, 7, alphabet="abcde")
    assert len(pieces) == 7
    assert {piece for piece, _ in pieces} == {"abababab", "cdcdcd", *"abcde"}
    scores = [score for _, score in pieces]
    assert scores == sorted(scores, reverse=True)
    assert np.exp(scores).sum() < 1.01


def test_the_order_of_the_words_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    words = ["".join(rng.choice(list("abcde"), size=rng.integers(1, 11))) for _ in range(211)]
    counted = Counter({word: int(rng.integers(1, 17)) for word in words})
    backwards = Counter(dict(reversed(counted.items())))
    assert unigram.learn(counted, 31, alphabet="abcde") == unigram.learn(backwards, 31, alphabet="abcde")


def test_very_long_words_are_cut() -> None:
    pieces = unigram.learn({"ab" * 5000: 1}, 3, alphabet="ab")
    assert len(pieces) == 3


def test_digamma_is_the_slope_of_the_logarithm_of_gamma() -> None:
    for x in (0.1, 0.7, 1.0, 3.3, 113.0):
        slope = (lgamma(x + 1e-5) - lgamma(x - 1e-5)) / 2e-5
        assert digamma(np.array([x]))[0] == pytest.approx(slope, rel=1e-5)
