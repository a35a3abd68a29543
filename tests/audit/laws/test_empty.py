"""Rows that see nothing: numbers, and nobody else's business."""

import pytest
import torch
from torch import Tensor

from headway.audit.laws.empty import empty
from headway.audit.report import Finding
from tests.audit.laws.sound import OURS, SOME, context_of, holds, ours, theirs
from tests.audit.twins.plain import CAUSAL, GPT, Attention
from tests.audit.twins.twin import seeded
from tests.cost.tiny import MODELS

IMAGES = tuple(name for name in MODELS if "vit" in name)


class Infinite(Attention):
    """Nothing to see is 0 / 0."""

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, float("-inf")).softmax(-1)


class Mended(Attention):
    """The NaN is written over; its gradient is not."""

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        found = (scores + torch.where(visible, 0.0, float("-inf"))).softmax(-1)
        return torch.where(found.isnan(), 0.0, found)


class Counting(GPT):
    """Divides by how many of the whole batch are real."""

    def finished(self, x: Tensor, keep: Tensor) -> Tensor:
        return super().finished(x, keep) / keep.float().mean()


class Refusing(GPT):
    def kept(self, tokens: Tensor, mask: Tensor | None, past: object) -> Tensor:
        keep = super().kept(tokens, mask, None)
        if not keep.any(1).all():
            raise ValueError("a row of nothing but padding")
        return keep


class Crashing(GPT):
    def kept(self, tokens: Tensor, mask: Tensor | None, past: object) -> Tensor:
        keep = super().kept(tokens, mask, None)
        assert keep.any(1).all()
        return keep


def tried(model: type[GPT] = GPT, **parts: object) -> Finding:
    return empty(context_of(seeded(lambda: model(**parts)), **CAUSAL))


@pytest.mark.parametrize("name", [name for name in OURS if name not in IMAGES])
def test_our_models_hold(name: str) -> None:
    assert holds(empty(ours(name)))


@pytest.mark.parametrize("name", [name for name in (*SOME, "t5") if name not in IMAGES])
def test_models_of_transformers_hold(name: str) -> None:
    assert holds(empty(theirs(name)))


def test_our_pooling_refuses_with_a_sentence() -> None:
    found = empty(ours("bert-classes"))
    assert holds(found) and "nothing but padding" in found.why


def test_a_row_of_nan_is_found() -> None:
    found = tried(attention=Infinite)
    assert found.broken and found.module == "blocks.0.attention" and found.example is not None
    assert "results are not finite" in found.example.sentence
    assert any("padding" in mark for strip in found.example.strips for mark in strip.marks)


def test_a_gradient_of_nan_is_found_where_values_are_mended() -> None:
    found = tried(attention=Mended)
    # Gradients come from behind: the last layer is the first to hand on a NaN.
    assert found.broken and found.module == "blocks.1.attention" and found.example is not None
    assert "gradients" in found.example.sentence


def test_a_companion_that_changes_is_found() -> None:
    found = tried(Counting)
    assert found.broken and found.example is not None
    assert "a result changes beside a row of nothing but padding" in found.example.sentence


def test_a_refusal_holds_and_a_crash_does_not() -> None:
    found = tried(Refusing)
    assert holds(found) and "it refuses" in found.why
    found = tried(Crashing)
    assert found.broken and "AssertionError" in found.why


def test_images_have_no_padding() -> None:
    assert empty(ours("vit")).status == "not applicable"
