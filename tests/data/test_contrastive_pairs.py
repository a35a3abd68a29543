"""Pairs for sentence embeddings: packed rows, and which pairs are nobody's negatives."""

import json

import numpy as np
import pytest

from headway.config.train import DataConfig
from headway.data.text_pairs import ContrastivePairs, TextPair, twins_of
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


HARD = [
    TextPair("line 1", "the river", "a bridge of the river", ("a farmer", "winter")),
    TextPair("line 2", "the river", "the market"),
    TextPair("line 3", "a farmer", "the window", ("the market",)),
]


def test_hard_negatives_are_packed_and_none_is_a_text_of_a_pair_with_the_same_first() -> None:
    made = ContrastivePairs(HARD, TOKENIZER, limit=11)
    assert made.negatives == 3
    batch = made.batch(np.array([2, 1, 0]), np.zeros(3))
    assert batch.inputs["lengths_n"].tolist() == [
        len(TOKENIZER.encode(x)) for x in ("the market", "a farmer", "winter")
    ]
    # "the market" is the second text of row 1, whose first row 2 shares; "a farmer" is the first text of row 0.
    assert batch.inputs["own"].tolist() == [[False, True, False], [True, False, False], [True, False, False]]
    assert "tokens_n" not in made.batch(np.array([1]), np.zeros(1)).inputs
    assert int(made.sizes[0]) == sum(
        len(TOKENIZER.encode(x)) for x in (HARD[0].first, HARD[0].second, *HARD[0].negatives)
    )


def test_columns_of_negatives(tmp_path) -> None:
    rows = [{"q": "x", "p": "y", "bad": ["u", "v"], "worse": None}, {"q": "s", "p": "t", "bad": [], "worse": "w"}]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "a.csv").write_text("q,p,bad,worse\nx,y,u,\ns,t,,w\n")
    (tmp_path / "a.txt").write_text("x\ty\tu\t\ns\tt\t \tw\n")
    settings = DataConfig(first="q", second="p", negative=("bad", "worse"))
    read = lambda file, d=settings: [one.negatives for one in twins_of(d, [str(tmp_path / file)])]  # noqa: E731
    assert read("a.jsonl") == [("u", "v"), ("w",)]
    assert read("a.csv") == read("a.txt") == [("u",), ("w",)]
    with pytest.raises(ValueError, match=r"no column 'good'; it has 'q', 'p', 'bad', 'worse'"):
        read("a.csv", DataConfig(first="q", second="p", negative=("good",)))
    (tmp_path / "b.jsonl").write_text(json.dumps({"q": "x", "p": "y", "bad": "y"}))
    with pytest.raises(ValueError, match=r"line 1 of .*b\.jsonl has its p as a negative too"):
        read("b.jsonl", DataConfig(first="q", second="p", negative=("bad",)))
