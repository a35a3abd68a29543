"""The layouts of Gemma 2 (arXiv:2408.00118) and of Gemma 3's text models (arXiv:2503.19786).

Llama's tensors with four norms in a block, whose weights are stored less 1. Layers with a window and layers that see
all stand in turn; in Gemma 3 the two have rotary positions of their own, and queries and keys have norms.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from headway.config import LanguageConfig, Rotary
from headway.config.layers import AttentionConfig
from headway.hub.families.common import layers_of, refuse, unfit
from headway.hub.families.llama import (
    BUFFERS,
    DROPOUT,
    HEAD,
    OUTSIDE,
    SWITCHES,
    canonical,
    layer_rows,
    read_sizes,
    windows_of,
    write_sizes,
)
from headway.hub.families.rotary import read_rotary, write_length, write_rotary
from headway.hub.family import Entry, Family, Table, expand
from headway.presets.gemma import gemma
from headway.presets.llama import window_of

_OURS, _THEIRS = "stack.blocks.{i}", "model.layers.{i}"
NORMS = [
    Entry(f"{_THEIRS}.input_layernorm.weight", f"{_OURS}.attention_norm.weight"),
    Entry(f"{_THEIRS}.post_attention_layernorm.weight", f"{_OURS}.attention_out_norm.weight"),
    Entry(f"{_THEIRS}.pre_feedforward_layernorm.weight", f"{_OURS}.feedforward_norm.weight"),
    Entry(f"{_THEIRS}.post_feedforward_layernorm.weight", f"{_OURS}.feedforward_out_norm.weight"),
]
CLASSES = {"gemma2": "Gemma2ForCausalLM", "gemma3_text": "Gemma3ForCausalLM"}
# What a config.json means where it leaves a key out.
_BOTH: dict[str, Any] = {
    "num_key_value_heads": 4, "head_dim": 256, "hidden_activation": "gelu_pytorch_tanh", "query_pre_attn_scalar": 256,
    "sliding_window": 4096, "tie_word_embeddings": True, "bos_token_id": 2, "eos_token_id": 1, "pad_token_id": 0,
}  # fmt: skip
DEFAULTS = {
    "gemma2": _BOTH | {
        "max_position_embeddings": 8192, "sliding_window_pattern": 2, "attn_logit_softcapping": 50.0,
        "final_logit_softcapping": 30.0,
    },
    "gemma3_text": _BOTH | {"max_position_embeddings": 131072, "sliding_window_pattern": 6, "rope_theta": 1e6},
}  # fmt: skip
LOCAL_BASE = 1e4
# Gemma 3's readers pass no cap of scores on.
OWN_WORDS = {
    "gemma2": ("attn_logit_softcapping", "final_logit_softcapping"), "gemma3_text": ("final_logit_softcapping",),
}  # fmt: skip


def table(config: LanguageConfig) -> Table:
    rows = [*OUTSIDE, *expand(layer_rows(config, NORMS), i=range(config.stack.layers)), HEAD[config.tied]]
    return [_centred(row) if isinstance(row, Entry) else row for row in rows]


def _centred(row: Entry) -> Entry:
    """Of a norm the weight less 1, which is our parameter too."""
    assert isinstance(row.ours, str)
    return replace(row, ours=row.ours.replace("norm.weight", "norm.offset"))


def read(config: Mapping[str, Any], names: frozenset[str]) -> LanguageConfig:
    family = config["model_type"]
    own = {"mlp_bias": False}
    refuse(config, {key: value for key, value in SWITCHES.items() if key not in OWN_WORDS[family]} | own)
    full = DEFAULTS[family] | dict(config)
    full["hidden_act"] = full["hidden_activation"]
    wide, near = _read_rotaries(full)
    scalar = full["query_pre_attn_scalar"]
    return gemma(
        family=family,
        scale=None if scalar == full["head_dim"] else scalar**-0.5,
        softcap=full.get("attn_logit_softcapping"),
        logit_softcap=full.get("final_logit_softcapping"),
        windows=_read_windows(full),
        local_rotary=near,
        **read_sizes(full, wide),
    )


def _read_windows(full: Mapping[str, Any]) -> list[int | None]:
    layers, every = layers_of(full), full["sliding_window_pattern"]
    implied = ["full_attention" if (i + 1) % every == 0 else "sliding_attention" for i in range(layers)]
    return windows_of(list(full.get("layer_types") or implied), full["sliding_window"], layers, full["model_type"])


def _read_rotaries(full: Mapping[str, Any]) -> tuple[Rotary, Rotary]:
    """Those of the layers that see all, and of the layers with a window; in Gemma 2 they are the same."""
    if full["model_type"] == "gemma2":
        return read_rotary(full), read_rotary(full)
    said = full.get("rope_parameters") or {}
    if not isinstance(said, Mapping) or not set(said) <= {"full_attention", "sliding_attention"}:
        raise ValueError(f"rope_parameters says {said!r}, and in a gemma3_text it is an object of two kinds of layers")
    plain = {key: full[key] for key in full if key not in ("rope_parameters", "rope_scaling", "rope_theta")}
    wide = {**(said.get("full_attention") or {}), **(full.get("rope_scaling") or {})}
    near = said.get("sliding_attention") or {}
    return (
        read_rotary({**plain, "rope_parameters": wide}, base=float(full["rope_theta"])),
        read_rotary({**plain, "rope_parameters": near}, base=float(full.get("rope_local_base_freq", LOCAL_BASE))),
    )


def write(config: LanguageConfig) -> dict[str, Any]:
    attention = config.stack.block.attention
    said = write_sizes(config)
    curve = said.pop("hidden_act")
    return {
        "model_type": config.family,
        "architectures": [CLASSES[config.family]],
        **said,
        "hidden_activation": "gelu_pytorch_tanh" if curve == "gelu_new" else curve,
        "attention_bias": attention.bias,
        "query_pre_attn_scalar": _write_scalar(config.family, attention),
        "attn_logit_softcapping": attention.softcap,
        "final_logit_softcapping": config.logit_softcap,
        **_write_layers(config),
    }


def _write_scalar(family: str, attention: AttentionConfig) -> int:
    """The whole number whose root divides the scores."""
    if attention.scale is None:
        return attention.head_width
    scalar = round(attention.scale**-2)
    if scalar**-0.5 != attention.scale:
        raise unfit(family, "stack.block.attention.scale", attention.scale)
    return scalar


def _write_layers(config: LanguageConfig) -> dict[str, Any]:
    """Which layers have a window, and the rotary positions of both kinds."""
    layers = [block.attention for block in config.stack.blocks]
    windows = [window_of(one) for one in layers]
    kinds = ["full_attention" if one is None else "sliding_attention" for one in windows]
    said = {"layer_types": kinds, "sliding_window": next((one for one in windows if one is not None), 4096)}
    if config.family == "gemma2":
        return said
    turned = {kind: one.rotary or Rotary() for kind, one in zip(kinds, layers, strict=True)}
    near = turned.get("sliding_attention", Rotary(base=LOCAL_BASE))
    wide = turned.get("full_attention", Rotary(base=DEFAULTS["gemma3_text"]["rope_theta"]))
    said |= {"max_position_embeddings": write_length(config.length, wide)}
    said |= {**write_rotary(wide), "rope_local_base_freq": near.base}
    if near.scaling is None:
        return said
    # The older words stretch the layers that see all alone.
    both = {"full_attention": wide, "sliding_attention": near}
    return said | {"rope_scaling": None, "rope_parameters": {kind: _nested(one) for kind, one in both.items()}}


def _nested(rotary: Rotary) -> dict[str, Any]:
    said = write_rotary(rotary)
    return {"rope_theta": rotary.base, **(said["rope_scaling"] or {"rope_type": "default"})}


FAMILY = Family("gemma", read, write, table, tuple(CLASSES), canonical, BUFFERS, omitted_options=DROPOUT)
