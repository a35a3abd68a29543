"""Sentences as tokens: documents stay apart, words are the text's own, and held-out sentences are new."""

from typing import Any

import numpy as np
import pytest

from headway.config.train import TokenizerConfig
from headway.data.sentences import BREAK, CONTENT, JOIN, LAST, WORD, Sentences
from headway.data.tokenizer_training import train_tokenizer
from tests.data.texts import documents, tokenizer

TEXT = "When the farmer paints, a doctor opens the window. The bridge."


def test_tokens_documents_and_marks() -> None:
    made = Sentences.read([TEXT, "", "The river.\n\nA letter!"], tokenizer())
    assert [tokenizer().decode(row.tolist()) for row in map(made.tokens.__getitem__, range(len(made)))] == [
        "when the farmer paints , a doctor opens the window .",
        "the bridge .",
        "the river .",
        "a letter",
    ]
    assert made.documents.tolist() == [0, 2, 4] and made.home.tolist() == [0, 0, 1, 1]
    content, small = WORD | CONTENT, WORD
    assert made.marks[0].tolist() == [
        WORD | JOIN, content, content, content, WORD | BREAK, small, content, content, content, content, WORD | LAST,
    ]  # fmt: skip


@pytest.mark.parametrize("kind", ["byte", "character", "bpe", "wordpiece", "unigram"])
def test_words_are_the_same_with_every_tokenizer(kind: Any) -> None:
    known = train_tokenizer(
        [TEXT] * 5, TokenizerConfig(kind=kind, vocabulary=300 if kind != "wordpiece" else 60), task="masked"
    )
    made = Sentences.read([TEXT], known)
    starts = np.flatnonzero(made.marks[0] & WORD)
    words = ["".join(known.decode([token]) for token in part.tolist()) for part in np.split(made.tokens[0], starts[1:])]
    plain = [word.replace("##", "").strip() for word in words]
    assert " ".join(plain) == "When the farmer paints , a doctor opens the window ."
    assert [int(kind) for kind in made.marks[0][starts] & (BREAK | JOIN | LAST)] == [4, 0, 0, 0, 2, 0, 0, 0, 0, 0, 8]


def test_held_out_sentences_are_whole_documents_and_new() -> None:
    texts = documents(13)
    made = Sentences.read(texts, tokenizer())
    front, back = made.split(0.2)
    assert (len(front), len(back)) == (110, 33)
    assert np.array_equal(np.concatenate([front.tokens.flat, back.tokens.flat]), made.tokens.flat)
    assert not set(front.identity.tolist()) & set(back.identity.tolist())


def test_one_document_is_cut_at_its_tail() -> None:
    front, back = Sentences.read([" ".join(documents(5))], tokenizer()).split(0.1)
    assert (len(front), len(back)) == (50, 5)
    assert front.documents.tolist() == [0, 50] and back.documents.tolist() == [0, 5]


def test_a_held_out_sentence_that_was_learnt_is_left_out_and_parts_its_neighbours() -> None:
    new = [text + "." for text in documents(1, sentences=5, seed=3)[0].split(".")[:5]]
    old = documents(4)
    texts = [*old, " ".join([*new[:2], old[0].partition(".")[0] + ".", *new[2:]])]
    front, back = Sentences.read(texts, tokenizer()).split(0.12)
    assert front.documents[-1] == 44 and len(back) == 5
    assert back.documents.tolist() == [0, 2, 5]


def test_what_cannot_be_split_or_read_is_refused() -> None:
    with pytest.raises(ValueError, match="no sentence in this text"):
        Sentences.read(["", "---"], tokenizer())
    with pytest.raises(ValueError, match="cannot be held out of 1 sentences"):
        Sentences.read(["The river."], tokenizer()).split(0.1)
    with pytest.raises(ValueError, match="every held-out sentence is in the training text too"):
        Sentences.read(["The river. " * 10], tokenizer()).split(0.1)
