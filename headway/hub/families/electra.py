"""ELECTRA's layout: BERT's layers after another prefix, embeddings that may be narrower, and heads of its own.

The discriminator's head says which tokens were replaced, the generator's predicts hidden words.
"""

from collections.abc import Mapping
from typing import Any

from headway.config.text import MaskedConfig
from headway.hub.families.bert import DEFAULTS, LAYER, OUTSIDE, SWITCHES, read_sizes, under, write_sizes
from headway.hub.families.common import architecture_of, refuse, types_of
from headway.hub.families.encoder_heads import architecture as architecture_with
from headway.hub.families.encoder_heads import both, has, head_rows, read_heads, write_heads
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.encoders import electra

PREFIX = "electra."
PROJECT = both({"electra.embeddings_project": "project"})
WORDS = [
    *both({"generator_predictions.dense": "word_head.dense", "generator_predictions.LayerNorm": "word_head.norm"}),
    Entry("generator_lm_head.bias", "word_head.bias"),
    Tied("generator_lm_head.weight", "electra.embeddings.word_embeddings.weight"),
]
REPLACED = both({
    "discriminator_predictions.dense": "replaced_head.dense",
    "discriminator_predictions.dense_prediction": "replaced_head.out",
})  # fmt: skip
CLASSIFIER = both({"classifier.dense": "pooler", "classifier.out_proj": "class_head"})
BUFFERS = (r"electra\.embeddings\.(position|token_type)_ids",)
OWN_DEFAULTS = {
    **DEFAULTS, "hidden_size": 256, "embedding_size": 128, "num_attention_heads": 4, "intermediate_size": 1024,
}  # fmt: skip


def table(config: MaskedConfig) -> Table:
    return [
        *under(PREFIX, OUTSIDE),
        *(PROJECT if config.own_embedding_width is not None else []),
        *expand(under(PREFIX, LAYER), i=range(config.stack.layers)),
        *(WORDS if config.words else []),
        *(REPLACED if config.replaced else []),
        *head_rows(config, CLASSIFIER),
    ]


def canonical(name: str) -> str:
    """Bare models leave the prefix out."""
    return f"{PREFIX}{name}" if name.startswith(("embeddings.", "embeddings_project.", "encoder.")) else name


def exported(name: str, config: MaskedConfig) -> str:
    return name.removeprefix(PREFIX) if architecture(config) == "ElectraModel" else name


def architecture(config: MaskedConfig) -> str:
    otherwise = "ForMaskedLM" if config.words else "ForPreTraining" if config.replaced else "Model"
    return architecture_with("Electra", config, otherwise)


def read(config: Mapping[str, Any], names: frozenset[str]) -> MaskedConfig:
    refuse(config, SWITCHES)
    c, found, promised = OWN_DEFAULTS | dict(config), read_heads("Electra", config, names), architecture_of(config)
    words = has(names, "generator_") or promised == "ElectraForMaskedLM"
    if words:
        refuse(config, {"tie_word_embeddings": True})
    return electra(
        embedding_width=c["embedding_size"],
        length=c["max_position_embeddings"],
        types=types_of(c),
        words=words,
        replaced=has(names, "discriminator_predictions.") or promised == "ElectraForPreTraining",
        **read_sizes(c),
        **found,
    )


def write(config: MaskedConfig) -> dict[str, Any]:
    return {
        "model_type": "electra",
        "architectures": [architecture(config)],
        "embedding_size": config.embedding_width,
        "max_position_embeddings": config.length,
        "type_vocab_size": config.types,
        **write_sizes("electra", config),
        **write_heads(config),
    }


FAMILY = Family("electra", read, write, table, ("electra",), canonical, BUFFERS, exported)
