"""T5's layout: one embedding, a relative bias that the first layer of each stack holds, no biases anywhere else.

Version 1.0 has a plain feed-forward, and its tied head takes h / √width; 1.1 (Flan, mT5) a gated one and its own head.
What mT5's config.json says of the tie is not followed by anybody: a head that the file has is the head.
"""

from collections.abc import Mapping
from typing import Any

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Relative, StackConfig
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

_BIAS = "block.0.layer.0.SelfAttention.relative_attention_bias.weight"
OUTSIDE = [
    Entry("shared.weight", "tokens.weight"),
    Tied("encoder.embed_tokens.weight", "shared.weight"),
    Tied("decoder.embed_tokens.weight", "shared.weight"),
    Entry(f"encoder.{_BIAS}", "source_bias.weight"),
    Entry(f"decoder.{_BIAS}", "target_bias.weight"),
    Entry("encoder.final_layer_norm.weight", "encoder.norm.weight"),
    Entry("decoder.final_layer_norm.weight", "decoder.norm.weight"),
]
HEAD = {True: Tied("lm_head.weight", "shared.weight"), False: Entry("lm_head.weight", "head.weight")}
# Within a block: their name -> ours. The decoder's second layer attends to the source.
OWN = {
    "layer.0.SelfAttention.q": "attention.query",
    "layer.0.SelfAttention.k": "attention.key",
    "layer.0.SelfAttention.v": "attention.value",
    "layer.0.SelfAttention.o": "attention.out",
    "layer.0.layer_norm": "attention_norm",
}
CROSS = {
    "layer.1.EncDecAttention.q": "cross.query",
    "layer.1.EncDecAttention.k": "cross.key",
    "layer.1.EncDecAttention.v": "cross.value",
    "layer.1.EncDecAttention.o": "cross.out",
    "layer.1.layer_norm": "cross_norm",
}
PLAIN = {"DenseReluDense.wi": "feedforward.up"}
GATED = {"DenseReluDense.wi_0": "feedforward.gate", "DenseReluDense.wi_1": "feedforward.up"}
REST = {"DenseReluDense.wo": "feedforward.down", "layer_norm": "feedforward_norm"}
# A bias of the first cross-attention that old files hold and nothing reads.
UNREAD = (r"decoder\.block\.0\.layer\.1\.EncDecAttention\.relative_attention_bias\.weight",)

DEFAULTS = {
    "vocab_size": 32128, "d_model": 512, "d_kv": 64, "d_ff": 2048, "num_layers": 6, "num_heads": 8,
    "relative_attention_num_buckets": 32, "relative_attention_max_distance": 128, "dropout_rate": 0.1,
    "layer_norm_epsilon": 1e-6, "feed_forward_proj": "relu", "pad_token_id": 0, "eos_token_id": 1,
}  # fmt: skip
MT5 = {"vocab_size": 250112, "d_ff": 1024, "num_layers": 8, "num_heads": 6, "feed_forward_proj": "gated-gelu"}
ARCHITECTURES = {"t5": "T5ForConditionalGeneration", "mt5": "MT5ForConditionalGeneration"}


def table(config: Seq2SeqConfig) -> Table:
    feedforward = config.decoder.block.feedforward
    assert feedforward is not None
    third = (GATED if feedforward.gated else PLAIN) | REST
    encoder = OWN | {f"layer.1.{theirs}": ours for theirs, ours in third.items()}
    decoder = OWN | CROSS | {f"layer.2.{theirs}": ours for theirs, ours in third.items()}
    return [
        *OUTSIDE,
        *expand(_layer("encoder", encoder), i=range(config.encoder.layers)),
        *expand(_layer("decoder", decoder), i=range(config.decoder.layers)),
        HEAD[config.tied],
    ]


def _layer(stack: str, names: Mapping[str, str]) -> Table:
    return [
        Entry(f"{stack}.block.{{i}}.{theirs}.weight", f"{stack}.blocks.{{i}}.{ours}.weight")
        for theirs, ours in names.items()
    ]


