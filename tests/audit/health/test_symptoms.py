"""Each symptom on a model that has it: found by name and place; then its own remedy is applied, and it is gone."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headway.audit.health import Health, diagnose
from headway.hub.parts import parts_of
from tests.audit.health.patients import (
    HEADS,
    LAYERS,
    ONE,
    Plain,
    attention_of,
    decoder,
    gpt2,
    head_rows,
    tokens,
    vectors,
)

EVERY_HEAD = [f"stack.blocks.{layer}.attention head {head}" for layer in range(LAYERS) for head in range(HEADS)]


def looked_at(model: Any) -> Health:
    t = tokens()
    return diagnose(model, lambda: model(t), tokens=t)


def looked_at_hub(model: Any) -> Health:
    t = tokens()
    return diagnose(model, lambda: model(t).logits, tokens=t)


def plain(model: nn.Module, x: Tensor | None = None) -> Health:
    return diagnose(model, lambda: model(vectors() if x is None else x))


def names(health: Health) -> set[str]:
    return {one.name for one in health.symptoms}


def mean_spread(health: Health) -> float:
    return sum(one.spread or 0.0 for one in health.heads) / len(health.heads)


def mean_entropy(health: Health) -> float:
    return sum(one.entropy or 0.0 for one in health.heads) / len(health.heads)


def test_a_missing_scale_of_ours() -> None:
    sick = looked_at(decoder(scale=1.0))
    found = sick["scale"]
    assert names(sick) == {"scale"} and found.where == EVERY_HEAD
    assert found.fix["scale"] == pytest.approx(11**-0.5)
    assert "insensitive to the scores" in found.why and "in probability, not in every row" in found.why
    well = looked_at(decoder(scale=found.fix["scale"]))
    assert well.healthy
    assert mean_spread(sick) > 2.5 and mean_spread(well) == pytest.approx(1, abs=0.3)
    assert mean_entropy(sick) < 0.7 < mean_entropy(well)


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_a_missing_scale_of_gpt2(implementation: str) -> None:
    sick = looked_at_hub(gpt2(implementation, std=ONE, scale_attn_weights=False))
    assert names(sick) == {"scale"}
    assert "transformer.h.2.attn head 3" in sick["scale"].where
    well = looked_at_hub(gpt2(implementation, std=ONE))
    assert well.healthy and well.heads[0].scale == pytest.approx(sick["scale"].fix["scale"])


def test_a_missing_scale_that_does_no_harm_is_no_symptom() -> None:
    """As in T5: W_q is drawn smaller by √(head width) instead."""
    model = Plain(scale=1.0)
    model.q.weight.data *= 11**-0.5
    assert plain(model).healthy


def test_a_scale_applied_twice() -> None:
    sick = plain(Plain("twice"))
    found = sick["scale applied twice"]
    assert found.where == [f"the model head {head}" for head in range(HEADS)]
    well = plain(Plain("kernel", scale=found.fix["scale"]))
    assert well.healthy
    assert mean_spread(sick) == pytest.approx(mean_spread(well) / 11**0.5, rel=1e-5)


def test_weights_drawn_too_large() -> None:
    model = decoder(std=4 * ONE)
    sick = looked_at(model)
    found = sick["q and k too large"]
    assert found.where == EVERY_HEAD and "scale" not in names(sick)
    for layer in range(LAYERS):
        parts = parts_of(attention_of(model, layer))
        for name in ("query.weight", "key.weight"):
            parts[name] *= found.fix["multiply"]
    well = looked_at(model)
    assert not {"q and k too large", "saturated"} & names(well)
    assert mean_spread(sick) > 10 and mean_spread(well) < 1.5
    assert max(one.saturated or 0 for one in well.heads) < 0.01 < min(one.saturated or 0 for one in sick.heads)


def test_queries_and_keys_that_are_aligned() -> None:
    model, x = Plain(), vectors(length=7, batch=5)
    model.q.weight.data *= 1.9
    model.k.weight.data = model.q.weight.data.clone()
    sick = plain(model, x)
    found = sick["saturated"]
    assert names(sick) == {"saturated"} and found.where == [f"the model head {head}" for head in range(HEADS)]
    assert (sick.heads[0].variance or 0) > 1.2 * (sick.heads[0].predicted or 0)
    cooler = Plain(scale=11**-0.5 * found.fix["multiply"])
    cooler.load_state_dict(model.state_dict())
    assert plain(cooler, x).healthy
    model.k.weight.data.normal_(0, ONE * 1.9)
    assert plain(model, x).healthy


def test_a_stuck_head() -> None:
    """A query bias so large that it alone chooses the key."""
    model, x = nn.MultiheadAttention(44, HEADS, batch_first=True), vectors()
    model.in_proj_bias.data[22:33] = 1000.0
    sick = diagnose(model, lambda: model(x, x, x)[0])
    assert sick["stuck head"].where == sick["q and k too large"].where == ["the model head 2"]
    assert "dead head" not in names(sick)
    model.in_proj_bias.data[22:33] = 0.0
    well = diagnose(model, lambda: model(x, x, x)[0])
    assert well.healthy and well.heads[2].stuck == 0


def test_a_dead_head_that_says_nothing() -> None:
    model = decoder()
    layer = attention_of(model, 2)
    parts_of(layer)["value.weight"][head_rows(layer, 1)] = 0
    sick = looked_at(model)
    assert names(sick) == {"dead head"} and sick["dead head"].where == ["stack.blocks.2.attention head 1"]
    parts_of(layer)["value.weight"][head_rows(layer, 1)].normal_(0, ONE)
    assert looked_at(model).healthy


def test_a_dead_head_that_nobody_hears() -> None:
    model = decoder()
    layer = attention_of(model, 0)
    layer.out.weight.data[:, head_rows(layer, 3)] = 0
    sick = looked_at(model)
    assert sick["dead head"].where == ["stack.blocks.0.attention head 3"]
    layer.out.weight.data[:, head_rows(layer, 3)].normal_(0, ONE)
    assert looked_at(model).healthy


@pytest.mark.parametrize("std", [0.02, ONE])
def test_duplicate_heads(std: float) -> None:
    """Also where weights are so small that all heads are nearly uniform."""
    model = decoder(std=std)
    layer = attention_of(model, 1)
    for name in ("query.weight", "key.weight"):
        part = parts_of(layer)[name]
        part[head_rows(layer, 2)] = part[head_rows(layer, 0)]
    sick = looked_at(model)
    assert names(sick) == {"duplicate heads"}
    assert sick["duplicate heads"].where == ["stack.blocks.1.attention heads 0 and 2"]
    parts_of(layer)["query.weight"][head_rows(layer, 2)].normal_(0, std)
    assert looked_at(model).healthy


def test_scores_beyond_float16() -> None:
    model = Plain()
    for part in (model.q, model.k):
        part.weight.data *= 100
    sick = plain(model)
    assert "the model head 0" in sick["scores out of range"].where
    normalised = Plain(normalise=True)
    normalised.load_state_dict(model.state_dict())
    assert plain(normalised).healthy
    for part in (model.q, model.k):
        part.weight.data *= sick["scores out of range"].fix["multiply"]
    assert "scores out of range" not in names(plain(model))


def test_low_precision() -> None:
    written, x = Plain("written").bfloat16(), vectors().bfloat16()
    for part in (written.q, written.k):
        part.weight.data *= 1.9
    sick = plain(written, x)
    assert names(sick) == {"low precision"}
    fused = Plain("kernel").bfloat16()
    fused.load_state_dict(written.state_dict())
    assert plain(fused, x).healthy


UNNORMALISED = {"order": "none"}


def test_a_stream_that_grows_and_gradients_that_explode() -> None:
    sick = looked_at(decoder(std=2 * ONE, layers=6, block=UNNORMALISED))
    found = sick["stream grows"]
    assert "stack.blocks.5" in found.where and "stack.blocks.0" not in found.where
    assert sick["gradient explodes"].where == ["stack.blocks.0"]
    well = looked_at(decoder(std=ONE, layers=6))
    assert well.healthy
    assert well.depth[-1].activation < 5 * well.depth[1].activation


def test_smaller_last_maps_hold_the_stream() -> None:
    model = decoder(std=2 * ONE, layers=6, block=UNNORMALISED)
    fix = looked_at(model)["stream grows"].fix["multiply"]
    assert fix < 12**-0.5
    for block in model.stack.blocks:
        block.attention.out.weight.data *= fix
        block.feedforward.down.weight.data *= fix
    assert not {"stream grows", "gradient explodes"} & names(looked_at(model))


def test_a_gradient_that_vanishes() -> None:
    sick = looked_at(decoder(std=0.5 * ONE, layers=4, block={"order": "none", "residual": False}))
    assert sick["gradient vanishes"].where == ["stack.blocks.0"]
    well = looked_at(decoder(std=0.5 * ONE, layers=4))
    assert "gradient vanishes" not in names(well)
    assert (well.depth[1].gradient or 0) > 0.5 * (well.depth[-1].gradient or 1)


def test_logits_out_of_range() -> None:
    model = decoder()
    model.head.weight.data *= 1e6
    sick = looked_at(model)
    assert names(sick) == {"logits out of range"} and sick.logits is not None and sick.logits.beyond_float16 > 0.5
    model.head.weight.data *= sick["logits out of range"].fix["multiply"]
    well = looked_at(model)
    assert well.healthy and well.logits is not None and well.logits.largest == pytest.approx(10, rel=1e-3)


def test_what_is_not_finite_is_found_where_it_begins() -> None:
    model = decoder()
    model.stack.blocks[1].feedforward.down.weight.data[0, 0] = torch.nan
    sick = looked_at(model)
    assert sick["not finite"].where == ["stack.blocks.1"]
    assert "dead head" not in names(sick)
    model.stack.blocks[1].feedforward.down.weight.data[0, 0] = 0.0
    assert looked_at(model).healthy


def test_a_layer_that_begins_silent_has_no_dead_heads() -> None:
    """The last map of a branch may be drawn as 0."""
    model = decoder()
    attention_of(model, 1).out.weight.data.zero_()
    assert looked_at(model).healthy


def test_the_word_of_a_symptom_that_is_not_there() -> None:
    with pytest.raises(KeyError, match="there is none"):
        looked_at(decoder())["scale"]
