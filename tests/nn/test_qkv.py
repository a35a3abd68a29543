"""Queries, keys and values of self-attention are one parameter: what three maps would give, and what adapters need."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.utils import prune

from headway.config import AttentionConfig
from headway.nn.attention import Attention
from headway.nn.layers import Linear

CONFIG = AttentionConfig(width=14, heads=4, kv_heads=2, head_width=3, value_width=5, bias=True, causal=True)


def by_three_maps(layer: Attention, x: Tensor) -> Tensor:
    c = layer.config
    weights, biases = layer.qkv.weight.split(layer.columns), layer.qkv.bias.split(layer.columns)
    parts = zip(weights, biases, (c.heads, c.kv_heads, c.kv_heads), strict=True)
    q, k, v = (F.linear(x, w, b).unflatten(-1, (heads, -1)).transpose(1, 2) for w, b, heads in parts)
    k, v = (part.repeat_interleave(c.heads // c.kv_heads, 1) for part in (k, v))
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    scores = (q @ k.mT * c.head_width**-0.5).masked_fill(hidden, -torch.inf)
    return layer.out((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))


def test_one_product_is_three() -> None:
    layer, x = Attention(CONFIG).double(), torch.randn(3, 11, 14, dtype=torch.float64)
    assert [name for name, _ in layer.named_parameters()] == ["qkv.weight", "qkv.bias", "out.weight"]
    assert layer.qkv.weight.shape == (4 * 3 + 2 * 3 + 2 * 5, 14)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, expected = layer(ours), by_three_maps(layer, theirs)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)
    slope = torch.randn_like(found)
    grads = [torch.autograd.grad(out, [given, *layer.parameters()], slope) for out, given in
             ((found, ours), (expected, theirs))]  # fmt: skip
    for one, other in zip(*grads, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_a_layer_of_one_input_may_be_asked_of_another() -> None:
    """M8: the same weights attend to a source, and self-attention is the case x = source."""
    layer = Attention(AttentionConfig(width=14, heads=2, bias=True)).double()
    x, source = torch.randn(2, 5, 14, dtype=torch.float64), torch.randn(2, 7, 14, dtype=torch.float64)
    torch.testing.assert_close(layer(x, x), layer(x), rtol=0, atol=1e-13)
    cross = Attention(layer.config, cross=True).double()
    q, k, v = layer.qkv.weight.split(layer.columns)
    with torch.no_grad():
        cross.query.weight.copy_(q)
        cross.key_value.weight.copy_(torch.cat([k, v]))
        q, k, v = layer.qkv.bias.split(layer.columns)
        cross.query.bias.copy_(q)
        cross.key_value.bias.copy_(torch.cat([k, v]))
    cross.out = layer.out
    torch.testing.assert_close(cross(x, source), layer(x, source), rtol=0, atol=1e-13)


class Adapted(Linear):
    """A map with something added, as an adapter does it."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x) + 1.0


def hooked(layer: Attention) -> None:
    layer.qkv.register_forward_hook(lambda module, given, made: made * 2)


def adapted(layer: Attention) -> None:
    kept = layer.qkv.state_dict()
    layer.qkv = Adapted(14, 28).double()
    layer.qkv.load_state_dict(kept)


def pruned(layer: Attention) -> None:
    prune.random_unstructured(layer.qkv, "weight", 0.5)


@pytest.mark.parametrize("change", [hooked, adapted, pruned])
def test_whatever_is_put_on_the_map_acts_without_gradients_too(change) -> None:
    layer, x = Attention(CONFIG).double(), torch.randn(2, 5, 14, dtype=torch.float64)
    with torch.no_grad():
        before = layer(x)
    change(layer)
    right = layer(x).detach()
    with torch.no_grad():
        assert torch.allclose(layer(x), right, atol=1e-12, rtol=0)
    assert not torch.allclose(before, right)


def test_a_copy_is_a_copy() -> None:
    layer, x = Attention(CONFIG).double(), torch.randn(2, 5, 14, dtype=torch.float64)
    before, again = layer(x).detach(), copy.deepcopy(layer)
    with torch.no_grad():
        again.qkv.weight.mul_(1.5)
    assert torch.equal(layer(x), before) and not torch.allclose(again(x), before)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_few_rows_give_the_same_as_many(dtype: torch.dtype) -> None:
    """Few rows go by another way where gradients are off."""
    layer, x = Attention(AttentionConfig(width=192, heads=3, bias=True)).to(dtype), torch.randn(1, 3, 192, dtype=dtype)
    with torch.no_grad():
        torch.testing.assert_close(
            layer(x), layer(x.repeat(200, 1, 1))[:1], rtol=2e-2, atol=1e-2 if dtype == torch.bfloat16 else 1e-5
        )
