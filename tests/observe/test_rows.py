"""A module that is called with one query after another: the calls are rows of one attention."""

from typing import Any

import pytest
import torch
from torch import nn

from headway.config import Local
from headway.cost.setting import Setting
from headway.cost.verify import real_inputs
from headway.models import make
from headway.nn.cache import KVCache, WindowCache
from headway.observe.attention import captured
from headway.observe.weights import Selection
from tests.cost.tiny import MODELS
from tests.observe.layers import CASES, Case, drawn, layer_of


def test_a_recurrent_decoder() -> None:
    config = MODELS["recurrent"]
    model: Any = make(config).eval()
    source, target = real_inputs(config, Setting(batch=2, length=7, source=5))
    keep = torch.arange(5) < torch.tensor([[5], [3]])
    with torch.no_grad():
        off = model(source, target, source_keep=keep)
        with captured(model) as found:
            on = model(source, target, source_keep=keep)
    (one,) = found
    assert torch.equal(on, off) and (one.name, one.mechanism, one.shape) == ("alignment", "additive", (2, 1, 7, 5))
    assert len({id(call.keys) for call in one.calls}) == 1  # type: ignore[union-attr]
    weights = one.weights()
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 1, 7))
    assert (weights[1, ..., 3:] == 0).all() and weights[0].std() > 0
    for rows in (slice(3, 4), slice(2, 6), slice(1, None, 3), slice(4, 4)):
        assert torch.equal(one.weights(rows), weights[:, :, rows])
    assert one.parts() is None


def test_the_tokens_of_a_growing_cache() -> None:
    layer, x = layer_of(CASES["grouped"]), drawn(2, 17, 42)
    with torch.no_grad(), captured(layer) as whole:
        layer(x)
    cache = KVCache(capacity=5)
    with torch.no_grad(), captured(layer) as found:
        layer(x[:, :4], cache=cache)
        for place in range(4, 17):
            layer(x[:, place : place + 1], cache=cache)
    assert len(found) == 1 and found[0].shape == whole[0].shape
    torch.testing.assert_close(found[0].weights(), whole[0].weights(), rtol=0, atol=1e-6)
    assert found[0].nbytes == whole[0].nbytes  # the keys once, not once a step


def test_a_rolling_cache_is_copied_before_it_turns() -> None:
    layer, x = layer_of(Case({"mechanism": Local(window=3), "causal": True})), drawn(2, 11, 42)
    with torch.no_grad(), captured(layer) as whole:
        layer(x)
    cache = WindowCache(3)
    with torch.no_grad(), captured(layer) as found:
        for place in range(11):
            layer(x[:, place : place + 1], cache=cache)
    last = found[-1].weights()
    wanted = whole[0].weights(slice(10, None))[..., 8:]
    torch.testing.assert_close(last.sort(-1)[0], wanted.sort(-1)[0], rtol=0, atol=1e-6)


def test_one_token_through_a_layer_that_is_used_twice() -> None:
    layer, x = layer_of(CASES["plain"]), drawn(2, 1, 42)
    with torch.no_grad(), captured(layer) as found:
        layer(layer(x))
    assert [one.shape for one in found] == [(2, 6, 1, 1)] * 2


def test_layers_are_counted_once_for_all_their_rows() -> None:
    config = MODELS["recurrent"]
    two: Any = nn.ModuleList([make(config).eval(), make(config).eval()])
    inputs = real_inputs(config, Setting(batch=2, length=7, source=5))
    with torch.no_grad(), captured(two, selection=Selection(layers=(1,))) as found:
        for one in two:
            one(*inputs)
    assert [one.name for one in found] == ["1.alignment"]


@pytest.mark.parametrize("model", [nn.Sequential(nn.Linear(7, 5), nn.Softmax(-1)), nn.LSTM(7, 5, batch_first=True)])
def test_a_model_without_attention(model: nn.Module) -> None:
    with captured(model) as found:
        model(drawn(2, 3, 7))
    assert found == []
