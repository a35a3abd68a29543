"""Layers at their edges, as users call them: what was ignored or went wrong without a word."""

from typing import Any

import pytest
import torch

import headway as hw
from headway.config import Alibi, AttentionConfig, Rotary, StackConfig
from headway.nn import BlockCache, Context, KVCache
from headway.nn.block import block_config

X = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))


def test_layers_of_other_heads_do_not_share_a_rotation() -> None:
    rotary = Rotary()
    near = block_config(width=12, heads=3, causal=True, rotary=rotary)
    shared = StackConfig(block=near, alternates=(near.replace("attention", heads=1),), layers=2)
    apart = StackConfig(
        block=near, alternates=(near.replace("attention", heads=1, rotary=Rotary(base=10000.0)),), layers=2
    )
    one, other = hw.nn.Stack(shared).double(), hw.nn.Stack(apart).double()
    other.load_state_dict(one.state_dict())
    torch.testing.assert_close(one(X), other(X), rtol=0, atol=0)
    alone = hw.nn.Block(shared.blocks[1]).double()
    alone.load_state_dict(one.blocks[1].state_dict())
    first = hw.nn.Block(shared.blocks[0]).double()
    first.load_state_dict(one.blocks[0].state_dict())
    torch.testing.assert_close(one.norm(alone(first(X))), one(X), rtol=1e-12, atol=1e-12)


def test_a_context_of_ones_own_is_not_lost() -> None:
    layer = hw.nn.Attention(width=12, heads=3).double()
    torch.testing.assert_close(layer(X, context=Context(hw.causal())), layer(X, mask=hw.causal()), rtol=0, atol=0)


def test_a_source_may_be_padded_on_the_left() -> None:
    layer = hw.nn.Attention(width=12, heads=3, softcap=5.0).double()
    source = torch.randn(2, 7, 12, dtype=torch.float64)
    out = layer(X, source, mask=hw.padding(lengths=[3, 7], side="left", total=7))
    torch.testing.assert_close(out[0], layer(X[:1], source[:1, 4:])[0], rtol=1e-10, atol=1e-10)


def test_padding_in_a_mask_is_padding() -> None:
    model = hw.build("gpt2", layers=1, width=12, heads=3, vocabulary=31, length=9).eval().double()
    tokens, keep = torch.randint(0, 31, (2, 5)), torch.arange(5) >= torch.tensor([[3], [0]])
    torch.testing.assert_close(model(tokens, mask=hw.padding(keep=keep)), model(tokens, keep=keep), rtol=0, atol=0)


@pytest.mark.parametrize("mask", [hw.window(2) | hw.padding(lengths=[5, 5]), ~hw.padding(lengths=[5, 5])])
def test_padding_inside_of_another_rule_is_refused_with_a_cache(mask: Any) -> None:
    layer = hw.nn.Attention(width=12, heads=3, causal=True).double()
    with torch.no_grad(), pytest.raises(ValueError, match="with a cache, masks and biases relate positions"):
        layer(X, mask=mask, cache=KVCache())


def test_blocks_refuse_caches_that_cannot_serve_them() -> None:
    block = hw.nn.Block(width=12, heads=3).double()
    with torch.no_grad(), pytest.raises(ValueError, match="only causal attention can be read with a cache"):
        block(X, cache=BlockCache(KVCache()))


def test_a_configuration_and_options_are_one_too_many() -> None:
    with pytest.raises(ValueError, match="give a configuration or options, not both"):
        hw.nn.Attention(AttentionConfig(width=12, heads=3), heads=4)
    for wrong in (dict(feedforward=None, hidden=4), dict(attention=AttentionConfig(width=12), hidden=4, heads=3)):
        with pytest.raises(
            ValueError, match=r"give (feedforward|attention)= or the fields of it, not both: (hidden|heads)"
        ):
            block_config(**({"width": 12, "heads": 3} if "feedforward" in wrong else {}), **wrong)
    with pytest.raises(ValueError, match="give a configuration or options, not both"):
        hw.nn.Block(block_config(width=12, heads=3), dropout=0.5)


def test_every_field_of_a_configuration_is_a_keyword() -> None:
    """Those that were copied by name once were refused as options of the attention."""
    own = {"width": 12, "heads": 3, "causal": True}
    block = hw.nn.Block(**own, first_norm=False, bias=True, activation="silu", gated=True).config
    assert not block.first_norm and block.attention.bias and block.feedforward is not None
    assert (block.feedforward.hidden, block.feedforward.activation, block.feedforward.gated) == (48, "silu", True)
    assert hw.nn.Block(**own, feedforward=None).feedforward is None
    cross = hw.nn.Block(**own, cross=AttentionConfig(width=12, source_width=10)).config.cross
    assert cross is not None and cross.source_width == 10
    stack = hw.nn.Stack(layers=3, **own, scaled_init=True, bias=Alibi(), shared=True).config
    assert (stack.scaled_init, stack.bias, stack.shared, stack.final_norm) == (True, Alibi(), True, True)
    assert hw.nn.Stack(layers=2, **own, bias=True, final_norm=False).config.block.attention.bias
    again = hw.nn.Stack(block=stack.block, alternates=(block,), layers=2).config
    assert again.blocks == (stack.block, block)
    with pytest.raises(ValueError, match="give block= or the fields of it, not both: heads"):
        hw.nn.Stack(block=stack.block, layers=2, heads=3)
    with pytest.raises(ValueError, match="did you mean heads"):
        hw.nn.Stack(layers=2, width=12, haeds=3)
