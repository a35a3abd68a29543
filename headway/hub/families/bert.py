"""BERT's layout: the tensors in the file say which heads there are; bare models leave the prefix `bert.` out."""

from collections.abc import Iterable, Mapping
from typing import Any

from headway.config.text import MaskedConfig
from headway.hub.families.common import (
    activation_of,
    activation_to,
    architecture_of,
    refuse,
    special_of,
    special_to,
    types_of,
    unfit,
)
from headway.hub.families.encoder_heads import architecture as architecture_with
from headway.hub.families.encoder_heads import both, has, head_rows, read_heads, write_heads
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.bert import bert

OUTSIDE = [
    Entry("bert.embeddings.word_embeddings.weight", "tokens.weight"),
    Entry("bert.embeddings.position_embeddings.weight", "positions.weight"),
    Entry("bert.embeddings.token_type_embeddings.weight", "types.weight"),
    Entry("bert.embeddings.LayerNorm.weight", "norm.weight"),
    Entry("bert.embeddings.LayerNorm.bias", "norm.bias"),
]
_OURS, _THEIRS = "stack.blocks.{i}", "bert.encoder.layer.{i}"
LAYER = [
    Entry(f"{_THEIRS}.attention.self.query.weight", f"{_OURS}.attention.query.weight"),
    Entry(f"{_THEIRS}.attention.self.query.bias", f"{_OURS}.attention.query.bias"),
    Entry(f"{_THEIRS}.attention.self.key.weight", f"{_OURS}.attention.key.weight"),
    Entry(f"{_THEIRS}.attention.self.key.bias", f"{_OURS}.attention.key.bias"),
    Entry(f"{_THEIRS}.attention.self.value.weight", f"{_OURS}.attention.value.weight"),
    Entry(f"{_THEIRS}.attention.self.value.bias", f"{_OURS}.attention.value.bias"),
    Entry(f"{_THEIRS}.attention.output.dense.weight", f"{_OURS}.attention.out.weight"),
    Entry(f"{_THEIRS}.attention.output.dense.bias", f"{_OURS}.attention.out.bias"),
    Entry(f"{_THEIRS}.attention.output.LayerNorm.weight", f"{_OURS}.attention_norm.weight"),
    Entry(f"{_THEIRS}.attention.output.LayerNorm.bias", f"{_OURS}.attention_norm.bias"),
    Entry(f"{_THEIRS}.intermediate.dense.weight", f"{_OURS}.feedforward.up.weight"),
    Entry(f"{_THEIRS}.intermediate.dense.bias", f"{_OURS}.feedforward.up.bias"),
    Entry(f"{_THEIRS}.output.dense.weight", f"{_OURS}.feedforward.down.weight"),
    Entry(f"{_THEIRS}.output.dense.bias", f"{_OURS}.feedforward.down.bias"),
    Entry(f"{_THEIRS}.output.LayerNorm.weight", f"{_OURS}.feedforward_norm.weight"),
    Entry(f"{_THEIRS}.output.LayerNorm.bias", f"{_OURS}.feedforward_norm.bias"),
]
POOLER = [
    Entry("bert.pooler.dense.weight", "pooler.weight"),
    Entry("bert.pooler.dense.bias", "pooler.bias"),
]
WORDS = [
    Entry("cls.predictions.transform.dense.weight", "word_head.dense.weight"),
    Entry("cls.predictions.transform.dense.bias", "word_head.dense.bias"),
    Entry("cls.predictions.transform.LayerNorm.weight", "word_head.norm.weight"),
    Entry("cls.predictions.transform.LayerNorm.bias", "word_head.norm.bias"),
    Entry("cls.predictions.bias", "word_head.bias"),
    Tied("cls.predictions.decoder.weight", "bert.embeddings.word_embeddings.weight"),
    Tied("cls.predictions.decoder.bias", "cls.predictions.bias"),
]
ADJACENT = [
    Entry("cls.seq_relationship.weight", "adjacent_head.weight"),
    Entry("cls.seq_relationship.bias", "adjacent_head.bias"),
]
CLASSIFIER = both({"classifier": "class_head"})
# Numbers from 0 on that old releases saved beside the weights.
BUFFERS = (r"bert\.embeddings\.(position|token_type)_ids",)
LEGACY = {"gamma": "weight", "beta": "bias"}
DEFAULTS = {
    "hidden_size": 768, "num_attention_heads": 12, "num_hidden_layers": 12, "intermediate_size": 3072,
    "vocab_size": 30522, "max_position_embeddings": 512, "type_vocab_size": 2, "hidden_act": "gelu",
    "layer_norm_eps": 1e-12, "hidden_dropout_prob": 0.1, "pad_token_id": 0,
}  # fmt: skip
SWITCHES = {
    "position_embedding_type": "absolute", "is_decoder": False, "add_cross_attention": False, "pruned_heads": {},
}  # fmt: skip