def read(config: Mapping[str, Any], names: frozenset[str]) -> Seq2SeqConfig:
    family = config["model_type"]
    c = {**DEFAULTS, **(MT5 if family == "mt5" else {}), **config}
    refuse(c, {"is_encoder_decoder": True, "is_decoder": False})
    block = _block(c)
    tied, scaled = _head(c, family, stored="lm_head.weight" in names)
    special = special_of(c)
    bias = Relative(buckets=c["relative_attention_num_buckets"], max_distance=c["relative_attention_max_distance"])
    return Seq2SeqConfig(
        family=family,
        vocabulary=c["vocab_size"],
        encoder=StackConfig(block=block, layers=c["num_layers"], final_norm=True, bias=bias),
        decoder=StackConfig(block=decoding(block), layers=_decoder_layers(c), final_norm=True, bias=bias),
        tied=tied,
        head_scale=c["d_model"] ** -0.5 if scaled else 1.0,
        special=special.replace(start=special.pad if special.start is None else special.start),
        forced=forced_of(c),
    )


def _head(config: Mapping[str, Any], family: str, *, stored: bool) -> tuple[bool, bool]:
    """Whether the head is the embedding, and whether its input is scaled."""
    if family == "mt5":
        return not stored, False
    own = config.get("tie_word_embeddings") is False
    # Newer files say whether the head's input is scaled; in older ones that follows from the tie.
    scaled = config.get("scale_decoder_outputs", not own)
    return not own and (scaled or not stored), scaled


def _decoder_layers(config: Mapping[str, Any]) -> int:
    found = config.get("num_decoder_layers")
    return config["num_layers"] if found is None else found


def _block(config: Mapping[str, Any]) -> BlockConfig:
    return BlockConfig(
        attention=AttentionConfig(
            width=config["d_model"], heads=config["num_heads"], head_width=config["d_kv"], scale=1.0
        ),
        feedforward=_feedforward(config),
        norm="rms",
        eps=config["layer_norm_epsilon"],
        dropout=config["dropout_rate"],
    )


def _feedforward(config: Mapping[str, Any]) -> FeedForwardConfig:
    said = config["feed_forward_proj"]
    gated, name = said.startswith("gated-"), said.removeprefix("gated-")
    name = "gelu_new" if said == "gated-gelu" else name
    if (config.get("dense_act_fn", name), config.get("is_gated_act", gated)) != (name, gated):
        raise ValueError(
            f"feed_forward_proj={said!r} means dense_act_fn={name!r} and is_gated_act={gated}, and config.json says "
            f"{config.get('dense_act_fn')!r} and {config.get('is_gated_act')}"
        )
    return FeedForwardConfig(hidden=config["d_ff"], activation=activation_of(name), gated=gated, bias=False)


def write(config: Seq2SeqConfig) -> dict[str, Any]:
    block, bias = config.encoder.block, config.encoder.bias
    if block.feedforward is None or not isinstance(bias, Relative):
        raise unfit(config.family, "encoder.bias", bias)
    name = activation_to(block.feedforward.activation)
    name = "gelu" if block.feedforward.gated and name == "gelu_new" else name
    return {
        "model_type": config.family,
        "architectures": [ARCHITECTURES[config.family]],
        "vocab_size": config.vocabulary,
        "d_model": block.width,
        "d_kv": block.attention.head_width,
        "d_ff": block.feedforward.hidden,
        "num_layers": config.encoder.layers,
        "num_decoder_layers": config.decoder.layers,
        "num_heads": block.attention.heads,
        "relative_attention_num_buckets": bias.buckets,
        "relative_attention_max_distance": bias.max_distance,
        "dropout_rate": block.dropout,
        "layer_norm_epsilon": block.eps,
        "feed_forward_proj": f"gated-{name}" if block.feedforward.gated else name,
        "is_encoder_decoder": True,
        "tie_word_embeddings": config.tied,
        **({"scale_decoder_outputs": config.head_scale != 1.0} if config.family == "t5" else {}),
        **special_to(config.special),
        **forced_to(config.forced),
    }


FAMILY = Family("t5", read, write, table, tuple(ARCHITECTURES), ignored=UNREAD)
