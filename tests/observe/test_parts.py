"""The parts of a softmax: packed in 16 bits, they give every row again."""

from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.look.packed import Factors, factors
from headway.observe.attention import captured
from headway.observe.weights import CapturedAttention
from headway.ops.bias import Alibi, Relative, alibi_slopes
from headway.ops.mask import padding
from tests.observe.foreign import attentions_of, inputs_of, model_of
from tests.observe.layers import BATCH, HEADS, LENGTH, OTHERS, SOFTMAX, WIDTH, Case, drawn, layer_of

UNLIKE = ("dense",)  # a bias that does not go by distance


def packed(attention: CapturedAttention) -> Factors:
    parts = attention.parts()
    assert parts is not None
    allowed, bias = parts.allowed(slice(None)), parts.bias
    return factors(
        parts.q.double().numpy(), parts.k.double().numpy(), softcap=parts.softcap, causal=parts.causal,
        bias=None if bias is None else bias.double().numpy(), allowed=None if allowed is None else allowed.numpy(),
    )  # fmt: skip


def error(attention: CapturedAttention) -> float:
    """The largest of all rows of item 0, relative to each weight; weights below 1e-3 count as if they were that."""
    made, weights = packed(attention), attention.weights()[0].double().numpy()
    found = np.array([[made.row(head, row) for row in range(weights.shape[1])] for head in range(len(weights))])
    return float((np.abs(found - weights) / np.maximum(weights, 1e-3)).max())


def seen(case: Case) -> CapturedAttention:
    layer = layer_of(case)
    with torch.no_grad(), captured(layer) as found:
        layer(drawn(BATCH, LENGTH, WIDTH), **case.passed)
    return found[0]


@pytest.mark.parametrize("name", [name for name in SOFTMAX if name not in UNLIKE])
def test_rows_from_parts_are_the_weights(name: str) -> None:
    assert error(seen(SOFTMAX[name])) < 2e-3


@pytest.mark.parametrize("name", [*UNLIKE, *OTHERS])
def test_what_has_no_parts(name: str) -> None:
    assert seen((SOFTMAX | OTHERS)[name]).parts() is None


# Whether causal is all there is to say, and how many tables there are otherwise.
RULES = {
    "plain": (False, 0), "causal": (True, 0), "padded": (False, 0), "left": (False, 1), "table": (False, HEADS),
    "window": (False, 1), "local": (False, 1), "grid": (False, 0), "alibi": (True, 0), "empty": (False, 1),
}  # fmt: skip


@pytest.mark.parametrize("name", RULES)
def test_causal_only_where_it_is_exactly_that(name: str) -> None:
    causal, tables = RULES[name]
    parts = seen(SOFTMAX[name]).parts()
    assert parts is not None and parts.causal == causal
    some = parts.allowed(slice(3, 8))
    assert (0 if some is None else len(some)) == tables
    if some is not None:
        whole = parts.allowed(slice(None))
        assert whole is not None and torch.equal(some, whole[:, 3:8])


def test_padding_on_the_left_and_a_bias() -> None:
    # The first item is the padded one: its positions do not count from 0.
    for bias in (Alibi(alibi_slopes(HEADS)), Relative(drawn(32, HEADS))):
        one = seen(Case({"causal": True}, {"mask": padding(lengths=[29, 35], side="left"), "bias": bias}))
        parts = one.parts()
        assert parts is not None and parts.bias is not None and not parts.causal
        assert error(one) < 2e-3


def test_positions_with_gaps_and_a_bias() -> None:
    bias, places = Alibi(alibi_slopes(HEADS)), torch.arange(LENGTH)
    even = seen(Case({"causal": True}, {"positions": 2 * places, "bias": bias}))
    assert error(even) < 2e-3 and getattr(even.parts(), "causal", False)
    assert seen(Case({"causal": True}, {"positions": places**2, "bias": bias})).parts() is None


class Bare(nn.Module):
    def forward(self, q: Tensor, k: Tensor, **more: Any) -> Tensor:
        return F.scaled_dot_product_attention(q, k, k, **more)


def bare(mask: Tensor | None = None, *, queries: int = 17, keys: int = 23, **more: Any) -> CapturedAttention:
    model = Bare()
    with captured(model) as found:
        model(drawn(2, 3, queries, 11), drawn(2, 3, keys, 11, seed=2), attn_mask=mask, **more)
    return found[0]


LOW = torch.finfo(torch.float32).min


@pytest.mark.parametrize("hidden", [-1e4, LOW, -torch.inf])
def test_numbers_that_hide_are_a_mask(hidden: float) -> None:
    above = torch.ones(17, 17, dtype=torch.bool).triu(1)
    slopes = torch.tensor([0.1, 0.5, 2.0])[:, None, None]
    straight = slopes * (torch.arange(17) - torch.arange(17)[:, None])
    one = bare((torch.zeros(17, 17) if hidden == LOW else straight).masked_fill(above, hidden)[None], keys=17)
    parts = one.parts()
    assert parts is not None and parts.causal and (parts.bias is None) == (hidden == LOW)
    assert error(one) < 2e-3


def test_a_row_that_is_hidden_by_numbers_alone_is_not_empty() -> None:
    table = torch.zeros(17, 23)
    table[5] = LOW
    assert bare(table).parts() is None  # its weights are all alike, and a table would make them 0
    table[5] = -torch.inf
    assert error(bare(table)) < 2e-3


def test_a_kernel_that_counts_from_the_first_key() -> None:
    one = bare(is_causal=True)
    parts = one.parts()
    assert parts is not None and parts.causal and error(one) < 2e-3


def test_sizes_of_gpt2() -> None:
    """Scores of variance 4, where rows are sharp; the bound says what 16 bits are worth."""
    model = Bare()
    with captured(model) as found:
        model(2 * drawn(1, 12, 131, 64), drawn(1, 12, 131, 64, seed=2), is_causal=True)
    assert error(found[0]) < 5e-4


@pytest.mark.parametrize("name", ["t5", "gpt2"])
def test_models_of_another_library(name: str) -> None:
    pytest.importorskip("transformers")
    model, eager = model_of(name), model_of(name, "eager")
    with torch.no_grad(), captured(model) as found:
        model(**inputs_of(name))
    with torch.no_grad():
        wanted = attentions_of(eager(**inputs_of(name), output_attentions=True))
    for one, its in zip(found, wanted, strict=True):
        made = packed(one)
        rows = np.array([[made.row(head, row) for row in range(its.shape[2])] for head in range(its.shape[1])])
        assert np.abs(rows - its[0].numpy()).max() < 1e-3
    assert any(packed(one).causal for one in found)
    if name == "t5":
        assert [packed(one).bias is not None for one in found] == [True, True, True, False, True, False]
