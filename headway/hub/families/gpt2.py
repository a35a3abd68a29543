"""GPT-2's layout: maps stored as inputs x outputs, query, key and value in one tensor, a tied head."""

from collections.abc import Mapping
from typing import Any

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, LanguageConfig, StackConfig
from headway.config.text import ClassifierConfig
from headway.hub.families.common import activation_of, activation_to, refuse, special_of, special_to, unfit
from headway.hub.families.decoder_classifier import head_rows, with_classes, write_classifier
from headway.hub.family import Entry, Family, Table, Tied, expand

OUTSIDE = [
    Entry("transformer.wte.weight", "tokens.weight"),
    Entry("transformer.wpe.weight", "positions.weight"),
    Entry("transformer.ln_f.weight", "stack.norm.weight"),
    Entry("transformer.ln_f.bias", "stack.norm.bias"),
]
HEAD = {True: Tied("lm_head.weight", "transformer.wte.weight"), False: Entry("lm_head.weight", "head.weight")}
_OURS, _THEIRS = "stack.blocks.{i}", "transformer.h.{i}"
_ATTENTION = tuple(f"{_OURS}.attention.{name}" for name in ("query", "key", "value"))
LAYER = [
    Entry(f"{_THEIRS}.ln_1.weight", f"{_OURS}.attention_norm.weight"),
    Entry(f"{_THEIRS}.ln_1.bias", f"{_OURS}.attention_norm.bias"),
    Entry(f"{_THEIRS}.attn.c_attn.weight", tuple(f"{name}.weight" for name in _ATTENTION), turned=True),
    Entry(f"{_THEIRS}.attn.c_attn.bias", tuple(f"{name}.bias" for name in _ATTENTION)),
    Entry(f"{_THEIRS}.attn.c_proj.weight", f"{_OURS}.attention.out.weight", turned=True),
    Entry(f"{_THEIRS}.attn.c_proj.bias", f"{_OURS}.attention.out.bias"),
    Entry(f"{_THEIRS}.ln_2.weight", f"{_OURS}.feedforward_norm.weight"),
    Entry(f"{_THEIRS}.ln_2.bias", f"{_OURS}.feedforward_norm.bias"),
    Entry(f"{_THEIRS}.mlp.c_fc.weight", f"{_OURS}.feedforward.up.weight", turned=True),
    Entry(f"{_THEIRS}.mlp.c_fc.bias", f"{_OURS}.feedforward.up.bias"),
    Entry(f"{_THEIRS}.mlp.c_proj.weight", f"{_OURS}.feedforward.down.weight", turned=True),
    Entry(f"{_THEIRS}.mlp.c_proj.bias", f"{_OURS}.feedforward.down.bias"),
]
# Masks that old releases saved beside the weights.
BUFFERS = (r"transformer\.h\.\d+\.attn\.(masked_)?bias",)


def table(config: LanguageConfig | ClassifierConfig) -> Table:
    return [*OUTSIDE, *expand(LAYER, i=range(config.stack.layers)), *head_rows(config, HEAD)]


def canonical(name: str) -> str:
    """Files of the bare model leave the prefix out."""
    return name if name.startswith(("transformer.", "lm_head.", "score.")) else f"transformer.{name}"


def read(config: Mapping[str, Any], names: frozenset[str]) -> LanguageConfig | ClassifierConfig:
    return with_classes(_read_language(config), config, names)


def _read_language(config: Mapping[str, Any]) -> LanguageConfig:
    refuse(config, {
        "add_cross_attention": False,
        "scale_attn_by_inverse_layer_idx": False,
        "scale_attn_weights": True,
    })  # fmt: skip
    width = config["n_embd"]
    attention = AttentionConfig(width=width, heads=config["n_head"], causal=True, bias=True, output_bias=True)
    block = BlockConfig(
        attention=attention,
        feedforward=FeedForwardConfig(
            hidden=config.get("n_inner") or 4 * width,
            activation=activation_of(config.get("activation_function", "gelu_new")),
        ),
        eps=config.get("layer_norm_epsilon", 1e-5),
        dropout=config.get("resid_pdrop", 0.1),
    )
    return LanguageConfig(
        family="gpt2",
        vocabulary=config["vocab_size"],
        length=config["n_positions"],
        stack=StackConfig(block=block, layers=config["n_layer"], final_norm=True, scaled_init=True),
        positions="learned",
        tied=config.get("tie_word_embeddings", True),
        special=special_of(config),
    )


def write(config: LanguageConfig | ClassifierConfig) -> dict[str, Any]:
    if isinstance(config, ClassifierConfig):
        return write_classifier(config, write(config.language))
    block = config.stack.block
    if block.feedforward is None:
        raise unfit("gpt2", "stack.block.feedforward", None)
    return {
        "model_type": "gpt2",
        "architectures": ["GPT2LMHeadModel"],
        "vocab_size": config.vocabulary,
        "n_positions": config.length,
        "n_embd": block.width,
        "n_layer": config.stack.layers,
        "n_head": block.attention.heads,
        "n_inner": block.feedforward.hidden,
        "activation_function": activation_to(block.feedforward.activation),
        "layer_norm_epsilon": block.eps,
        "resid_pdrop": block.dropout,
        "embd_pdrop": block.dropout,
        "attn_pdrop": 0.0,
        "tie_word_embeddings": config.tied,
        **special_to(config.special),
    }


FAMILY = Family("gpt2", read, write, table, ("gpt2",), canonical, BUFFERS)
