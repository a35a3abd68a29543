"""RoBERTa's layout, which XLM-RoBERTa and CamemBERT share: BERT's layers after another prefix, and heads of its own.

Position p has row p + pad + 1 of the table. The classifier holds the pooler: tanh of a linear map of the first vector.
"""

from collections.abc import Mapping
from typing import Any

from headway.config.text import MaskedConfig
from headway.hub.families.bert import DEFAULTS, LAYER, OUTSIDE, POOLER, SWITCHES, read_sizes, under, write_sizes
from headway.hub.families.common import architecture_of, refuse, types_of
from headway.hub.families.encoder_heads import architecture as architecture_with
from headway.hub.families.encoder_heads import both, has, head_rows, read_heads, write_heads
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.encoders import roberta

PREFIX = "roberta."
STEMS = {"roberta": "Roberta", "xlm-roberta": "XLMRoberta", "camembert": "Camembert"}
WORDS = [
    *both({"lm_head.dense": "word_head.dense", "lm_head.layer_norm": "word_head.norm"}),
    Entry("lm_head.bias", "word_head.bias"),
    Tied("lm_head.decoder.weight", "roberta.embeddings.word_embeddings.weight"),
    Tied("lm_head.decoder.bias", "lm_head.bias"),
]
CLASSIFIER = both({"classifier.dense": "pooler", "classifier.out_proj": "class_head"})
# Numbers from 0 on, and the pooler of the pre-training that a classifier does not read.
IGNORED = (r"roberta\.embeddings\.(position|token_type)_ids", r"roberta\.pooler\.dense\.(weight|bias)")
OWN_DEFAULTS = {**DEFAULTS, "vocab_size": 50265, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}


def table(config: MaskedConfig) -> Table:
    return [
        *under(PREFIX, OUTSIDE),
        *expand(under(PREFIX, LAYER), i=range(config.stack.layers)),
        *(under(PREFIX, POOLER) if config.pooler and not config.classes else []),
        *(WORDS if config.words else []),
        *head_rows(config, CLASSIFIER),
    ]


def canonical(name: str) -> str:
    """Bare models leave the prefix out."""
    return f"{PREFIX}{name}" if name.startswith(("embeddings.", "encoder.", "pooler.")) else name


def exported(name: str, config: MaskedConfig) -> str:
    return name.removeprefix(PREFIX) if architecture(config).endswith("Model") else name


def architecture(config: MaskedConfig) -> str:
    return architecture_with(STEMS[config.family], config, "ForMaskedLM" if config.words else "Model")


def read(config: Mapping[str, Any], names: frozenset[str]) -> MaskedConfig:
    family = config["model_type"]
    refuse(config, SWITCHES)
    c, found = OWN_DEFAULTS | dict(config), read_heads(STEMS[family], config, names)
    words = has(names, "lm_head.") or architecture_of(config) == f"{STEMS[family]}ForMaskedLM"
    if words:
        refuse(config, {"tie_word_embeddings": True})
    made = roberta(
        family=family,
        types=types_of(c),
        pooler="classes" in found or has(names, "roberta.pooler."),
        words=words,
        **read_sizes(c),
        **found,
    )
    return made.replace(length=c["max_position_embeddings"] - made.offset)


def write(config: MaskedConfig) -> dict[str, Any]:
    return {
        "model_type": config.family,
        "architectures": [architecture(config)],
        "max_position_embeddings": config.length + config.offset,
        "type_vocab_size": config.types,
        **write_sizes(config.family, config),
        **write_heads(config),
    }


FAMILY = Family("roberta", read, write, table, tuple(STEMS), canonical, IGNORED, exported)
