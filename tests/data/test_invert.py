"""Inverted sentences: what moves, what stays, and that words alone, or one sentence alone, say nothing."""

from collections import Counter

import numpy as np
import pytest

from headway.data import invert
from headway.data.invert import Words, cut, exchange, pair
from headway.data.sentences import CONTENT, Sentences
from tests.data.texts import documents, tokenizer

TOKENIZER = tokenizer()
TEXT = Sentences.read(documents(20), TOKENIZER)
COMMA, STOP = TOKENIZER.encode(", .", special=False)


def words(row: int) -> Words:
    return Words.of(TEXT.tokens[row], TEXT.marks[row])


def test_a_clause_changes_places_with_the_other_and_the_comma_stays() -> None:
    made = Sentences.read(["The farmer paints a window, the doctor counts."], TOKENIZER)
    given = Words.of(made.tokens[0], made.marks[0])
    blocks = cut(given.kinds, np.random.default_rng(0))
    assert blocks is not None and blocks == [(0, 5), (6, 9)]
    text = TOKENIZER.decode([word[0] for word in invert.invert(given.tokens, blocks)])
    assert text == "the doctor counts , the farmer paints a window ."


def test_without_a_comma_or_conjunction_it_is_cut_anywhere() -> None:
    made = Sentences.read(["The farmer paints a window of the old bridge."], TOKENIZER)
    kinds = made.marks[0]
    found = {tuple(cut(kinds, np.random.default_rng(key)) or ()) for key in range(200)}
    assert {blocks[0][1] for blocks in found} == {2, 3, 4, 5, 6, 7}
    assert {len(blocks) for blocks in found} == {2, 3}
    assert all(last - first >= 2 for blocks in found for first, last in blocks)


def test_what_is_too_short_is_not_cut() -> None:
    assert cut(np.array([17, 17, 17, 9], dtype=np.uint8), np.random.default_rng(0)) is None
    assert pair(Words([(5,), (6,), (7,)], np.array([17, 17, 9], dtype=np.uint8)), np.random.default_rng(0)) is None


def test_words_are_exchanged_between_blocks_and_none_is_lost() -> None:
    for row in range(50):
        given, rng = words(row), np.random.default_rng(row)
        blocks = cut(given.kinds, rng)
        assert blocks is not None
        made = exchange(given, blocks, rng)
        assert made is not None and made != given.tokens and Counter(made) == Counter(given.tokens)
        moved = [place for place, word in enumerate(made) if word != given.tokens[place]]
        assert all(given.kinds[place] & CONTENT for place in moved)
        sides = {place < blocks[0][1] for place in moved}
        assert sides == {True, False}


def test_equal_words_have_nothing_to_exchange() -> None:
    given = Words([(5,), (6,), (5,), (6,)], np.array([17, 1, 17, 1], dtype=np.uint8))
    assert exchange(given, [(0, 2), (2, 4)], np.random.default_rng(0)) is None


def test_every_pair_has_the_same_words_on_both_sides_whatever_the_answer() -> None:
    labels = []
    for key in range(400):
        made = pair(words(key % len(TEXT)), np.random.default_rng(key))
        assert made is not None
        first, second, label = made
        assert Counter(first) == Counter(second) == Counter(TEXT.tokens[key % len(TEXT)].tolist())
        assert first != second and (first[-1], second[-1]) == (STOP, STOP)
        labels.append(label)
    assert np.mean(labels) == pytest.approx(0.5, abs=0.06)


def test_each_sentence_alone_is_as_often_the_original_under_both_answers() -> None:
    """Of (answer, first is the original, second is the original's inversion), only the four that are meant occur."""
    made = Words.of(TEXT.tokens[0], TEXT.marks[0])
    blocks = cut(made.kinds, np.random.default_rng(0))
    assert blocks is not None and len(blocks) == 2  # there is one comma, and `when` begins the sentence
    original = TEXT.tokens[0].tolist()
    inversion = [token for word in invert.invert(made.tokens, blocks) for token in word]
    seen: Counter[tuple[int, bool, bool]] = Counter()
    for key in range(2000):
        found = pair(made, np.random.default_rng(key))
        assert found is not None
        seen[found[2], found[0] == original, found[1] == inversion] += 1
    assert set(seen) == {(1, True, True), (1, False, False), (0, True, False), (0, False, True)}
    assert all(count == pytest.approx(500, abs=70) for count in seen.values())
