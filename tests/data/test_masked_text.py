"""Masked text: every objective's rows are what they say, drawn from keys alone, and bags of words are at a loss."""

from typing import Any

import numpy as np
import pytest
import torch

from headway.config.base import IGNORED
from headway.data.batch import Batch
from headway.data.labelled import Labelled, LabelledText
from headway.data.masked_text import OBJECTIVES, BertFormat, MaskedText
from headway.data.sentences import Sentences
from recipes.bag_of_words import Bags, bag_of_words, unigram_accuracy
from tests.data.texts import documents, sentence, tokenizer

TOKENIZER = tokenizer()
TEXT = Sentences.read(documents(31), TOKENIZER)
PAIRS = Labelled(
    [LabelledText(f"line {n}", "the river", "yes" if n % 2 else "no", second="a farmer paints") for n in range(7)],
    TOKENIZER, length=37,
)  # fmt: skip
MIXED = {"words": 2.0, "adjacent": 1.0, "inverted": 1.0, "inference": 1.0}


def made(weights: dict[str, float], text: Sentences = TEXT, **options: Any) -> MaskedText:
    return MaskedText(text, TOKENIZER, length=37, weights=weights, pairs=PAIRS, **options)


def draw(examples: MaskedText, count: int, seed: int = 0) -> Batch:
    return examples.batch(np.arange(count) % len(examples), np.random.default_rng(seed).integers(0, 2**62, count))


