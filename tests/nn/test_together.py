"""Maps that lie together: the same parameters, one product."""

import copy

import pytest
import torch
from torch import nn
from torch.nn.utils import prune

from headway.config import AttentionConfig
from headway.nn.attention import Attention
from headway.nn.quarantine import Projection
from headway.nn.together import lay_together, together


def maps(*, bias: bool) -> list[nn.Linear]:
    return [nn.Linear(7, rows, bias=bias) for rows in (5, 3, 2)]


def test_values_and_names_stay_and_storage_is_one() -> None:
    three = maps(bias=True)
    before = [(one.weight.clone(), one.bias.clone()) for one in three]
    assert together([one.weight for one in three]) is None
    lay_together(three)
    for one, (weight, bias) in zip(three, before, strict=True):
        assert torch.equal(one.weight, weight) and torch.equal(one.bias, bias)
    whole = together([one.weight for one in three])
    assert whole is not None and torch.equal(whole, torch.cat([weight for weight, _ in before]))
    bias = together([one.bias for one in three])
    assert bias is not None and torch.equal(bias, torch.cat([bias for _, bias in before]))


def test_a_change_of_one_is_seen_in_the_whole() -> None:
    three = maps(bias=False)
    lay_together(three)
    with torch.no_grad():
        three[1].weight[2, 4] = 17.0
    whole = together([one.weight for one in three])
    assert whole is not None and whole[5 + 2, 4] == 17.0


def test_what_is_cast_or_replaced_is_told_apart() -> None:
    three = maps(bias=False)
    lay_together(three)
    three[2].weight = nn.Parameter(torch.randn(2, 7))
    assert together([one.weight for one in three]) is None
    lay_together(three)
    for one in three:
        one.double()
    assert together([one.weight for one in three]) is None


def test_the_layer_gives_the_same_numbers() -> None:
    layer = Attention(AttentionConfig(width=21, heads=3, kv_heads=1, bias=True, causal=True)).double()
    x = torch.randn(2, 5, 21, dtype=torch.float64)
    apart = layer(x)
    layer.lay_together()
    with torch.no_grad():
        assert torch.allclose(layer(x), apart, atol=1e-13, rtol=0)
    layer(x).sum().backward()
    assert layer.key.weight.grad is not None and layer.key.weight.grad.shape == (7, 21)
    with torch.no_grad():
        layer.value = Projection(21, 7).double()  # a map of its own again: the three products must serve
        assert not torch.allclose(layer(x), apart)
        layer.lay_together()
        kept = layer(x)
        layer.query.bias = nn.Parameter(torch.zeros(21, dtype=torch.float64))
        assert not torch.allclose(layer(x), kept)
    apart = layer(x).detach()
    again = copy.deepcopy(layer)
    with torch.no_grad():
        again.key.weight.zero_()
        assert not torch.allclose(again(x), apart)
        assert torch.allclose(layer(x), apart, atol=1e-13, rtol=0)


class Adapted(Projection):
    """A map with something added, as an adapter does it."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return super().forward(x) + 1.0


def hooked(layer: Attention) -> None:
    layer.query.register_forward_hook(lambda module, given, made: made * 2)


def adapted(layer: Attention) -> None:
    held = layer.query.state_dict()
    layer.query = Adapted(21, 21).double()
    layer.query.load_state_dict(held)


def pruned(layer: Attention) -> None:
    prune.random_unstructured(layer.query, "weight", 0.5)


@pytest.mark.parametrize("change", [hooked, adapted, pruned])
def test_whatever_is_put_on_a_map_acts_without_gradients_too(change) -> None:
    layer = Attention(AttentionConfig(width=21, heads=3, bias=True, causal=True)).double()
    layer.lay_together()
    x = torch.randn(2, 5, 21, dtype=torch.float64)
    with torch.no_grad():
        before = layer(x)
    change(layer)
    right = layer(x).detach()
    with torch.no_grad():
        assert torch.allclose(layer(x), right, atol=1e-12, rtol=0)
    assert not torch.allclose(before, right)


def test_a_copy_looks_for_its_own_memory() -> None:
    layer = Attention(AttentionConfig(width=21, heads=3, causal=True)).double()
    layer.lay_together()
    x = torch.randn(2, 5, 21, dtype=torch.float64)
    with torch.no_grad():
        layer(x)
        again = copy.deepcopy(layer)
        assert again._whole is None
        again.key.weight.mul_(1.5)
        found = again(x)
    assert torch.allclose(found, again(x).detach(), atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
@pytest.mark.parametrize("biased", [False, True])
def test_one_product_has_the_gradients_of_three(dtype: torch.dtype, biased: bool) -> None:
    config = AttentionConfig(width=14, heads=4, kv_heads=2, head_width=3, bias=biased, causal=True)
    layer = Attention(config).to(dtype)
    apart = copy.deepcopy(layer)
    layer.lay_together()
    x = torch.randn(3, 11, 14, dtype=dtype)
    ours, theirs = x.clone().requires_grad_(), x.clone().requires_grad_()
    found, expected = layer(ours), apart(theirs)
    assert layer._whole is not None and apart._whole is None
    slope = torch.randn_like(found)
    found.backward(slope)
    expected.backward(slope)
    tolerance = 1e-12 if dtype == torch.float64 else 4e-2
    for (name, one), other in zip(layer.named_parameters(), apart.parameters(), strict=True):
        assert one.grad is not None, name
        torch.testing.assert_close(one.grad, other.grad, rtol=tolerance, atol=tolerance)
    torch.testing.assert_close(ours.grad, theirs.grad, rtol=tolerance, atol=tolerance)


def test_one_product_leaves_frozen_maps_alone_and_notices_a_change_before_the_backward_pass() -> None:
    layer = Attention(AttentionConfig(width=6, heads=2))
    layer.lay_together()
    layer.key.requires_grad_(False)
    out = layer(torch.randn(2, 5, 6))
    out.sum().backward()
    assert layer.key.weight.grad is None and layer.query.weight.grad is not None
    out = layer(torch.randn(2, 5, 6, requires_grad=True))
    with torch.no_grad():
        layer.value.weight.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


def test_neighbours_by_chance_are_not_one() -> None:
    memory = torch.randn(4, 3)
    first, second = memory[:2], torch.empty(0).set_(memory.untyped_storage(), 6, (2, 3))
    assert together([first, second]) is not None
    other = torch.frombuffer(memory.numpy(), dtype=torch.float32, offset=24).view(2, 3)
    assert other.data_ptr() == second.data_ptr() and together([first, other]) is None
