"""OLMo 2's layout (arXiv:2501.00656): Llama's tensors, norms of what each branch gives and of queries and keys.

x + norm(attention(x))        x + norm(feedforward(x))        q, k = norm(q), norm(k) over all heads as one row
"""

from collections.abc import Mapping
from typing import Any

from headway.config import LanguageConfig
from headway.config.layers import QKNorm
from headway.hub.families.common import refuse
from headway.hub.families.llama import (
    BUFFERS,
    DROPOUT,
    HEAD,
    OUTSIDE,
    SWITCHES,
    canonical,
    layer_rows,
    read_sizes,
    write_sizes,
)
from headway.hub.family import Entry, Family, Table, expand
from headway.presets.llama import llama

NORMS = [
    Entry("model.layers.{i}.post_attention_layernorm.weight", "stack.blocks.{i}.attention_out_norm.weight"),
    Entry("model.layers.{i}.post_feedforward_layernorm.weight", "stack.blocks.{i}.feedforward_out_norm.weight"),
]
# What a config.json means where it leaves a key out.
DEFAULTS: dict[str, Any] = {
    "max_position_embeddings": 2048, "rms_norm_eps": 1e-5, "eos_token_id": 50279, "pad_token_id": 1,
}  # fmt: skip
# Heads are as wide as they follow: no word changes that.
OWN_SWITCHES = {"sliding_window": None, "mlp_bias": False, "layer_types": None}


def table(config: LanguageConfig) -> Table:
    return [*OUTSIDE, *expand(layer_rows(config, NORMS), i=range(config.stack.layers)), HEAD[config.tied]]


def read(config: Mapping[str, Any], names: frozenset[str]) -> LanguageConfig:
    refuse(config, SWITCHES | OWN_SWITCHES)
    full = DEFAULTS | dict(config)
    qk_norm = QKNorm(over="all", eps=full["rms_norm_eps"])
    return llama(family="olmo2", order="res_post", qk_norm=qk_norm, **read_sizes(full))


def write(config: LanguageConfig) -> dict[str, Any]:
    said = {"model_type": "olmo2", "architectures": ["Olmo2ForCausalLM"], **write_sizes(config)}
    return {**said, "attention_bias": config.stack.block.attention.bias}


FAMILY = Family("olmo2", read, write, table, ("olmo2",), canonical, BUFFERS, omitted_options=DROPOUT)
