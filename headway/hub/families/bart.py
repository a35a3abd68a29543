"""The layout of BART and its relatives: blocks with biases everywhere, one prefix.

BART and mBART learn their positions, two rows before the first, and norm their embeddings; Marian, Pegasus and M2M-100
have sinusoids, sines first, that need not be stored. BART and Marian have their norms after each sum, the others before
each branch and after each stack. Marian may have an embedding for each language.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, StackConfig
from headway.config.text import Seq2SeqConfig
from headway.hub.families.common import (
    activation_of,
    activation_to,
    decoding,
    forced_of,
    forced_to,
    refuse,
    special_of,
    special_to,
    unfit,
)
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.models.seq2seq import HalvedPositions

ONE = [
    Entry("model.shared.weight", "tokens.weight"),
    Tied("model.encoder.embed_tokens.weight", "model.shared.weight"),
    Tied("model.decoder.embed_tokens.weight", "model.shared.weight"),
]
TWO = [
    Entry("model.encoder.embed_tokens.weight", "tokens.weight"),
    Entry("model.decoder.embed_tokens.weight", "target_tokens.weight"),
]
POSITIONS = [
    Entry("model.encoder.embed_positions.weight", "source_entrance.positions.weight"),
    Entry("model.decoder.embed_positions.weight", "target_entrance.positions.weight"),
]
NORMS = {
    "model.encoder.layernorm_embedding": "source_entrance.norm",
    "model.decoder.layernorm_embedding": "target_entrance.norm",
}
FINAL = {"model.encoder.layer_norm": "encoder.norm", "model.decoder.layer_norm": "decoder.norm"}
BIAS = [Entry("final_logits_bias", "head_bias")]
# Within a layer: their name -> ours, each with weight and bias.
LAYER = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.out_proj": "attention.out",
    "self_attn_layer_norm": "attention_norm",
    "fc1": "feedforward.up",
    "fc2": "feedforward.down",
    "final_layer_norm": "feedforward_norm",
}
CROSS = {
    "encoder_attn.q_proj": "cross.query",
    "encoder_attn.k_proj": "cross.key",
    "encoder_attn.v_proj": "cross.value",
    "encoder_attn.out_proj": "cross.out",
    "encoder_attn_layer_norm": "cross_norm",
}
# Numbers of old releases, and sinusoids, which are made anew.
NO_WEIGHTS = (r"model\.(encoder|decoder)\.version", r"model\.(encoder|decoder)\.embed_positions\.weights?")

DEFAULTS = {
    "max_position_embeddings": 1024, "d_model": 1024, "encoder_layers": 12, "decoder_layers": 12,
    "encoder_ffn_dim": 4096, "decoder_ffn_dim": 4096, "encoder_attention_heads": 16, "decoder_attention_heads": 16,
    "activation_function": "gelu", "dropout": 0.1, "scale_embedding": False, "share_encoder_decoder_embeddings": True,
    "tie_word_embeddings": True,
}  # fmt: skip


@dataclass(frozen=True)
class BartKind:
    """What one of them has; `defaults` are of its config.json, where they differ from BART's."""

    architecture: str
    positions: Literal["learned", "halves", "timing"]
    pre: bool  # norms before each branch and after each stack, or after each sum
    embedding_norm: bool
    defaults: Mapping[str, Any] = field(default_factory=dict)

    @property
    def settings(self) -> dict[str, Any]:
        """Switches of older files, at the only settings that the model is computed with."""
        return {
            "normalize_before": self.pre,
            "add_final_layer_norm": self.pre,
            "normalize_embedding": self.embedding_norm,
            "static_position_embeddings": self.positions != "learned",
            "is_encoder_decoder": True,
            "is_decoder": False,
        }


_BART_TOKENS = {"pad_token_id": 1, "bos_token_id": 0, "eos_token_id": 2}
KINDS = {
    "bart": BartKind(
        "BartForConditionalGeneration", "learned", pre=False, embedding_norm=True,
        defaults={**_BART_TOKENS, "decoder_start_token_id": 2, "forced_eos_token_id": 2},
    ),
    "marian": BartKind(
        "MarianMTModel", "halves", pre=False, embedding_norm=False,
        defaults={"pad_token_id": 58100, "eos_token_id": 0, "decoder_start_token_id": 58100, "forced_eos_token_id": 0},
    ),
    "mbart": BartKind(
        "MBartForConditionalGeneration", "learned", pre=True, embedding_norm=True,
        defaults={**_BART_TOKENS, "forced_eos_token_id": 2},
    ),
    "pegasus": BartKind(
        "PegasusForConditionalGeneration", "halves", pre=True, embedding_norm=False,
        defaults={"pad_token_id": 0, "eos_token_id": 1, "decoder_start_token_id": 0, "forced_eos_token_id": 1},
    ),
    "m2m_100": BartKind(
        "M2M100ForConditionalGeneration", "timing", pre=True, embedding_norm=False,
        defaults={
            **_BART_TOKENS, "decoder_start_token_id": 2, "scale_embedding": True, "activation_function": "relu",
            "vocab_size": 128112,
        },
    ),
}  # fmt: skip


def table(config: Seq2SeqConfig) -> Table:
    ours = "target_tokens.weight" if config.target_vocabulary else "tokens.weight"
    embeddings = TWO if config.target_vocabulary else ONE
    embedding = next(row.theirs for row in embeddings if isinstance(row, Entry) and row.ours == ours)
    return [
        *embeddings,
        *(POSITIONS if config.positions == "learned" else []),
        *(_both(NORMS) if config.embedding_norm else []),
        *(_both(FINAL) if config.encoder.final_norm else []),
        *expand(_layer("encoder", LAYER), i=range(config.encoder.layers)),
        *expand(_layer("decoder", LAYER | CROSS), i=range(config.decoder.layers)),
        Tied("lm_head.weight", embedding) if config.tied else Entry("lm_head.weight", "head.weight"),
        *(BIAS if config.head_bias else []),
    ]


