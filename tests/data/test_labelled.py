"""Labelled texts: classes in order, rows as the model will be given them, and clear words for what is wrong."""

import numpy as np
import pytest

from headway.data.labelled import Labelled, LabelledText, hold_out, label_names
from tests.data.texts import tokenizer

TOKENIZER = tokenizer()
SAMPLES = [
    LabelledText("line 1", "the river", "no"),
    LabelledText("line 2", "a farmer paints the window", "yes"),
    LabelledText("line 3", "the bridge", "no", second="of the garden"),
]


def test_a_batch_by_hand() -> None:
    made = Labelled(SAMPLES, TOKENIZER, length=11)
    assert made.labels == ("no", "yes") and made.sizes.tolist() == [4, 7, 8] and made.answers.tolist() == [0, 1, 0]
    batch = made.batch(np.array([2, 0]), np.array([0, 0]))
    the, river, bridge, of, garden = TOKENIZER.encode("the river bridge of garden", special=False)
    assert batch.inputs["tokens"].tolist() == [[2, the, bridge, 3, of, the, garden, 3], [2, the, river, 3, 0, 0, 0, 0]]
    assert batch.inputs["types"].tolist() == [[0, 0, 0, 0, 1, 1, 1, 1], [0] * 8]
    assert batch.inputs["keep"].sum(-1).tolist() == [8, 4]
    assert batch.inputs["label"].tolist() == [0, 0] and batch.counts == {"loss": 2}


def test_a_text_that_is_too_long_is_refused_or_cut() -> None:
    with pytest.raises(ValueError, match="line 2 has 7 tokens, more than the length of 6"):
        Labelled(SAMPLES, TOKENIZER, length=6)
    made = Labelled(SAMPLES, TOKENIZER, length=5, cut=True)
    assert made.sizes.tolist() == [4, 5, 5] and made.row(1)[0][-1] == 3
    assert len(TOKENIZER.encode("the " * 50)) == 52  # the tokenizer itself cuts nothing afterwards


def test_labels_that_cannot_be() -> None:
    with pytest.raises(
        ValueError, match=r"line 2 has the label 'yes', which the training data never had \(it has no, so\)"
    ):
        Labelled(SAMPLES, TOKENIZER, length=11, labels=("no", "so"))
    with pytest.raises(ValueError, match="every text has the label 'no': a classifier needs at least two classes"):
        Labelled(SAMPLES[:1], TOKENIZER, length=11)
    with pytest.raises(ValueError, match="there are no labelled texts"):
        Labelled([], TOKENIZER, length=11)
    bare = tokenizer()
    bare.engine.post_processor = None  # type: ignore[assignment]
    with pytest.raises(ValueError, match="has no token"):
        Labelled([LabelledText("line 1", "", "no"), SAMPLES[1]], bare, length=11)


def test_names_that_are_numbers_are_in_their_order() -> None:
    assert label_names(["b", "10", "9", "a", "-1"]) == ("9", "10", "-1", "a", "b")


def test_held_out_texts_are_no_training_texts_in_whatever_order() -> None:
    samples = [LabelledText(f"line {n}", f"text {n % 70}", str(n % 3)) for n in range(100)]
    train, held = hold_out(samples, 0.2)
    assert len(train) + len(held) == 100 and 12 <= len(held) <= 28
    assert not {one.text for one in train} & {one.text for one in held}
    again = hold_out(samples[::-1], 0.2)[1]
    assert sorted(one.where for one in again) == sorted(one.where for one in held)
    with pytest.raises(ValueError, match="cannot be held out of 1 texts"):
        hold_out(samples[:1], 0.2)
