"""DistilBERT's layout: BERT's blocks under shorter names, no sentences, and a classifier with a rectifier."""

from collections.abc import Mapping
from typing import Any

from headway.config.text import MaskedConfig
from headway.hub.families.common import (
    activation_of,
    activation_to,
    architecture_of,
    refuse,
    special_of,
    special_to,
    unfit,
)
from headway.hub.families.encoder_heads import architecture as architecture_with
from headway.hub.families.encoder_heads import both, has, head_rows, read_heads, write_heads
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.encoders import distilbert

PREFIX = "distilbert."
OUTSIDE = [
    Entry("distilbert.embeddings.word_embeddings.weight", "tokens.weight"),
    Entry("distilbert.embeddings.position_embeddings.weight", "positions.weight"),
    *both({"distilbert.embeddings.LayerNorm": "norm"}),
]
_OURS, _THEIRS = "stack.blocks.{i}", "distilbert.transformer.layer.{i}"
LAYER = both({
    f"{_THEIRS}.attention.q_lin": f"{_OURS}.attention.query",
    f"{_THEIRS}.attention.k_lin": f"{_OURS}.attention.key",
    f"{_THEIRS}.attention.v_lin": f"{_OURS}.attention.value",
    f"{_THEIRS}.attention.out_lin": f"{_OURS}.attention.out",
    f"{_THEIRS}.sa_layer_norm": f"{_OURS}.attention_norm",
    f"{_THEIRS}.ffn.lin1": f"{_OURS}.feedforward.up",
    f"{_THEIRS}.ffn.lin2": f"{_OURS}.feedforward.down",
    f"{_THEIRS}.output_layer_norm": f"{_OURS}.feedforward_norm",
})  # fmt: skip
WORDS = [
    *both({"vocab_transform": "word_head.dense", "vocab_layer_norm": "word_head.norm"}),
    Entry("vocab_projector.bias", "word_head.bias"),
    Tied("vocab_projector.weight", "distilbert.embeddings.word_embeddings.weight"),
]
CLASSIFIER = both({"pre_classifier": "pooler", "classifier": "class_head"})
BUFFERS = (r"distilbert\.embeddings\.position_ids",)
DEFAULTS = {
    "vocab_size": 30522, "max_position_embeddings": 512, "n_layers": 6, "n_heads": 12, "dim": 768, "hidden_dim": 3072,
    "dropout": 0.1, "activation": "gelu", "pad_token_id": 0,
}  # fmt: skip
EPS = 1e-12  # of all norms: config.json has no word for it


def table(config: MaskedConfig) -> Table:
    return [
        *OUTSIDE,
        *expand(LAYER, i=range(config.stack.layers)),
        *(WORDS if config.words else []),
        *head_rows(config, CLASSIFIER),
    ]


def canonical(name: str) -> str:
    """Bare models leave the prefix out."""
    return f"{PREFIX}{name}" if name.startswith(("embeddings.", "transformer.")) else name


def exported(name: str, config: MaskedConfig) -> str:
    return name.removeprefix(PREFIX) if architecture(config) == "DistilBertModel" else name


def architecture(config: MaskedConfig) -> str:
    return architecture_with("DistilBert", config, "ForMaskedLM" if config.words else "Model")


def read(config: Mapping[str, Any], names: frozenset[str]) -> MaskedConfig:
    refuse(config, {"pruned_heads": {}, "is_decoder": False})
    c, found = DEFAULTS | dict(config), read_heads("DistilBert", config, names)
    words = has(names, "vocab_") or architecture_of(config) == "DistilBertForMaskedLM"
    if words:
        refuse(config, {"tie_word_embeddings": True})
    return distilbert(
        width=c["dim"],
        heads=c["n_heads"],
        layers=c["n_layers"],
        hidden=c["hidden_dim"],
        vocabulary=c["vocab_size"],
        length=c["max_position_embeddings"],
        activation=activation_of(c["activation"]),
        eps=EPS,
        dropout=c["dropout"],
        special=special_of(c),
        words=words,
        **found,
    )


def write(config: MaskedConfig) -> dict[str, Any]:
    block = config.stack.block
    if block.feedforward is None:
        raise unfit("distilbert", "feedforward", None)
    return {
        "model_type": "distilbert",
        "architectures": [architecture(config)],
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.length,
        "dim": block.width,
        "n_layers": config.stack.layers,
        "n_heads": block.attention.heads,
        "hidden_dim": block.feedforward.hidden,
        "activation": activation_to(block.feedforward.activation),
        "dropout": block.dropout,
        "attention_dropout": 0.0,
        **special_to(config.special),
        **write_heads(config),
    }


FAMILY = Family("distilbert", read, write, table, ("distilbert",), canonical, BUFFERS, exported)