def _both(names: Mapping[str, str]) -> Table:
    parts = ("weight", "bias")
    return [Entry(f"{theirs}.{part}", f"{ours}.{part}") for theirs, ours in names.items() for part in parts]


def _layer(stack: str, names: Mapping[str, str]) -> Table:
    return _both(
        {f"model.{stack}.layers.{{i}}.{theirs}": f"{stack}.blocks.{{i}}.{ours}" for theirs, ours in names.items()}
    )


def canonical(name: str) -> str:
    """Files of the bare model leave the prefix out."""
    return name if name.startswith(("model.", "lm_head.", "final_logits_bias")) else f"model.{name}"


def read(config: Mapping[str, Any], names: frozenset[str]) -> Seq2SeqConfig:
    family = config["model_type"]
    kind = KINDS[family]
    c = {**DEFAULTS, **kind.defaults, **config}
    refuse(c, kind.settings)
    one = family != "marian" or c["share_encoder_decoder_embeddings"]
    if one and not c["tie_word_embeddings"]:
        raise ValueError(
            f"headway does not read a {family} with one embedding for both languages and tie_word_embeddings=False"
        )
    return Seq2SeqConfig(
        family=family,
        vocabulary=c["vocab_size"],
        target_vocabulary=None if one else c.get("decoder_vocab_size") or c["vocab_size"],
        length=c["max_position_embeddings"],
        encoder=StackConfig(block=_block(c, "encoder", kind), layers=c["encoder_layers"], final_norm=kind.pre),
        decoder=StackConfig(
            block=decoding(_block(c, "decoder", kind)), layers=c["decoder_layers"], final_norm=kind.pre
        ),
        positions=kind.positions,
        offset=_offset(c, kind),
        embedding_scale=c["d_model"] ** 0.5 if c["scale_embedding"] else 1.0,
        embedding_norm=kind.embedding_norm,
        tied=c["tie_word_embeddings"],
        head_bias="final_logits_bias" in names,
        special=special_of(c),
        forced=forced_of(c),
    )


def _offset(config: Mapping[str, Any], kind: BartKind) -> int:
    """Before position 0 stand two learned rows; M2M-100 counts from the number of its padding token, plus one."""
    if kind.positions == "timing":
        if config["pad_token_id"] is None:
            raise ValueError("positions count from the number of the padding token, and pad_token_id is null")
        return config["pad_token_id"] + 1
    return 2 if kind.positions == "learned" else 0


def _block(config: Mapping[str, Any], stack: str, kind: BartKind) -> BlockConfig:
    heads, hidden = config[f"{stack}_attention_heads"], config[f"{stack}_ffn_dim"]
    return BlockConfig(
        attention=AttentionConfig(width=config["d_model"], heads=heads, bias=True, output_bias=True),
        feedforward=FeedForwardConfig(hidden=hidden, activation=activation_of(config["activation_function"])),
        order="pre" if kind.pre else "post",
        dropout=config["dropout"],
    )


def write(config: Seq2SeqConfig) -> dict[str, Any]:
    encoder, decoder = config.encoder.block, config.decoder.block
    if encoder.feedforward is None or decoder.feedforward is None:
        raise unfit(config.family, "feedforward", None)
    marian = {
        "decoder_vocab_size": config.outputs,
        "share_encoder_decoder_embeddings": config.target_vocabulary is None,
    }
    return {
        "model_type": config.family,
        "architectures": [KINDS[config.family].architecture],
        "vocab_size": config.vocabulary,
        **(marian if config.family == "marian" else {}),
        "max_position_embeddings": config.length,
        "d_model": encoder.width,
        "encoder_layers": config.encoder.layers,
        "encoder_ffn_dim": encoder.feedforward.hidden,
        "encoder_attention_heads": encoder.attention.heads,
        "decoder_layers": config.decoder.layers,
        "decoder_ffn_dim": decoder.feedforward.hidden,
        "decoder_attention_heads": decoder.attention.heads,
        "activation_function": activation_to(encoder.feedforward.activation),
        "dropout": encoder.dropout,
        "scale_embedding": config.embedding_scale != 1.0,
        "is_encoder_decoder": True,
        "tie_word_embeddings": config.tied,
        **special_to(config.special),
        **forced_to(config.forced),
    }


def remade(name: str, config: Seq2SeqConfig) -> Tensor | None:
    """The sinusoids that a file of Marian's or Pegasus' may hold, and that others read there."""
    if config.positions != "halves" or config.length is None or not name.endswith("embed_positions.weight"):
        return None
    return _sinusoids(config.length, config.encoder.block.width)


def _sinusoids(length: int, width: int) -> Tensor:
    return HalvedPositions(width)(torch.zeros(1, length, width), torch.arange(length))[0]


def written(config: Seq2SeqConfig) -> dict[str, Tensor]:
    """Pegasus' files hold its sinusoids."""
    if config.family != "pegasus" or config.length is None:
        return {}
    return {row.theirs: _sinusoids(config.length, config.encoder.block.width) for row in POSITIONS}


FAMILY = Family("bart", read, write, table, tuple(KINDS), canonical, NO_WEIGHTS, remade=remade, written=written)
