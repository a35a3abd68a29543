"""Pairs for sentence embeddings: packed rows, and which pairs are nobody's negatives."""

import numpy as np
import pytest

from headway.data.text_pairs import ContrastivePairs, TextPair
from tests.data.texts import tokenizer

TOKENIZER = tokenizer()
TWINS = [
    TextPair("line 1", "the river", "a bridge of the river"),
    TextPair("line 2", "a farmer", "the window"),
    TextPair("line 3", "the river", "the market"),
    TextPair("line 4", "the window", "a candle opens"),
    TextPair("line 5", "winter", "a letter"),
]


def test_rows_are_packed_one_after_the_other() -> None:
    batch = ContrastivePairs(TWINS, TOKENIZER, limit=11).batch(np.array([1, 4]), np.array([0, 0]))
    first = [*TOKENIZER.encode("a farmer"), *TOKENIZER.encode("winter")]
    assert batch.inputs["tokens_a"].tolist() == [first] and batch.inputs["lengths_a"].tolist() == [4, 3]
    assert batch.inputs["lengths_b"].tolist() == [4, 4] and batch.inputs["tokens_b"].shape == (1, 8)
    assert batch.counts == {"loss": 2}


def test_pairs_that_share_a_text_are_no_negatives_of_one_another() -> None:
    made = ContrastivePairs(TWINS, TOKENIZER, limit=11)
    same = made.batch(np.arange(5), np.arange(5)).inputs["same"]
    assert sorted(map(tuple, same.nonzero().tolist())) == [(0, 2), (1, 3), (2, 0), (3, 1)]
    assert made.batch(np.array([0, 0]), np.array([0, 0])).inputs["same"].tolist() == [[False, True], [True, False]]


def test_the_middle_of_a_long_text_is_left_out_as_in_the_model() -> None:
    batch = ContrastivePairs(TWINS, TOKENIZER, limit=5, tail=2).batch(np.array([0]), np.array([0]))
    whole = TOKENIZER.encode(TWINS[0].second)
    assert batch.inputs["tokens_b"][0].tolist() == [*whole[:3], *whole[-2:]]


def test_nothing_and_empty_texts_are_refused() -> None:
    with pytest.raises(ValueError, match="there are no pairs"):
        ContrastivePairs([], TOKENIZER, limit=5)
    bare = tokenizer()
    bare.engine.post_processor = None  # type: ignore[assignment]
    with pytest.raises(ValueError, match="the second text of line 9 has no token"):
        ContrastivePairs([*TWINS, TextPair("line 9", "river", "")], bare, limit=5)
