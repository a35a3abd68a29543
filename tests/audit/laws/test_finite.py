"""Finite values and gradients, whatever is read."""

import pytest
import torch
from torch import Tensor, nn

from headway.audit.laws.finite import finite
from headway.audit.report import Finding
from tests.audit.laws.sound import OURS, SOME, context_of, holds, ours, theirs
from tests.audit.twins.plain import CAUSAL, GPT, Attention, FeedForward
from tests.audit.twins.twin import seeded


class Length(nn.Module):
    """Its value at 0 is 0, its slope there is not a number."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x.pow(2).sum(-1, keepdim=True).sqrt()


class Cosine(Attention):
    """Divides by the length of queries."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        return super().attend(q / q.norm(dim=-1, keepdim=True), k, v, visible)


class Power(FeedForward):
    """e to the power of what comes."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).exp().log1p()


class Forbidding(GPT):
    """Says of one word that it never comes."""

    def finished(self, x: Tensor, keep: Tensor) -> Tensor:
        logits = super().finished(x, keep)
        return logits.masked_fill(torch.arange(logits.shape[-1]) == 3, float("-inf"))


def tried(model: type[GPT] = GPT, **parts: object) -> Finding:
    return finite(context_of(seeded(lambda: model(learned=False, **parts)), **CAUSAL))


def unbiased(attention: type[Attention]) -> object:
    def build(layer: int) -> Attention:
        found = attention(layer)
        nn.init.zeros_(found.qkv.bias)
        return found

    return build


@pytest.mark.parametrize("name", OURS)
def test_our_models_hold(name: str) -> None:
    assert holds(finite(ours(name)))


@pytest.mark.parametrize("name", SOME)
def test_models_of_transformers_hold(name: str) -> None:
    assert holds(finite(theirs(name)))


def test_a_slope_that_is_not_a_number_is_found_where_values_are() -> None:
    found = tried(norm=Length)
    assert found.broken and found.module == "blocks.0.norm1"
    assert found.example is not None and "gradients of the inputs" in found.example.sentence
    assert found.example.case["extreme"] == "zero" and found.example.case["length"] == 1


def test_a_division_by_nothing_is_found() -> None:
    found = tried(attention=unbiased(Cosine))
    assert found.broken and found.module == "blocks.0.attention"
    assert found.example is not None and "broken" in found.example.strips[0].marks[0]


def test_an_overflow_is_found() -> None:
    found = tried(feedforward=Power, norm=nn.Identity)
    assert found.broken and found.module == "blocks.0.feedforward"
    assert found.example is not None and found.example.case["extreme"] in ("large", "huge")


def test_a_word_that_is_forbidden_always_is_no_fault() -> None:
    assert holds(tried(Forbidding))


def test_no_gradients_are_left_behind() -> None:
    model = seeded(GPT)
    finite(context_of(model, **CAUSAL))
    assert all(one.grad is None for one in model.parameters())
