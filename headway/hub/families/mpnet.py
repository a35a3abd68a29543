"""MPNet's layout: RoBERTa's positions and heads, names of its own, and one bias over differences for all layers."""

from collections.abc import Mapping
from typing import Any

from headway.config.text import MaskedConfig
from headway.hub.families.bert import DEFAULTS, read_sizes, write_sizes
from headway.hub.families.common import architecture_of, refuse
from headway.hub.families.encoder_heads import architecture as architecture_with
from headway.hub.families.encoder_heads import both, has, head_rows, read_heads, write_heads
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.encoders import BUCKETS, mpnet

PREFIX = "mpnet."
OUTSIDE = [
    Entry("mpnet.embeddings.word_embeddings.weight", "tokens.weight"),
    Entry("mpnet.embeddings.position_embeddings.weight", "positions.weight"),
    *both({"mpnet.embeddings.LayerNorm": "norm"}),
    Entry("mpnet.encoder.relative_attention_bias.weight", "stack.bias.weight"),
]
_OURS, _THEIRS = "stack.blocks.{i}", "mpnet.encoder.layer.{i}"
LAYER = both({
    f"{_THEIRS}.attention.attn.q": f"{_OURS}.attention.query",
    f"{_THEIRS}.attention.attn.k": f"{_OURS}.attention.key",
    f"{_THEIRS}.attention.attn.v": f"{_OURS}.attention.value",
    f"{_THEIRS}.attention.attn.o": f"{_OURS}.attention.out",
    f"{_THEIRS}.attention.LayerNorm": f"{_OURS}.attention_norm",
    f"{_THEIRS}.intermediate.dense": f"{_OURS}.feedforward.up",
    f"{_THEIRS}.output.dense": f"{_OURS}.feedforward.down",
    f"{_THEIRS}.output.LayerNorm": f"{_OURS}.feedforward_norm",
})  # fmt: skip
POOLER = both({"mpnet.pooler.dense": "pooler"})
WORDS = [
    *both({"lm_head.dense": "word_head.dense", "lm_head.layer_norm": "word_head.norm"}),
    Entry("lm_head.bias", "word_head.bias"),
    Tied("lm_head.decoder.weight", "mpnet.embeddings.word_embeddings.weight"),
    Tied("lm_head.decoder.bias", "lm_head.bias"),
]
CLASSIFIER = both({"classifier.dense": "pooler", "classifier.out_proj": "class_head"})
# Numbers from 0 on, and the pooler of the pre-training that a classifier does not read.
IGNORED = (r"mpnet\.embeddings\.position_ids", r"mpnet\.pooler\.dense\.(weight|bias)")
OWN_DEFAULTS = {**DEFAULTS, "vocab_size": 30527, "pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
# Of padding and buckets transformers' MPNet has the numbers in its code, whatever config.json says.
FIXED = {"pad_token_id": 1, "relative_attention_num_buckets": BUCKETS, "pruned_heads": {}}


def table(config: MaskedConfig) -> Table:
    return [
        *OUTSIDE,
        *expand(LAYER, i=range(config.stack.layers)),
        *(POOLER if config.pooler and not config.classes else []),
        *(WORDS if config.words else []),
        *head_rows(config, CLASSIFIER),
    ]


def canonical(name: str) -> str:
    """Bare models leave the prefix out."""
    return f"{PREFIX}{name}" if name.startswith(("embeddings.", "encoder.", "pooler.")) else name


def exported(name: str, config: MaskedConfig) -> str:
    return name.removeprefix(PREFIX) if architecture(config) == "MPNetModel" else name


def architecture(config: MaskedConfig) -> str:
    return architecture_with("MPNet", config, "ForMaskedLM" if config.words else "Model")


def read(config: Mapping[str, Any], names: frozenset[str]) -> MaskedConfig:
    refuse(config, FIXED)
    c, found = OWN_DEFAULTS | dict(config), read_heads("MPNet", config, names)
    words = has(names, "lm_head.") or architecture_of(config) == "MPNetForMaskedLM"
    if words:
        refuse(config, {"tie_word_embeddings": True})
    made = mpnet(pooler="classes" in found or has(names, "mpnet.pooler."), words=words, **read_sizes(c), **found)
    return made.replace(length=c["max_position_embeddings"] - made.offset)


def write(config: MaskedConfig) -> dict[str, Any]:
    return {
        "model_type": "mpnet",
        "architectures": [architecture(config)],
        "max_position_embeddings": config.length + config.offset,
        "relative_attention_num_buckets": BUCKETS,
        **write_sizes("mpnet", config),
        **write_heads(config),
    }


FAMILY = Family("mpnet", read, write, table, ("mpnet",), canonical, IGNORED, exported)
