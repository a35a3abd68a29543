"""Cases that a reviewer found: each was wrong once."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn

import headway
from headway.config import (
    Additive,
    AttentionConfig,
    BlockConfig,
    Channel,
    FeedForwardConfig,
    Linear,
    Rotary,
    StackConfig,
)
from headway.config.layers import VectorsConfig
from headway.config.text import Seq2SeqConfig
from headway.cost.compose import price_tree
from headway.cost.op_tree import depth, forward
from headway.cost.reference_path import counter, reference_path
from headway.cost.setting import Setting
from headway.cost.trace import trace
from headway.cost.verify import real_inputs
from headway.nn.layers import BatchNorm
from headway.steps import COUNTINGS
from tests.cost.tiny import MODELS, language
from tests.fresh import fresh


def vectors(norm: str = "layer", **attention: Any) -> VectorsConfig:
    own = AttentionConfig(width=12, heads=2, **attention)
    block = BlockConfig(attention=own, feedforward=FeedForwardConfig(hidden=17), norm=norm)
    return VectorsConfig(stack=StackConfig(block=block, layers=1))


@pytest.mark.parametrize(
    "config",
    [
        vectors("batch"),
        vectors(mechanism=Additive(), scale=0.3),
        vectors(mechanism=Additive(), softcap=5.0),
        vectors(mechanism=Channel(), scale=1.0),
        vectors(rotary=Rotary(interleaved=True)),
    ],
    ids=["batch norm in use", "additive, scaled", "additive, capped", "channel, unscaled", "interleaved"],
)
def test_depth_is_that_of_the_trace(config: VectorsConfig) -> None:
    setting, model = Setting(batch=1, length=23), fresh(config)
    with reference_path(model):
        found = trace(model, *real_inputs(config, setting), device="cpu", memory=False, lengths={23})
    tree = price_tree(config, setting)
    assert found.depth == {way: depth(tree, counting) for way, counting in COUNTINGS.items()}


def test_the_record_of_a_fresh_batch_norm_is_that_of_nothing_seen() -> None:
    trash = torch.full((1 << 16,), float("nan"))
    del trash  # what is allocated next may find it
    model = fresh(vectors("batch"))
    norms = [part for part in model.modules() if isinstance(part, BatchNorm)]
    assert norms and all(not bool(norm.mean.any()) and bool((norm.variance == 1).all()) for norm in norms)


def test_linear_attention_on_a_single_token() -> None:
    config, setting = language(Linear(), rotary=None), Setting(batch=2, length=1, training=True)
    model = fresh(config)
    with counter() as found:
        model(*real_inputs(config, setting))
    assert 2 * (forward(price_tree(config, setting)).executed or 0) == found.get_total_flops()


def test_a_cross_attention_of_another_mechanism_has_a_price() -> None:
    c = MODELS["seq2seq"]
    assert isinstance(c, Seq2SeqConfig) and c.decoder.block.cross is not None
    cross = c.decoder.block.cross.model_copy(update={"mechanism": Additive()})
    block = c.decoder.block.model_copy(update={"cross": cross})
    config = c.model_copy(update={"decoder": c.decoder.model_copy(update={"block": block})})
    assert headway.price(config, length=5, source=7).memory.saved > 0


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"length": 10**12}, "beyond what is counted"),
        ({"past": 0}, "at least 1"),
    ],
)
def test_sizes_that_cannot_be(given: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        headway.price(MODELS["llama"], **given)


def test_blocks_that_the_kernel_skips_are_not_executed_in_a_trace() -> None:
    class Attends(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            q = x[:, None]
            return nn.functional.scaled_dot_product_attention(q, q, q, is_causal=True)[:, 0]

    x = torch.randn(2, 1000, 4)
    found = trace(Attends(), x.to("meta"), memory=False)
    with counter() as counted:
        Attends()(x)
    assert 2 * (found.forward.executed or 0) == counted.get_total_flops()
    assert replace(found.forward, executed=0).useful == 2 * (1000 * 1001 // 2) * 8
