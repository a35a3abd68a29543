"""Decoders beside GPT-2 and Llama: what their configurations mean, what is refused, and what is written."""

import json
from typing import Any

import pytest

from headway.config import LanguageConfig, Special
from headway.config.layers import LinearScaling, LongRopeScaling
from headway.hub.checks import check_written
from headway.hub.family import family_named
from headway.presets import preset
from headway.presets.llama import window_of

WORDS: dict[str, Any] = dict(
    vocab_size=101, ffn_dim=31, hidden_size=80, intermediate_size=29, num_hidden_layers=3, num_attention_heads=8
)


def understood(kind: str, **more: Any) -> LanguageConfig:
    return family_named(kind).read({"model_type": kind, **WORDS, **more}, frozenset())


def written(config: LanguageConfig) -> dict[str, Any]:
    said = json.loads(json.dumps(family_named(config.family).write(config)))
    check_written(family_named(config.family), config.family, config, said)
    return said


def windows(config: LanguageConfig) -> list[int | None]:
    return [window_of(block.attention) for block in config.stack.blocks]


def bases(config: LanguageConfig) -> list[float]:
    return [block.attention.rotary.base for block in config.stack.blocks if block.attention.rotary is not None]


def test_what_a_short_configuration_means() -> None:
    two, three = understood("gemma2"), understood("gemma3_text", num_hidden_layers=7)
    assert (windows(two), bases(two)) == ([4096, None, 4096], [1e4] * 3)
    assert (windows(three), bases(three)) == ([4096] * 5 + [None, 4096], [1e4] * 5 + [1e6, 1e4])
    assert (two.stack.block.attention.softcap, two.logit_softcap) == (50.0, 30.0)
    assert (three.stack.block.attention.softcap, three.logit_softcap, three.tied) == (None, None, True)
    assert two.special == three.special == Special(begin=2, end=(1,), pad=0)
    olmo, phi = understood("olmo2"), understood("phi3")
    assert (olmo.length, olmo.stack.block.eps, olmo.special) == (2048, 1e-5, Special(end=(50279,), pad=1))
    assert (phi.length, phi.stack.block.eps, phi.special.end) == (4096, 1e-5, (32000,))
    neox, opt = understood("gpt_neox"), understood("opt")
    assert (neox.length, neox.stack.block.parallel, neox.tied, neox.special.end) == (2048, True, False, (2,))
    assert neox.stack.block.attention.rotary.width == 2
    assert (opt.length, opt.stack.block.order, opt.tied, opt.special.pad) == (2048, "pre", True, 1)


def test_both_words_for_the_rotary_positions_of_gemma_3() -> None:
    older = dict(rope_theta=5e5, rope_local_base_freq=300, rope_scaling=dict(rope_type="linear", factor=8.0))
    newer = dict(rope_parameters=dict(
        full_attention=dict(rope_type="linear", factor=8.0, rope_theta=5e5),
        sliding_attention=dict(rope_type="default", rope_theta=300.0),
    ))  # fmt: skip
    found = understood("gemma3_text", sliding_window_pattern=2, **older)
    assert found == understood("gemma3_text", sliding_window_pattern=2, **newer)
    assert found.stack.block.attention.rotary.scaling is None
    assert found.stack.blocks[1].attention.rotary.scaling == LinearScaling(factor=8.0)
    assert written(found)["rope_local_base_freq"] == 300


@pytest.mark.parametrize("said", ["longrope", "su", "yarn"])
def test_the_names_that_longrope_had_in_phi_3(said: str) -> None:
    factors = dict(short_factor=[1.0] * 5, long_factor=[2.0] * 5)
    config = understood("phi3", max_position_embeddings=8192, rope_scaling=dict(type=said, **factors))
    scaling = config.stack.block.attention.rotary.scaling
    assert scaling == LongRopeScaling(short=(1.0,) * 5, long=(2.0,) * 5, length=4096, factor=2.0)
    assert written(config)["original_max_position_embeddings"] == 4096


@pytest.mark.parametrize(
    ("kind", "key", "value", "named"),
    [
        ("gemma2", "use_bidirectional_attention", True, "use_bidirectional_attention"),
        ("gemma2", "sliding_window", None, "sliding_window=None"),
        ("gemma2", "layer_types", ["chunked_attention"] * 3, "chunked_attention"),
        ("gemma3_text", "attn_logit_softcapping", 50.0, "attn_logit_softcapping"),
        ("gemma3_text", "rope_parameters", {"rope_type": "default"}, "two kinds of layers"),
        ("gemma3_text", "hidden_activation", "xielu", "xielu"),
        ("olmo2", "sliding_window", 7, "sliding_window"),
        ("olmo2", "layer_types", ["full_attention"], "layer_types"),
        ("phi3", "attention_bias", True, "attention_bias"),
        ("phi3", "rope_scaling", dict(rope_type="linear", factor=2.0), "longrope"),
        ("gpt_neox", "num_key_value_heads", 2, "num_key_value_heads"),
        ("gpt_neox", "hidden_act", "xielu", "xielu"),
        ("opt", "layer_norm_elementwise_affine", False, "layer_norm_elementwise_affine"),
    ],
)
def test_what_would_change_the_numbers_is_refused_by_name(kind: str, key: str, value: Any, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        understood(kind, **{key: value})


@pytest.mark.parametrize(
    ("name", "part", "changes", "named"),
    [
        ("gemma2-2b", "", dict(embedding_scale=1.0), "embedding_scale=1.0"),
        ("gemma2-2b", "stack.block", dict(order="pre"), "stack.block.order='pre'"),
        ("gemma2-2b", "stack.block.attention", dict(scale=0.3), "attention.scale=0.3"),
        ("olmo2-1b", "stack.block.attention", dict(qk_norm="head"), "over='head'"),
        ("phi3-mini", "stack.block.attention", dict(bias=True), "attention.bias=True"),
        ("pythia-70m", "stack.block.attention", dict(kv_heads=4), "attention.kv_heads=4"),
        ("pythia-70m", "stack.block", dict(norm="rms"), "block.norm='rms'"),
        ("opt-125m", "", dict(offset=0), "offset=0"),
        ("opt-125m", "stack.block", dict(eps=1e-6), "eps=1e-06"),
    ],
)
def test_what_a_layout_has_no_word_for_is_not_saved(name: str, part: str, changes: dict[str, Any], named: str) -> None:
    with pytest.raises(ValueError, match=named):
        written(preset(name).replace(part, **changes))  # type: ignore[arg-type]
