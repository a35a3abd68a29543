"""OPT's layout (arXiv:2205.01068): BART's decoder alone. One size has narrow embeddings and norms after sums."""

from collections.abc import Mapping
from typing import Any

from headway.config import LanguageConfig
from headway.hub.families.common import activation_of, activation_to, refuse, special_of, special_to, unfit
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.decoders import opt

_OURS, _THEIRS = "stack.blocks.{i}", "model.decoder.layers.{i}"
OUTSIDE = [
    Entry("model.decoder.embed_tokens.weight", "tokens.weight"),
    Entry("model.decoder.embed_positions.weight", "positions.weight"),
]
FINAL_NORM = [
    Entry("model.decoder.final_layer_norm.weight", "stack.norm.weight"),
    Entry("model.decoder.final_layer_norm.bias", "stack.norm.bias"),
]
PROJECTIONS = [
    Entry("model.decoder.project_in.weight", "project_in.weight"),
    Entry("model.decoder.project_out.weight", "project_out.weight"),
]
HEAD = {
    True: Tied("lm_head.weight", "model.decoder.embed_tokens.weight"),
    False: Entry("lm_head.weight", "head.weight"),
}
NORMS = [
    Entry(f"{_THEIRS}.self_attn_layer_norm.weight", f"{_OURS}.attention_norm.weight"),
    Entry(f"{_THEIRS}.self_attn_layer_norm.bias", f"{_OURS}.attention_norm.bias"),
    Entry(f"{_THEIRS}.final_layer_norm.weight", f"{_OURS}.feedforward_norm.weight"),
    Entry(f"{_THEIRS}.final_layer_norm.bias", f"{_OURS}.feedforward_norm.bias"),
]
# Their map -> ours; each has a weight and, unless enable_bias is false, a bias.
MAPS = {
    "self_attn.q_proj": "attention.query", "self_attn.k_proj": "attention.key", "self_attn.v_proj": "attention.value",
    "self_attn.out_proj": "attention.out", "fc1": "feedforward.up", "fc2": "feedforward.down",
}  # fmt: skip


def table(config: LanguageConfig) -> Table:
    block = config.stack.block
    kinds = ("weight", "bias") if block.attention.bias else ("weight",)
    maps = [Entry(f"{_THEIRS}.{map}.{kind}", f"{_OURS}.{MAPS[map]}.{kind}") for map in MAPS for kind in kinds]
    return [
        *OUTSIDE,
        *(PROJECTIONS if config.embedding_width != block.width else []),
        *expand([*maps, *NORMS], i=range(config.stack.layers)),
        *(FINAL_NORM if config.stack.final_norm else []),
        HEAD[config.tied],
    ]


def canonical(name: str) -> str:
    """Files of the bare model leave the prefix out."""
    return f"model.{name}" if name.startswith("decoder.") else name


def read(config: Mapping[str, Any], names: frozenset[str]) -> LanguageConfig:
    refuse(config, {"layer_norm_elementwise_affine": True, "quantization_config": None})
    return opt(
        vocabulary=config["vocab_size"],
        width=config["hidden_size"],
        layers=config["num_hidden_layers"],
        heads=config["num_attention_heads"],
        length=config.get("max_position_embeddings", 2048),
        hidden=config["ffn_dim"],
        embedding_width=config.get("word_embed_proj_dim"),
        activation=activation_of(config.get("activation_function", "relu")),
        bias=config.get("enable_bias", True),
        pre_norm=config.get("do_layer_norm_before", True),
        final_norm=not config.get("_remove_final_layer_norm", False),
        dropout=config.get("dropout", 0.1),
        tied=config.get("tie_word_embeddings", True),
        special=special_of({"bos_token_id": 2, "eos_token_id": 2, "pad_token_id": 1, **config}),
    )


def write(config: LanguageConfig) -> dict[str, Any]:
    block = config.stack.block
    if block.feedforward is None:
        raise unfit("opt", "stack.block.feedforward", None)
    return {
        "model_type": "opt",
        "architectures": ["OPTForCausalLM"],
        "vocab_size": config.vocabulary,
        "hidden_size": block.width,
        "word_embed_proj_dim": config.embedding_width,
        "ffn_dim": block.feedforward.hidden,
        "num_hidden_layers": config.stack.layers,
        "num_attention_heads": block.attention.heads,
        "max_position_embeddings": config.length,
        "activation_function": activation_to(block.feedforward.activation),
        "enable_bias": block.attention.bias,
        "do_layer_norm_before": block.order == "pre",
        "_remove_final_layer_norm": block.order == "pre" and not config.stack.final_norm,
        "dropout": block.dropout,
        "tie_word_embeddings": config.tied,
        **special_to(config.special),
    }


FAMILY = Family("opt", read, write, table, ("opt",), canonical)
