"""Phi-3's layout (arXiv:2404.14219): Llama's, with query, key and value in one tensor, and gate and up in one.

Some of its models turn a part of each head's channels, and most stretch their positions by LongRoPE.
"""

from collections.abc import Mapping
from typing import Any

from headway.config import LanguageConfig
from headway.config.layers import LongRopeScaling
from headway.hub.families.common import refuse
from headway.hub.families.llama import (
    BUFFERS,
    DROPOUT,
    HEAD,
    NORMS,
    OUTSIDE,
    SWITCHES,
    canonical,
    read_sizes,
    write_sizes,
)
from headway.hub.families.rotary import read_rotary, write_rotary
from headway.hub.family import Entry, Family, Table, expand
from headway.presets.llama import llama, window_of

_OURS, _THEIRS = "stack.blocks.{i}", "model.layers.{i}"
_JOINED = tuple(f"{_OURS}.attention.{name}.weight" for name in ("query", "key", "value"))
LAYER = [
    *NORMS,
    Entry(f"{_THEIRS}.self_attn.qkv_proj.weight", _JOINED),
    Entry(f"{_THEIRS}.self_attn.o_proj.weight", f"{_OURS}.attention.out.weight"),
    Entry(f"{_THEIRS}.mlp.gate_up_proj.weight", (f"{_OURS}.feedforward.gate.weight", f"{_OURS}.feedforward.up.weight")),
    Entry(f"{_THEIRS}.mlp.down_proj.weight", f"{_OURS}.feedforward.down.weight"),
]
# What a config.json means where it leaves a key out.
_LENGTH = "original_max_position_embeddings"
DEFAULTS: dict[str, Any] = {
    "max_position_embeddings": 4096, _LENGTH: 4096, "rms_norm_eps": 1e-5, "bos_token_id": 1, "eos_token_id": 32000,
    "pad_token_id": 32000,
}  # fmt: skip
OWN_SWITCHES = {"attention_bias": False, "mlp_bias": False}


def table(config: LanguageConfig) -> Table:
    return [*OUTSIDE, *expand(LAYER, i=range(config.stack.layers)), HEAD[config.tied]]


def read(config: Mapping[str, Any], names: frozenset[str]) -> LanguageConfig:
    refuse(config, SWITCHES | OWN_SWITCHES)
    full = DEFAULTS | dict(config)
    head = full.get("head_dim") or full["hidden_size"] // full["num_attention_heads"]
    rotary = read_rotary(_renamed(full), head_width=head)
    if rotary.scaling is not None and not isinstance(rotary.scaling, LongRopeScaling):
        raise ValueError(f"a phi3 stretches its positions by longrope, not by rope_type={rotary.scaling.kind!r}")
    return llama(family="phi3", window=full.get("sliding_window"), **read_sizes(full, rotary))


def _renamed(full: Mapping[str, Any]) -> dict[str, Any]:
    """LongRoPE under the name that it has; the first releases called it yarn in these models alone."""
    said = full.get("rope_scaling")
    if not isinstance(said, Mapping) or said.get("rope_type", said.get("type")) != "yarn":
        return dict(full)
    return {**full, "rope_scaling": {**said, "rope_type": "longrope"}}


def write(config: LanguageConfig) -> dict[str, Any]:
    attention = config.stack.block.attention
    rotary, head = attention.rotary, attention.head_width
    said = {"model_type": "phi3", "architectures": ["Phi3ForCausalLM"], **write_sizes(config)}
    if rotary is not None:
        said |= write_rotary(rotary, head_width=head)
        if isinstance(rotary.scaling, LongRopeScaling):
            said[_LENGTH] = rotary.scaling.length  # readers take it from here
    return {**said, "sliding_window": window_of(attention)}


FAMILY = Family("phi3", read, write, table, ("phi3",), canonical, BUFFERS, omitted_options=DROPOUT)
