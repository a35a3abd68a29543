"""ALBERT's layout: the tensors of one layer, which every layer shares, narrow embeddings, and BERT's kinds of heads.

The head beside the masked words says whether two sentences stand in their order (0) or were exchanged (1).
"""

from collections.abc import Mapping
from typing import Any

from headway.config.text import MaskedConfig
from headway.hub.families.bert import DEFAULTS, OUTSIDE, SWITCHES, read_sizes, under, write_sizes
from headway.hub.families.common import architecture_of, refuse, types_of, unfit
from headway.hub.families.encoder_heads import architecture as architecture_with
from headway.hub.families.encoder_heads import both, has, head_rows, read_heads, write_heads
from headway.hub.family import Entry, Family, Table, Tied
from headway.presets.encoders import albert

PREFIX = "albert."
_OURS, _THEIRS = "stack.blocks.0", "albert.encoder.albert_layer_groups.0.albert_layers.0"
LAYER = both({
    "albert.encoder.embedding_hidden_mapping_in": "project",
    f"{_THEIRS}.attention.query": f"{_OURS}.attention.query",
    f"{_THEIRS}.attention.key": f"{_OURS}.attention.key",
    f"{_THEIRS}.attention.value": f"{_OURS}.attention.value",
    f"{_THEIRS}.attention.dense": f"{_OURS}.attention.out",
    f"{_THEIRS}.attention.LayerNorm": f"{_OURS}.attention_norm",
    f"{_THEIRS}.ffn": f"{_OURS}.feedforward.up",
    f"{_THEIRS}.ffn_output": f"{_OURS}.feedforward.down",
    f"{_THEIRS}.full_layer_layer_norm": f"{_OURS}.feedforward_norm",
})  # fmt: skip
POOLER = both({"albert.pooler": "pooler"})
WORDS = [
    *both({"predictions.dense": "word_head.dense", "predictions.LayerNorm": "word_head.norm"}),
    Entry("predictions.bias", "word_head.bias"),
    Tied("predictions.decoder.weight", "albert.embeddings.word_embeddings.weight"),
    Tied("predictions.decoder.bias", "predictions.bias"),
]
ADJACENT = both({"sop_classifier.classifier": "adjacent_head"})
CLASSIFIER = both({"classifier": "class_head"})
BUFFERS = (r"albert\.embeddings\.(position|token_type)_ids",)
OWN_DEFAULTS = {
    **DEFAULTS, "vocab_size": 30000, "embedding_size": 128, "hidden_size": 4096, "num_attention_heads": 64,
    "intermediate_size": 16384, "hidden_act": "gelu_new", "hidden_dropout_prob": 0.0, "bos_token_id": 2,
    "eos_token_id": 3,
}  # fmt: skip
# Groups with tensors of their own, and layers of several blocks: no published model has them.
OWN_SWITCHES = {**SWITCHES, "num_hidden_groups": 1, "inner_group_num": 1}


def table(config: MaskedConfig) -> Table:
    rows = [*under(PREFIX, OUTSIDE), *LAYER]
    for wanted, part in ((config.pooler, POOLER), (config.words, WORDS), (config.adjacent, ADJACENT)):
        rows += part if wanted else []
    return rows + head_rows(config, CLASSIFIER)


def canonical(name: str) -> str:
    """Bare models leave the prefix out."""
    return f"{PREFIX}{name}" if name.startswith(("embeddings.", "encoder.", "pooler.")) else name


def exported(name: str, config: MaskedConfig) -> str:
    return name.removeprefix(PREFIX) if architecture(config) == "AlbertModel" else name


def architecture(config: MaskedConfig) -> str:
    otherwise = "ForPreTraining" if config.adjacent else "ForMaskedLM" if config.words else "Model"
    return architecture_with("Albert", config, otherwise)


def read(config: Mapping[str, Any], names: frozenset[str]) -> MaskedConfig:
    refuse(config, OWN_SWITCHES)
    c, found, promised = OWN_DEFAULTS | dict(config), read_heads("Albert", config, names), architecture_of(config)
    if c["embedding_size"] in (None, c["hidden_size"]):
        raise ValueError(
            f"headway does not read an ALBERT with embedding_size={c['embedding_size']}, the width of its layers: the "
            "map between them is for embeddings of another width"
        )
    words = has(names, "predictions.") or promised in ("AlbertForMaskedLM", "AlbertForPreTraining")
    adjacent = has(names, "sop_classifier.") or promised == "AlbertForPreTraining"
    if words:
        refuse(config, {"tie_word_embeddings": True})
    return albert(
        embedding_width=c["embedding_size"],
        length=c["max_position_embeddings"],
        types=types_of(c),
        pooler="classes" in found or adjacent or has(names, "albert.pooler."),
        words=words,
        adjacent=adjacent,
        **read_sizes(c),
        **found,
    )


def write(config: MaskedConfig) -> dict[str, Any]:
    if not config.stack.shared or config.own_embedding_width is None:
        raise unfit("albert", *(
            ("stack.shared", False) if not config.stack.shared else ("embedding_width", config.embedding_width)
        ))  # fmt: skip
    return {
        "model_type": "albert",
        "architectures": [architecture(config)],
        "embedding_size": config.embedding_width,
        "max_position_embeddings": config.length,
        "type_vocab_size": config.types,
        "num_hidden_groups": 1,
        "inner_group_num": 1,
        **write_sizes("albert", config),
        **write_heads(config),
    }


FAMILY = Family("albert", read, write, table, ("albert",), canonical, BUFFERS, exported)
