"""The layout of Llama: what its configurations say, what is refused, and the key table both ways."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

import headway
from headway.config import LanguageConfig, Linear, Local, Rotary, Softmax, Special
from headway.config.layers import DynamicScaling, LinearScaling, Llama3Scaling, LongRopeScaling, YarnScaling
from headway.hub.checks import check_written
from headway.hub.families.llama import FAMILY, read, read_windows, table, write
from headway.hub.families.rotary import read_rotary, write_rotary
from headway.hub.family import Entry
from headway.hub.parts import parts_of
from headway.models import on_meta
from headway.presets.llama import llama, window_of
from tests.fresh import fresh

SIZES = dict(
    vocab_size=53, hidden_size=42, intermediate_size=29, num_hidden_layers=2, num_attention_heads=3,
    num_key_value_heads=1, max_position_embeddings=61,
)  # fmt: skip
LLAMA3 = dict(factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0, original_max_position_embeddings=31)


def understood(model_type: str = "llama", **more: Any) -> LanguageConfig:
    return read({"model_type": model_type, **SIZES, **more}, frozenset())


def small(**more: Any) -> LanguageConfig:
    given = dict(vocabulary=53, width=42, hidden=29, layers=2, heads=3, kv_heads=1, length=61) | more
    return llama(**given)


# The configuration


def test_what_is_left_out_means_what_it_means_there() -> None:
    bare = {key: value for key, value in SIZES.items() if key not in ("num_key_value_heads", "max_position_embeddings")}
    found = read({"model_type": "llama", **bare}, frozenset())
    assert (found.length, found.stack.block.attention.kv_heads, found.stack.block.eps, found.tied) == (
        2048,
        3,
        1e-6,
        False,
    )
    assert found.special == Special(begin=1, end=(2,))
    assert understood("mistral").stack.block.attention.mechanism == Local(window=4096)
    assert understood("qwen2").stack.block.attention.mechanism == Softmax()
    assert understood("qwen2").special == Special()
    assert understood("mistral", bos_token_id=None).special.begin is None


@pytest.mark.parametrize(
    ("ends", "special"), [(None, ()), (7, (7,)), ([7], (7,)), ([128001, 128008, 128009], (128001, 128008, 128009))]
)
def test_special_tokens_there_and_back(ends: Any, special: tuple[int, ...]) -> None:
    config = understood(bos_token_id=5, eos_token_id=ends, pad_token_id=3)
    assert config.special == Special(begin=5, end=special, pad=3)
    written = write(config)
    assert written["eos_token_id"] == (ends[0] if ends == [7] else ends)
    assert (written["bos_token_id"], written["pad_token_id"]) == (5, 3)
    assert read(written, frozenset()) == config


def test_biases_of_the_three() -> None:
    def biases(config: LanguageConfig) -> tuple[bool, bool, bool]:
        block = config.stack.block
        return block.attention.bias, block.attention.output_bias, block.feedforward.bias

    assert biases(understood()) == (False, False, False)
    assert biases(understood(attention_bias=True, mlp_bias=True)) == (True, True, True)
    assert biases(understood("mistral")) == (False, False, False)
    assert biases(understood("qwen2")) == (True, False, False)


SWITCHES = [
    ("llama", "sliding_window", 8),
    ("llama", "hidden_act", "xielu"),
    ("llama", "num_local_experts", 8),
    ("llama", "qk_norm", True),
    ("llama", "logit_scale", 0.25),
    ("llama", "rope_interleaved", True),
    ("llama", "final_logit_softcapping", 30.0),
    ("llama", "partial_rotary_factor", 0.5),
    ("llama", "num_attention_sinks", 4),
    ("llama", "quantization_config", {"bits": 4}),
    ("llama", "embedding_multiplier", 2.0),
    ("llama", "layer_types", ["sliding_attention"] * 2),
    ("mistral", "layer_types", ["full_attention"] * 2),
    ("mistral", "attention_bias", True),
    ("qwen2", "attention_bias", False),
    ("qwen2", "mlp_bias", True),
    ("qwen2", "layer_types", ["chunked_attention"] * 2),
]


@pytest.mark.parametrize(("family", "key", "value"), SWITCHES)
def test_what_would_change_the_numbers_is_refused_by_name(family: str, key: str, value: Any) -> None:
    # An activation is named by its value.
    with pytest.raises(ValueError, match=value if key == "hidden_act" else key):
        understood(family, **{key: value})


def test_neutral_switches_and_harmless_keys_are_accepted() -> None:
    more = dict(
        rope_interleaved=False, pretraining_tp=2, attention_dropout=0.1, use_cache=False, initializer_range=0.1,
        is_llama_config=True, partial_rotary_factor=1.0, sliding_window=None, logit_scale=1, torch_dtype="bfloat16",
        layer_types=["full_attention"] * 2, architectures=["LlamaForCausalLM"],
    )  # fmt: skip
    assert understood(**more) == understood()


@pytest.mark.parametrize(
    ("given", "window"),
    [
        (dict(use_sliding_window=False, sliding_window=7, max_window_layers=0), None),
        (dict(use_sliding_window=True, sliding_window=7, max_window_layers=0), 7),
        (dict(use_sliding_window=True, sliding_window=7, max_window_layers=2), None),
        (dict(use_sliding_window=True, sliding_window=7), None),  # 28 layers see all, and there are two
        (dict(use_sliding_window=True, sliding_window=7, layer_types=["sliding_attention"] * 2), 7),
        (dict(use_sliding_window=True, sliding_window=None, max_window_layers=0), None),
    ],
)
def test_the_window_of_qwen2(given: dict[str, Any], window: int | None) -> None:
    assert read_windows({"model_type": "qwen2", "num_hidden_layers": 2, **given}) == [window] * 2


@pytest.mark.parametrize(
    ("given", "windows"),
    [
        (dict(max_window_layers=1), [None, 7]),
        (dict(layer_types=["full_attention", "sliding_attention"]), [None, 7]),
        (dict(layer_types=["sliding_attention", "full_attention"]), [7, None]),
    ],
)
def test_layers_that_see_differently(given: dict[str, Any], windows: list[int | None]) -> None:
    said = dict(use_sliding_window=True, sliding_window=7, **given)
    assert read_windows({"model_type": "qwen2", "num_hidden_layers": 2, **said}) == windows
    found = understood("qwen3", **said)
    assert [window_of(block.attention) for block in found.stack.blocks] == windows
    assert read(json.loads(json.dumps(write(found))), frozenset()) == found


@pytest.mark.parametrize(
    ("family", "given"),
    [
        ("qwen2", dict(use_sliding_window=False, sliding_window=7, layer_types=["sliding_attention"] * 2)),
        ("qwen3", dict(layer_types=["sliding_attention"] * 2)),
        ("qwen3", dict(use_sliding_window=True, sliding_window=7, layer_types=["sliding_attention"])),
        ("smollm3", dict(use_sliding_window=True, sliding_window=7, layer_types=["chunked_attention"] * 2)),
    ],
)
def test_layers_of_which_nobody_says_what_they_see(family: str, given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=rf"does not read a {family} with layer_types=.* and sliding_window="):
        understood(family, **given)


def test_layers_without_positions() -> None:
    def turned(**more: Any) -> list[bool]:
        blocks = understood("smollm3", num_hidden_layers=9, **more).stack.blocks
        return [block.attention.rotary is not None for block in blocks]

    assert turned() == [True, True, True, False] * 2 + [True]
    assert turned(no_rope_layer_interval=3) == [True, True, False] * 3
    assert turned(no_rope_layers=[0, 1, 1, 1, 0, 1, 1, 1, 1, 0, 0]) == [False, True, True, True] * 2 + [True]
    with pytest.raises(ValueError, match="no_rope_layers says it of 1 layers, and the model has 9"):
        turned(no_rope_layers=[1])


def test_the_multipliers_of_granite() -> None:
    config = understood("granite", attention_multiplier=0.25, residual_multiplier=0.22, logits_scaling=6)
    block = config.stack.block
    assert (block.attention.scale, block.residual_scale, config.embedding_scale, config.head_scale) == (
        0.25,
        0.22,
        1.0,
        1 / 6,
    )
    assert understood("granite").stack.block.attention.scale == 1.0
    assert understood("granite", attention_multiplier=14**-0.5).stack.block.attention.scale is None
    for scaling in (6, 49, 0.3, 8, 13.7):
        found = understood("granite", logits_scaling=scaling)
        assert read(json.loads(json.dumps(write(found))), frozenset()) == found


# Rotary positions


def test_scaling_in_all_words() -> None:
    linear = LinearScaling(factor=2.0)
    for stated in (
        dict(rope_theta=7.0, rope_scaling=dict(type="linear", factor=2.0)),
        dict(rope_theta=7.0, rope_scaling=dict(rope_type="linear", type="linear", factor=2.0)),
        dict(rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=7.0)),
        dict(rope_theta=5.0, rope_parameters=dict(rope_type="linear", factor=2.0, rope_theta=7.0)),
        dict(rope_theta=7.0, rope_scaling=dict(type="linear", factor=2.0), rope_parameters=dict(rope_type="default")),
    ):
        assert read_rotary(stated) == Rotary(base=7.0, scaling=linear)
    for stated in ({}, dict(rope_scaling=None), dict(rope_parameters=dict(rope_type="default", rope_theta=1e4))):
        assert read_rotary(stated) == Rotary()
    llama3 = Llama3Scaling(factor=8, low=1, high=4, length=31)
    assert read_rotary(dict(rope_scaling=dict(rope_type="llama3", **LLAMA3))).scaling == llama3
    unsaid = {key: value for key, value in LLAMA3.items() if not key.startswith("original")}
    stated = dict(rope_scaling=dict(rope_type="llama3", **unsaid), max_position_embeddings=59)
    assert read_rotary(stated).scaling == llama3.model_copy(update={"length": 59})
    assert read_rotary(stated | dict(original_max_position_embeddings=37)).scaling.length == 37


@pytest.mark.parametrize(
    "scaling",
    [
        LinearScaling(factor=3),
        Llama3Scaling(factor=8, low=1, high=4, length=31),
        YarnScaling(factor=4, length=31),
        YarnScaling(factor=4, length=31, fast=16, slow=2, whole=False, attention=0.9),
        DynamicScaling(factor=4, length=59),
        LongRopeScaling(short=(1.0, 1.5), long=(2.0, 9.0), length=31, factor=4.0),
        LongRopeScaling(short=(1.0, 1.5), long=(2.0, 9.0), length=31, factor=4.0, attention=1.3),
    ],
)
def test_scaling_there_and_back(scaling: Any) -> None:
    rotary = Rotary(base=3e4, scaling=scaling)
    written = write_rotary(rotary) | {"max_position_embeddings": 59}
    assert read_rotary(json.loads(json.dumps(written))) == rotary
    with pytest.raises(ValueError, match="surprise"):
        read_rotary(written | {"rope_scaling": written["rope_scaling"] | {"surprise": 1}})


@pytest.mark.parametrize(
    ("stated", "named"),
    [
        (dict(rope_type="dynamic", factor=2.0, original_max_position_embeddings=31), "=31"),
        (dict(rope_type="dynamic", factor=2.0, alpha=3.0), "rope_type='dynamic' with alpha=3.0"),
        (dict(type="longrope", short_factor=[1.0]), "needs long_factor"),
        (dict(type="longrope", short_factor=[1.0], long_factor=[2.0, 3.0]), "1 short and 2 long"),
        (dict(type="mrope", mrope_section=[2, 3, 2]), "rope_type='mrope'"),
        (dict(rope_type="linear"), "needs factor"),
        (dict(rope_type="llama3", factor=8.0, low_freq_factor=1.0), "needs high_freq_factor"),
        (dict(rope_type="yarn", factor=None), "needs factor"),
        (dict(rope_type="default", factor=2.0), "factor=2.0"),
        (dict(rope_type="linear", factor=2.0, partial_rotary_factor=0.5), "partial_rotary_factor=0.5"),
        (dict(full_attention=dict(rope_type="default")), "full_attention"),
    ],
)
def test_scalings_that_are_refused(stated: dict[str, Any], named: str) -> None:
    for key in ("rope_scaling", "rope_parameters"):
        with pytest.raises(ValueError, match=named):
            understood(**{key: stated})


# Writing


@pytest.mark.parametrize(
    "config",
    [
        small(),
        small(tied=True, head_width=8, activation="gelu_tanh", eps=3e-6),
        small(bias=True, output_bias=True, hidden_bias=True),
        small(family="mistral", window=7, scaling=LinearScaling(factor=2)),
        small(family="mistral", width=40, head_width=14),
        small(family="qwen2", bias=True, special=Special(end=(3, 5), pad=7)),
        small(family="qwen2", bias=True, window=7),
        small(scaling=DynamicScaling(factor=2, length=31), length=62),
    ],
)
def test_what_is_written_means_the_same(config: LanguageConfig) -> None:
    assert read(json.loads(json.dumps(write(config))), frozenset()) == config


def changed(config: LanguageConfig, part: str, **update: Any) -> LanguageConfig:
    block = config.stack.block
    if part == "attention":
        block = block.model_copy(update={"attention": block.attention.model_copy(update=update)})
    elif part == "block":
        block = block.model_copy(update=update)
    else:
        return config.model_copy(update=update)
    return config.model_copy(update={"stack": config.stack.model_copy(update={"block": block})})


@pytest.mark.parametrize(
    ("config", "named"),
    [
        (small(bias=True), "attention.output_bias"),
        (small(window=7), "attention.mechanism"),
        (small(family="mistral", bias=True), "attention.bias"),
        (small(family="qwen2"), "attention.bias"),
        (small(width=40, head_width=14), "do not divide its width 40"),
        (changed(small(), "attention", softcap=30.0), "attention.softcap=30.0"),
        (changed(small(), "attention", scale=1.0), "attention.scale=1.0"),
        (changed(small(), "attention", mechanism=Linear()), "attention.mechanism"),
        (changed(small(), "attention", rotary=Rotary(width=4)), "attention.rotary.width=4"),
        (changed(small(), "attention", rotary=Rotary(interleaved=True)), "rotary.interleaved=True"),
        (changed(small(), "attention", rotary=None), "attention.rotary=None"),
        (changed(small(family="mistral", window=7), "attention", mechanism=Local(window=7, dilation=2)), "dilation=2"),
        (changed(small(), "block", norm="layer"), "block.norm='layer'"),
        (changed(small(), "block", feedforward=None), "block.feedforward=None"),
        (changed(small(), "whole", positions="learned"), "positions='learned'"),
    ],
)
def test_what_the_layout_has_no_word_for_is_not_saved(config: LanguageConfig, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        check_written(FAMILY, config.family, config, write(config))


def test_dropout_does_not_stand_in_the_way() -> None:
    assert write(changed(small(), "block", dropout=0.1)) == write(small())


# The key table


@pytest.mark.parametrize("tied", [True, False])
@pytest.mark.parametrize("bias", [True, False])
def test_the_table_names_every_parameter_once(tied: bool, bias: bool) -> None:
    config = small(tied=tied, bias=bias, output_bias=bias, hidden_bias=bias)
    rows = table(config)
    ours = [row.ours for row in rows if isinstance(row, Entry)]
    assert sorted(ours) == sorted(parts_of(on_meta(config)))
    assert len({row.theirs for row in rows}) == len(rows) == 2 + 2 * (9 + 7 * bias) + 1


def rewritten(path: Path, change: Any) -> None:
    tensors = load_file(path / "model.safetensors")
    save_file(change(tensors), path / "model.safetensors", metadata={"format": "pt"})


def test_old_buffers_and_copies_of_a_tied_head_are_explained(tmp_path: Path) -> None:
    model = fresh(small(tied=True))
    headway.save(model, tmp_path / "a")
    more = {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.ones(7) for i in range(2)}
    rewritten(tmp_path / "a", lambda t: {**t, **more, "lm_head.weight": t["model.embed_tokens.weight"].clone()})
    loaded = headway.load(tmp_path / "a")
    assert sorted(loaded.receipt.unused) == sorted(more) and loaded.receipt.tied == ("lm_head.weight",)
    assert loaded.model.config == model.config
    rewritten(tmp_path / "a", lambda t: {**t, "lm_head.weight": t["lm_head.weight"] + 1})
    with pytest.raises(ValueError, match="two different tensors"):
        headway.load(tmp_path / "a")


def test_missing_and_unexplained_tensors_are_refused(tmp_path: Path) -> None:
    headway.save(fresh(small()), tmp_path / "a")
    name = "model.layers.1.self_attn.k_proj.bias"
    rewritten(tmp_path / "a", lambda t: {**t, name: torch.zeros(14)})
    with pytest.raises(ValueError, match=name):
        headway.load(tmp_path / "a")
    rewritten(tmp_path / "a", lambda t: {key: t[key] for key in t if key not in (name, "lm_head.weight")})
    with pytest.raises(ValueError, match=r"lacks 'lm_head\.weight'"):
        headway.load(tmp_path / "a")


def test_the_six_share_one_family() -> None:
    assert FAMILY.model_types == ("llama", "mistral", "qwen2", "qwen3", "granite", "smollm3")
