"""GPT-NeoX's layout (arXiv:2204.06745), which Pythia has too: query, key and value head by head in one tensor."""

from collections.abc import Mapping
from typing import Any

from headway.config import LanguageConfig
from headway.hub.families.common import activation_of, activation_to, refuse, special_of, special_to, unfit
from headway.hub.families.rotary import read_length, read_rotary, write_length, write_rotary
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.decoders import gpt_neox

_OURS, _THEIRS = "stack.blocks.{i}", "gpt_neox.layers.{i}"
OUTSIDE = [
    Entry("gpt_neox.embed_in.weight", "tokens.weight"),
    Entry("gpt_neox.final_layer_norm.weight", "stack.norm.weight"),
    Entry("gpt_neox.final_layer_norm.bias", "stack.norm.bias"),
]
HEAD = {True: Tied("embed_out.weight", "gpt_neox.embed_in.weight"), False: Entry("embed_out.weight", "head.weight")}
LAYER = [
    Entry(f"{_THEIRS}.input_layernorm.weight", f"{_OURS}.attention_norm.weight"),
    Entry(f"{_THEIRS}.input_layernorm.bias", f"{_OURS}.attention_norm.bias"),
    Entry(f"{_THEIRS}.post_attention_layernorm.weight", f"{_OURS}.feedforward_norm.weight"),
    Entry(f"{_THEIRS}.post_attention_layernorm.bias", f"{_OURS}.feedforward_norm.bias"),
    Entry(f"{_THEIRS}.mlp.dense_h_to_4h.weight", f"{_OURS}.feedforward.up.weight"),
    Entry(f"{_THEIRS}.mlp.dense_h_to_4h.bias", f"{_OURS}.feedforward.up.bias"),
    Entry(f"{_THEIRS}.mlp.dense_4h_to_h.weight", f"{_OURS}.feedforward.down.weight"),
    Entry(f"{_THEIRS}.mlp.dense_4h_to_h.bias", f"{_OURS}.feedforward.down.bias"),
]
# Masks and frequencies that old releases saved beside the weights.
BUFFERS = (r"gpt_neox\.layers\.\d+\.attention\.((masked_)?bias|rotary_emb\.inv_freq)",)


def table(config: LanguageConfig) -> Table:
    attention = config.stack.block.attention
    rows = [*LAYER, *(row for kind in ("weight", "bias")[: 1 + attention.bias] for row in _maps(kind, attention.heads))]
    return [*OUTSIDE, *expand(rows, i=range(config.stack.layers)), HEAD[config.tied]]


def _maps(kind: str, heads: int) -> list[Entry]:
    """The maps of attention: their weights, or their biases."""
    joined = tuple(f"{_OURS}.attention.{name}.{kind}" for name in ("query", "key", "value"))
    return [
        Entry(f"{_THEIRS}.attention.query_key_value.{kind}", joined, heads=heads),
        Entry(f"{_THEIRS}.attention.dense.{kind}", f"{_OURS}.attention.out.{kind}"),
    ]


def canonical(name: str) -> str:
    """Files of the bare model leave the prefix out, and some call the head as other models do."""
    name = name.replace("lm_head.", "embed_out.")
    return name if name.startswith(("gpt_neox.", "embed_out.")) else f"gpt_neox.{name}"


def read(config: Mapping[str, Any], names: frozenset[str]) -> LanguageConfig:
    refuse(config, {"quantization_config": None, "head_dim": None, "num_key_value_heads": None})
    width, heads = config["hidden_size"], config["num_attention_heads"]
    # Words of its own for the base and for the part of each head that turns.
    own = {"rope_theta": config.get("rotary_emb_base"), "partial_rotary_factor": config.get("rotary_pct", 0.25)}
    rotary = read_rotary({**config, **own}, head_width=width // heads)
    return gpt_neox(
        vocabulary=config["vocab_size"],
        width=width,
        layers=config["num_hidden_layers"],
        heads=heads,
        length=read_length({"max_position_embeddings": 2048, **config}, rotary),
        hidden=config["intermediate_size"],
        rotary=rotary,
        activation=activation_of(config.get("hidden_act", "gelu")),
        bias=config.get("attention_bias", True),
        parallel=config.get("use_parallel_residual", True),
        eps=config.get("layer_norm_eps", 1e-5),
        dropout=config.get("hidden_dropout", 0.0),
        tied=config.get("tie_word_embeddings", False),
        special=special_of({"bos_token_id": 0, "eos_token_id": 2, **config}),
    )


def write(config: LanguageConfig) -> dict[str, Any]:
    block = config.stack.block
    attention, feedforward = block.attention, block.feedforward
    if feedforward is None or attention.rotary is None:
        raise unfit("gpt_neox", "stack.block", block)
    said = write_rotary(attention.rotary, head_width=attention.head_width)
    return {
        "model_type": "gpt_neox",
        "architectures": ["GPTNeoXForCausalLM"],
        "vocab_size": config.vocabulary,
        "hidden_size": block.width,
        "intermediate_size": feedforward.hidden,
        "num_hidden_layers": config.stack.layers,
        "num_attention_heads": attention.heads,
        "hidden_act": activation_to(feedforward.activation),
        "max_position_embeddings": write_length(config.length, attention.rotary),
        "rotary_emb_base": attention.rotary.base,
        "rotary_pct": said.get("partial_rotary_factor", 1.0),
        "rope_scaling": said["rope_scaling"],
        "attention_bias": attention.bias,
        "use_parallel_residual": block.parallel,
        "layer_norm_eps": block.eps,
        "hidden_dropout": block.dropout,
        "tie_word_embeddings": config.tied,
        **special_to(config.special),
    }


FAMILY = Family("gpt_neox", read, write, table, ("gpt_neox",), canonical, BUFFERS)
