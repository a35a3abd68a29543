"""The sentence encoder: what it pools, and that company, order, padding and packing change nothing."""

from itertools import pairwise
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headway.config.text import DenseConfig, SentenceConfig
from headway.models import count
from headway.models.sentence import SentenceEncoder, batches
from headway.presets.bert import bert
from tests.fresh import fresh

WIDTH, VOCABULARY, LENGTH = 14, 23, 17
LENGTHS = (5, 2, 11, 2, 1, 5, 5, 13)
POOLINGS = ("cls", "mean", "max", "mean_sqrt_len")


def random(*, dtype: torch.dtype = torch.float64, **changes: Any) -> SentenceEncoder:
    """A model in which nothing is 1 or 0."""
    encoder = bert(width=WIDTH, heads=2, layers=3, hidden=19, vocabulary=VOCABULARY, length=LENGTH, dropout=0.0)
    model = fresh(SentenceConfig(**{"encoder": encoder, "limit": 13, **changes}), dtype=dtype)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.3)
    return model


def texts(lengths: tuple[int, ...] = LENGTHS) -> list[list[int]]:
    return [torch.randint(0, VOCABULARY, (length,)).tolist() for length in lengths]


def alone(model: SentenceEncoder, text: list[int]) -> Tensor:
    with torch.no_grad():
        return model(torch.tensor([text]))[0]


@pytest.mark.parametrize("dense", [None, DenseConfig(width=7), DenseConfig(width=3, activation="identity", bias=False)])
@pytest.mark.parametrize("normalise", [True, False])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_a_vector_is_its_equation(pooling: str, normalise: bool, dense: DenseConfig | None) -> None:
    model, text = random(pooling=pooling, normalise=normalise, dense=dense), texts()[2]
    with torch.no_grad():
        hidden = model.encoder.hidden_states(torch.tensor([text]))[0]
        expected = {
            "cls": hidden[0],
            "mean": hidden.mean(0),
            "max": hidden.max(0).values,
            "mean_sqrt_len": hidden.sum(0) / len(text) ** 0.5,
        }[pooling]
        if model.dense is not None and dense is not None:
            expected = model.dense.weight @ expected + (0 if model.dense.bias is None else model.dense.bias)
            expected = expected.tanh() if dense.activation == "tanh" else expected
        expected = expected / expected.norm() if normalise else expected
    for found in (alone(model, text), model.encode([text])[0]):
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    assert len(found) == model.config.width


@pytest.mark.parametrize("pooling", POOLINGS)
@pytest.mark.parametrize("tokens", [1, 10, 24, 1000])
def test_neither_company_nor_order_changes_a_vector(tokens: int, pooling: str) -> None:
    model, some = random(pooling=pooling), texts()
    found = model.encode(some, tokens=tokens)
    expected = torch.stack([alone(model, text) for text in some])
    torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-12)
    torch.testing.assert_close(model.encode(some[::-1]), expected.flip(0), atol=1e-12, rtol=1e-12)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("pooling", POOLINGS)
def test_padding_changes_nothing(pooling: str, side: str) -> None:
    model, some = random(pooling=pooling), texts()
    pads = [(13 - len(text), 0) if side == "left" else (0, 13 - len(text)) for text in some]
    tokens = torch.stack([F.pad(torch.tensor(text), pad, value=22) for text, pad in zip(some, pads, strict=True)])
    keep = torch.stack([F.pad(torch.ones(len(text)), pad) for text, pad in zip(some, pads, strict=True)]).bool()
    with torch.no_grad():
        torch.testing.assert_close(model(tokens, keep=keep), model.encode(some), atol=1e-12, rtol=1e-12)


def test_gradients_through_a_row_are_those_of_the_texts_alone() -> None:
    model, some = random(), texts()
    pull = torch.randn(len(some), WIDTH, dtype=torch.float64)
    line = torch.tensor([number for text in some for number in text])
    (model.encode_row(line, [len(text) for text in some]) * pull).sum().backward()
    packed = {name: parameter.grad for name, parameter in model.named_parameters()}
    model.zero_grad()
    sum((model(torch.tensor([text]))[0] * row).sum() for text, row in zip(some, pull, strict=True)).backward()
    for name, parameter in model.named_parameters():
        if parameter.grad is None:  # the pooler, which nobody asks here
            assert packed[name] is None
        else:
            torch.testing.assert_close(packed[name], parameter.grad, atol=1e-11, rtol=1e-11)


