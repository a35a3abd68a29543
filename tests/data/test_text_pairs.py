"""Pairs: what the encoder reads, what the decoder reads, and what it is to say."""

import numpy as np
import pytest
import torch

from headway.config.base import IGNORED
from headway.config.text import Special
from headway.config.train import TokenizerConfig
from headway.data.text_pairs import Seq2SeqPairs, seq2seq_special_tokens
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import train_tokenizer

RECORDS = [
    ("line 2 of a.tsv", "the dog", "el perro"),
    ("line 3 of a.tsv", "a", "uno"),
    ("line 4 of a.tsv", "the fox sleeps", "duerme"),
]
BYTES = train_tokenizer(["any"], TokenizerConfig(kind="byte"), task="seq2seq")  # a byte is its own number
PAD, START, END = 256, 257, 258
KEYS = np.zeros(3, dtype=np.int64)


def pairs(records: list[tuple[str, str, str]] = RECORDS, *, length: int = 17, cut: bool = False) -> Seq2SeqPairs:
    return Seq2SeqPairs.of(iter(records), BYTES, seq2seq_special_tokens(BYTES), length=length, cut=cut)


def test_a_batch_says_what_is_read_and_what_follows() -> None:
    batch = pairs().batch(np.array([2, 1]), KEYS[:2])
    fox, duerme, uno = (list(text.encode()) for text in ("the fox sleeps", "duerme", "uno"))
    assert batch.inputs["source"].tolist() == [[*fox, END], [ord("a"), END, *[PAD] * 13]]
    assert batch.inputs["target"].tolist() == [[START, *duerme], [START, *uno, *[PAD] * 3]]
    assert batch.inputs["targets"].tolist() == [[*duerme, END], [*uno, END, *[IGNORED] * 3]]
    assert batch.inputs["source_keep"].sum(1).tolist() == [15, 2]
    assert batch.inputs["target_keep"].tolist() == [[True] * 7, [True] * 4 + [False] * 3]
    assert batch.counts == {"loss": 11}
    assert all(value.dtype == (torch.bool if "keep" in name else torch.int64) for name, value in batch.inputs.items())


def test_padding_goes_with_the_longest_of_the_batch_and_keys_change_nothing() -> None:
    found = pairs()
    assert found.batch(np.array([1]), KEYS[:1]).inputs["source"].shape == (1, 2)
    one, other = (found.batch(np.array([0, 1, 2]), keys) for keys in (KEYS, KEYS + 7))
    assert all(torch.equal(one.inputs[name], other.inputs[name]) for name in one.inputs)
    assert found.sizes.tolist() == [8 + 9, 2 + 4, 15 + 7]
    assert len(found) == 3


def test_a_text_that_is_too_long_is_refused_by_its_line() -> None:
    assert len(pairs(length=15)) == 3
    with pytest.raises(ValueError, match=r"^the source of line 4 of a\.tsv has 15 tokens.* the length is 14: raise"):
        pairs(length=14)
    with pytest.raises(ValueError, match=r"^the target of line 9 of b\.tsv has 4 tokens"):
        pairs([("line 9 of b.tsv", "a", "uno")], length=3)


def test_a_text_that_is_cut_keeps_its_end() -> None:
    found = pairs(length=5, cut=True)
    assert found.source[2].tolist() == [*b"the ", END]
    assert found.source[1].tolist() == [ord("a"), END]
    assert found.target[0].tolist() == [*b"el p", END]


@pytest.mark.parametrize(("source", "target", "name"), [("", "uno", "source"), ("one", " \t", "target")])
def test_an_empty_side_is_refused_by_its_line(source: str, target: str, name: str) -> None:
    with pytest.raises(ValueError, match=rf"^line 5 of a\.tsv has an empty {name}"):
        pairs([*RECORDS, ("line 5 of a.tsv", source, target)])


def test_no_pairs_are_refused() -> None:
    with pytest.raises(ValueError, match="there are no pairs"):
        pairs([])
    with pytest.raises(ValueError, match="start, end and padding"):
        Seq2SeqPairs.of(RECORDS, BYTES, Special(end=(END,), pad=PAD), length=17)
    with pytest.raises(ValueError, match="a token for the end and one for padding"):
        seq2seq_special_tokens(train_tokenizer(["any"], TokenizerConfig(kind="byte"), task="language"))


def test_the_end_is_written_once_whoever_writes_it() -> None:
    """A model of someone else's: its tokenizer writes no end, and its start is its padding."""
    engine = train_tokenizer(["any"], TokenizerConfig(kind="byte"), task="language").engine
    other = Tokenizer(engine, {"eos_token": "<|end|>"})
    found = Seq2SeqPairs.of(RECORDS, other, Special(end=(256,), pad=0, start=0), length=17)
    assert found.source[1].tolist() == [ord("a"), 256]
    assert found.batch(np.array([1]), KEYS[:1]).inputs["target"].tolist() == [[0, *b"uno"]]


def test_words_of_special_tokens_are_text() -> None:
    found = pairs([("line 1", "<|end|>", "<|pad|><|start|>")])
    assert found.source[0].tolist() == [*b"<|end|>", END]
    assert found.target[0].tolist() == [*b"<|pad|><|start|>", END]


def test_many_pairs_are_read_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headway.data.text_pairs.TOGETHER", 2)
    found = pairs()
    assert [bytes(found.target[row][:-1].astype(np.uint8)) for row in range(3)] == [b"el perro", b"uno", b"duerme"]
