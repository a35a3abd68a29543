"""Hidden words: how many, which, and what stands in their place."""

import numpy as np
import pytest

from headway.config.base import IGNORED
from headway.data.masked_text import MlmMask
from headway.data.tokenizer import Tokenizer
from tests.data.texts import NOUNS, tokenizer


def test_the_shares_are_those_of_the_paper() -> None:
    hide, row = MlmMask.of(tokenizer()), np.array([2, *range(5, 28), 3, *range(6, 29), 3])
    words, asked, masked, same = 46, 0, 0, 0
    for key in range(1500):
        shown, targets = hide(row, np.random.default_rng(key))
        chosen = targets != IGNORED
        assert np.array_equal(targets[chosen], row[chosen]) and np.array_equal(shown[~chosen], row[~chosen])
        assert not chosen[[0, 24, 48]].any()
        asked, masked = asked + chosen.sum(), masked + (shown == 4).sum()
        same += (shown[chosen] == row[chosen]).sum()
    assert asked / (1500 * words) == pytest.approx(0.15, abs=0.003)
    assert masked / asked == pytest.approx(0.8, abs=0.02)
    # A random word is now and then the word itself.
    assert same / asked == pytest.approx(0.1 + 0.1 / len(hide.words), abs=0.02)
    assert hide.words.min() == 5 and len(hide.words) == tokenizer().size - 5


def test_at_least_one_word_is_hidden_and_never_a_special_one() -> None:
    hide = MlmMask.of(tokenizer())
    for key in range(50):
        _, targets = hide(np.array([2, 9, 3]), np.random.default_rng(key))
        assert targets.tolist() == [IGNORED, 9, IGNORED]


def test_a_row_without_words_has_nothing_to_hide() -> None:
    shown, targets = MlmMask.of(tokenizer())(np.array([2, 3]), np.random.default_rng(0))
    assert shown.tolist() == [2, 3] and (targets == IGNORED).all()


def test_a_tokenizer_without_a_mask_is_refused() -> None:
    engine = tokenizer().engine
    with pytest.raises(ValueError, match="it needs a mask token"):
        MlmMask.of(Tokenizer(engine, {"cls_token": "[CLS]", "sep_token": "[SEP]"}))
    assert engine.token_to_id(NOUNS[0]) == 13