def sides(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """The two sentences of each row, without what frames them."""
    found = []
    for tokens, keep, types in zip(*(batch.inputs[name] for name in ("tokens", "keep", "types")), strict=True):
        first, second = tokens[keep & (types == 0)].tolist(), tokens[keep & (types == 1)].tolist()
        assert (first[0], first[-1]) == (2, 3) and (not second or second[-1] == 3)
        found.append((first[1:-1], second[:-1]))
    return found


def test_a_frame_by_hand() -> None:
    frame = BertFormat(begin=2, end=3, pad=0, length=9)
    tokens, types = frame.join(np.array([11, 12]), np.array([13]))
    assert tokens.tolist() == [2, 11, 12, 3, 13, 3] and types.tolist() == [0, 0, 0, 0, 1, 1]
    long = np.arange(20, 40)
    assert frame.join(long, long)[0].tolist() == [2, 37, 38, 39, 3, 20, 21, 22, 3]
    assert frame.join(long, long[:1])[0].tolist() == [2, 35, 36, 37, 38, 39, 3, 20, 3]
    assert frame.join(long[:1], long)[0].tolist() == [2, 20, 3, 20, 21, 22, 23, 24, 3]
    assert frame.join(long)[0].tolist() == [2, *range(20, 27), 3]


def test_a_row_depends_on_its_key_alone() -> None:
    examples, rows, keys = made(MIXED), np.arange(13), np.arange(13) * 7919
    whole = examples.batch(rows, keys)
    parts = [examples.batch(rows[part], keys[part]) for part in (slice(0, 5), slice(5, 13))]
    for name in OBJECTIVES:
        assert whole.counts[name] == sum(part.counts[name] for part in parts)
    for name in ("kind", "label"):
        assert torch.equal(whole.inputs[name], torch.cat([part.inputs[name] for part in parts]))
    row, alone = 7, examples.batch(rows[7:8], keys[7:8]).inputs
    keep = whole.inputs["keep"][row]
    for name in ("tokens", "types", "words"):
        assert torch.equal(whole.inputs[name][row][keep], alone[name][0])
    other = examples.batch(rows, keys + 1)
    assert not torch.equal(whole.inputs["kind"], other.inputs["kind"])


def test_objectives_are_drawn_by_their_weights_and_counted() -> None:
    batch = draw(made(MIXED), 1000)
    kinds = np.bincount(batch.inputs["kind"].numpy(), minlength=4) / 1000
    assert kinds == pytest.approx([0.4, 0.2, 0.2, 0.2], abs=0.04)
    assert batch.counts["words"] == int((batch.inputs["words"] != IGNORED).sum())
    assert [batch.counts[name] for name in OBJECTIVES[1:]] == (kinds[1:] * 1000).round().tolist()
    assert set(draw(made({"adjacent": 1.0}), 3).counts) == {"adjacent"}


def test_words_are_hidden_in_pairs_too_but_only_if_asked() -> None:
    both, alone = draw(made({"words": 1e-9, "adjacent": 1.0}), 50), draw(made({"adjacent": 1.0}), 50)
    assert ((both.inputs["words"] != IGNORED).sum(-1) >= 1).all() and both.counts["adjacent"] == 50
    assert (alone.inputs["words"] == IGNORED).all() and not (alone.inputs["tokens"] == 4).any()
    hidden = both.inputs["words"] != IGNORED
    assert not (both.inputs["words"][hidden] < 5).any()


def test_words_come_from_stretches_of_one_document_in_one_or_two_parts() -> None:
    batch = draw(made({"words": 1.0}), 400)
    tokens = torch.where(batch.inputs["words"] == IGNORED, batch.inputs["tokens"], batch.inputs["words"])
    two, flat = 0, TEXT.tokens.flat
    for row, (first, second) in enumerate(sides(Batch({**batch.inputs, "tokens": tokens}, {}))):
        start = TEXT.tokens.starts[row % len(TEXT)]
        stretch = first + second
        assert stretch == flat[start : start + len(stretch)].tolist()
        assert start + len(stretch) <= TEXT.tokens.starts[TEXT.documents[TEXT.home[row % len(TEXT)] + 1]]
        two += bool(second)
    assert 0.3 < two / 400 < 0.55


@pytest.mark.parametrize("span", [1, 2])
def test_adjacent_sentences_are_neighbours_or_far_apart_in_one_document(span: int) -> None:
    number = {tuple(TEXT.tokens[row].tolist()): row for row in range(len(TEXT))}
    examples = MaskedText(TEXT, TOKENIZER, length=200, weights={"adjacent": 1.0}, span=span)
    batch = draw(examples, 600)
    length = len(TEXT.tokens[0])
    for (first, second), label in zip(sides(batch), batch.inputs["label"].tolist(), strict=True):
        a = [number[tuple(first[at : at + length])] for at in range(0, len(first), length)]
        b = [number[tuple(second[at : at + length])] for at in range(0, len(second), length)]
        assert a == list(range(a[0], a[-1] + 1)) and b == list(range(b[0], b[-1] + 1))
        assert len({int(TEXT.home[one]) for one in a + b}) == 1 and max(len(a), len(b)) <= span
        assert b[0] == a[-1] + 1 if label == 0 else min(abs(x - y) for x in a for y in b) >= 2
    assert batch.inputs["label"].float().mean() == pytest.approx(0.5, abs=0.07)


def test_every_sentence_is_the_second_one_as_often_under_both_answers() -> None:
    text = Sentences.read(documents(1, sentences=7), TOKENIZER)
    number = {tuple(text.tokens[row].tolist()): row for row in range(len(text))}
    batch = draw(made({"adjacent": 1.0}, text), 2000)
    labels = batch.inputs["label"].numpy()
    second = np.array([number[tuple(pair[1])] for pair in sides(batch)])
    for label in (0, 1):
        assert np.bincount(second[labels == label], minlength=7) / 1000 == pytest.approx([0, *[1 / 6] * 6], abs=0.05)


def test_a_negative_never_says_what_a_neighbour_says() -> None:
    rng = np.random.default_rng(5)
    a, b, c, d = (sentence(rng) for _ in range(4))
    text = Sentences.read([" ".join([a, b, a, c, b, d, c, a, d, b])], TOKENIZER)
    batch = draw(made({"adjacent": 1.0}, text), 300)
    after: dict[tuple[int, ...], set[tuple[int, ...]]] = {}
    for (first, second), label in zip(sides(batch), batch.inputs["label"].tolist(), strict=True):
        assert first != second
        if label == 0:
            after.setdefault(tuple(first), set()).add(tuple(second))
    assert len(after) == 4


def accuracy(objective: str, **options: Any) -> float:
    """Of the bag of words, on rows from other keys; it may learn the very sentences that it is asked about."""
    examples = made({objective: 1.0}, **options)
    size = TOKENIZER.size
    train, held = (Bags.of(examples, vocabulary=size, count=count, seed=count) for count in (500, 400))
    return float(np.mean(bag_of_words(train, held) == held.labels.numpy()))


def test_a_bag_of_words_cannot_tell_inverted_from_different() -> None:
    assert accuracy("inverted") == pytest.approx(0.5, abs=0.1)  # four deviations of 400 tosses


def test_a_bag_of_words_can_tell_what_words_tell() -> None:
    """The same regression is no straw man: where the second sentence has words of its own, it finds them."""
    texts = [LabelledText(f"line {n}", "the river opens" if n % 2 else "a farmer opens", str(n % 2)) for n in range(40)]
    bags = Bags.of(Labelled(texts, TOKENIZER, length=11), vocabulary=TOKENIZER.size, count=40)
    assert (bag_of_words(bags, bags) == bags.labels.numpy()).all()


def test_the_unigram_baseline_by_hand() -> None:
    train = Sentences.read(["The river, the bridge, the window."], TOKENIZER)
    held = Sentences.read(["The letter and the market of a garden."], TOKENIZER)
    assert unigram_accuracy(train, held) == 2 / 9


def test_one_objective_alone() -> None:
    alone = made(MIXED).only("inference")
    assert len(alone) == 7 and alone.weights == {"inference": 1.0}
    batch = alone.batch(np.arange(7), np.arange(7))
    assert batch.inputs["label"].tolist() == PAIRS.answers.tolist() == [0, 1, 0, 1, 0, 1, 0]
    assert (batch.inputs["types"] == 1).any() and batch.counts == {"inference": 7}


@pytest.mark.parametrize(
    ("build", "sentence"),
    [
        (lambda: made({}), "no objective is asked for"),
        (lambda: MaskedText(TEXT, TOKENIZER, length=37, weights={"inference": 1.0}), "labelled pairs: give a file"),
        (lambda: MaskedText(None, TOKENIZER, length=37, weights={"words": 1.0}), "learn from plain text"),
        (lambda: MaskedText(TEXT, TOKENIZER, length=7, weights={"words": 1.0}), "a length of 7 leaves no room"),
        (lambda: MaskedText(TEXT, TOKENIZER, length=20, weights={"inverted": 1.0}), "fit for the objective 'inverted'"),
        (lambda: made({"adjacent": 1.0}, Sentences.read(["The river. " * 9], TOKENIZER)), "'adjacent': it needs docum"),
    ],
)
def test_what_cannot_be_is_refused(build: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        build()