@pytest.mark.parametrize("pooling", POOLINGS)
def test_what_is_wrong_in_one_text_reaches_no_other(pooling: str) -> None:
    model, some = random(pooling=pooling), texts()
    for text in some:
        text[:] = [number % 22 for number in text]
    clean = model.encode(some)
    some[5][-1] = 22
    with torch.no_grad():
        model.encoder.tokens.weight[22] = float("nan")
    found = model.encode(some)
    others = [row for row in range(len(some)) if row != 5]
    torch.testing.assert_close(found[others], clean[others], atol=1e-12, rtol=1e-12)
    assert found[5].isnan().all()


def test_nothing_is_padded() -> None:
    model, seen = random(), []
    model.encoder.stack.register_forward_hook(lambda _, given, __: seen.append(given[0].shape[:2]))
    model.encode(texts(), tokens=20)
    assert all(batch == 1 for batch, _ in seen)
    assert sum(length for _, length in seen) == sum(LENGTHS)
    assert len(seen) == 3


@pytest.mark.parametrize("tail", [0, 1, 3])
def test_of_a_long_text_the_middle_is_left_out(tail: int) -> None:
    model, text = random(tail=tail), texts((16,))[0]
    kept = text[: 13 - tail] + text[16 - tail :]
    assert len(kept) == 13
    torch.testing.assert_close(model.encode([text])[0], alone(model, kept), atol=1e-12, rtol=1e-12)
    assert model.shortened(text[:13]) == text[:13]


def test_half_precision_gives_vectors_in_float32() -> None:
    exact, some = random(), texts()
    coarse = exact.encode(some)
    for dtype, close in ((torch.float32, 1e-5), (torch.bfloat16, 0.05)):
        found = exact.to(dtype).encode(some)
        assert found.dtype == torch.float32
        torch.testing.assert_close(found, coarse.float(), atol=close, rtol=0)
        torch.testing.assert_close(found.norm(dim=-1), torch.ones(len(some)), atol=1e-6, rtol=0)


def test_a_caller_may_ask_how_far_it_is() -> None:
    told: list[int] = []
    random().encode(texts(), tokens=20, done=told.append)
    assert told == [1, 3, 8]


def test_nothing_and_texts_of_nothing() -> None:
    model = random(dense=DenseConfig(width=7))
    assert model.encode([]).shape == (0, 7)
    with pytest.raises(ValueError, match="text 1 has no tokens"):
        model.encode([[1], [], [2]])
    with pytest.raises(ValueError, match="text 0 has no tokens"):
        model(torch.zeros(1, 3, dtype=torch.long), keep=torch.zeros(1, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match="token 23 is outside of the vocabulary of 23"):
        model.encode([[1, 23]])


def test_a_configuration_that_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="17 positions, too few for a limit of 18"):
        random(limit=18)
    with pytest.raises(ValueError, match="last 5 tokens of every text leave no room in a limit of 5"):
        random(limit=5, tail=5)
    with pytest.raises(ValueError, match="pooling"):
        random(pooling="sum")


def test_parameters_are_those_of_its_parts() -> None:
    model = random(dense=DenseConfig(width=7))
    assert count(model.config) == count(model.config.encoder) + WIDTH * 7 + 7


@given(st.lists(st.integers(1, 19), max_size=30), st.integers(1, 60))
def test_batches_hold_every_text_once(lengths: list[int], tokens: int) -> None:
    found = list(batches(lengths, tokens))
    assert sorted(row for rows in found for row in rows) == list(range(len(lengths)))
    assert all(len(rows) == 1 or sum(lengths[row] for row in rows) <= tokens for rows in found)
    order = [lengths[row] for rows in found for row in rows]
    assert order == sorted(lengths, reverse=True)
    for rows, following in pairwise(found):
        assert sum(lengths[row] for row in rows) + lengths[following[0]] > tokens