def table(config: MaskedConfig) -> Table:
    rows = [*OUTSIDE, *expand(LAYER, i=range(config.stack.layers))]
    for wanted, part in ((config.pooler, POOLER), (config.words, WORDS), (config.adjacent, ADJACENT)):
        rows += part if wanted else []
    return rows + head_rows(config, CLASSIFIER)


def under(prefix: str, rows: Iterable[Entry | Tied]) -> Table:
    """The same rows where a relative has BERT's names after another prefix."""
    return [
        Entry(prefix + row.theirs.removeprefix("bert."), row.ours)
        if isinstance(row, Entry)
        else Tied(*(prefix + name.removeprefix("bert.") for name in (row.theirs, row.same_as)))
        for row in rows
    ]


def canonical(name: str) -> str:
    """Bare models leave the prefix out, and the first releases called a norm's numbers gamma and beta.

    >>> canonical("embeddings.LayerNorm.gamma")
    'bert.embeddings.LayerNorm.weight'
    """
    stem, _, last = name.rpartition(".")
    name = f"{stem}.{LEGACY.get(last, last)}" if stem.endswith("LayerNorm") else name
    return f"bert.{name}" if name.startswith(("embeddings.", "encoder.", "pooler.")) else name


def exported(name: str, config: MaskedConfig) -> str:
    return name.removeprefix("bert.") if architecture(config) == "BertModel" else name


def architecture(config: MaskedConfig) -> str:
    """The class of transformers with these heads; where it has none with all of them, the one that reads most."""
    if config.words:
        return architecture_with("Bert", config, "ForPreTraining" if config.adjacent else "ForMaskedLM")
    return architecture_with("Bert", config, "ForNextSentencePrediction" if config.adjacent else "Model")


def read(config: Mapping[str, Any], names: frozenset[str]) -> MaskedConfig:
    refuse(config, SWITCHES)
    c, heads = DEFAULTS | dict(config), _heads(config, names)
    if heads["words"]:
        refuse(config, {"tie_word_embeddings": True})
    return bert(**read_sizes(c), length=c["max_position_embeddings"], types=types_of(c), **heads)


def read_sizes(config: Mapping[str, Any]) -> dict[str, Any]:
    """What BERT and its relatives say in the same words, as options of `presets.bert`."""
    return dict(
        width=config["hidden_size"],
        heads=config["num_attention_heads"],
        layers=config["num_hidden_layers"],
        hidden=config["intermediate_size"],
        vocabulary=config["vocab_size"],
        activation=activation_of(config["hidden_act"]),
        eps=config["layer_norm_eps"],
        dropout=config["hidden_dropout_prob"],
        special=special_of(config),
    )


def _heads(config: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Every head of which the file holds a part or the config promises one; what is then missing, loading names."""
    promised, found = architecture_of(config), read_heads("Bert", config, names)
    adjacent = has(names, "cls.seq_relationship.")
    adjacent = adjacent or promised in ("BertForNextSentencePrediction", "BertForPreTraining")
    words = has(names, "cls.predictions.")
    return {
        "pooler": "classes" in found or adjacent or has(names, "bert.pooler."),
        "words": words or promised in ("BertForMaskedLM", "BertForPreTraining"),
        "adjacent": adjacent,
        **found,
    }


def write(config: MaskedConfig) -> dict[str, Any]:
    return {
        "model_type": "bert",
        "architectures": [architecture(config)],
        "max_position_embeddings": config.length,
        "type_vocab_size": config.types,
        **write_sizes("bert", config),
        **write_heads(config),
    }


def write_sizes(family: str, config: MaskedConfig) -> dict[str, Any]:
    """What BERT and its relatives say in the same words."""
    block = config.stack.block
    if block.feedforward is None:
        raise unfit(family, "feedforward", None)
    return {
        "vocab_size": config.vocabulary,
        "hidden_size": block.width,
        "num_hidden_layers": config.stack.layers,
        "num_attention_heads": block.attention.heads,
        "intermediate_size": block.feedforward.hidden,
        "hidden_act": activation_to(block.feedforward.activation),
        "layer_norm_eps": config.eps,
        "hidden_dropout_prob": block.dropout,
        "attention_probs_dropout_prob": 0.0,
        **special_to(config.special),
    }


FAMILY = Family("bert", read, write, table, ("bert",), canonical, BUFFERS, exported)
