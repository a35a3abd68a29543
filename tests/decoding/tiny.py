"""Tiny models with random weights, one for each kind of cache and of positions."""

from functools import cache

import torch

from headway.config import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    LanguageConfig,
    Linear,
    Local,
    Relative,
    Rotary,
    Special,
    StackConfig,
)
from headway.config.text import RecurrentConfig, Seq2SeqConfig
from headway.config.weights import INT8, WEIGHTS, Scheme, WeightsConfig
from tests.fresh import fresh

V, LENGTH = 37, 41
GATED = FeedForwardConfig(hidden=19, gated=True, activation="silu", bias=False)
PLAIN = FeedForwardConfig(hidden=23)


def language(positions: str, block: BlockConfig) -> LanguageConfig:
    return LanguageConfig(
        vocabulary=V,
        length=LENGTH,
        positions=positions,
        stack=StackConfig(block=block, layers=2, final_norm=True),
        special=Special(end=(5,)),
    )


def seq2seq(bias: Relative | None = None, **options: object) -> Seq2SeqConfig:
    own = AttentionConfig(width=12, heads=3, bias=True)
    target = own.model_copy(update={"causal": True})
    encoder = StackConfig(block=BlockConfig(attention=own, feedforward=PLAIN), layers=2, final_norm=True, bias=bias)
    decoder = StackConfig(
        block=BlockConfig(attention=target, cross=own, feedforward=PLAIN), layers=2, final_norm=True, bias=bias
    )
    special = Special(end=(5,), start=3)
    return Seq2SeqConfig(vocabulary=V, encoder=encoder, decoder=decoder, special=special, **options)


def rotary(**options: object) -> AttentionConfig:
    return AttentionConfig(width=12, heads=6, kv_heads=2, head_width=4, rotary=Rotary(), causal=True, **options)


CONFIGS = {
    "gpt2": language(
        "learned", BlockConfig(attention=AttentionConfig(width=12, heads=3, bias=True, causal=True), feedforward=PLAIN)
    ),
    "llama": language("none", BlockConfig(attention=rotary(), feedforward=GATED, norm="rms")),
    "window": language("none", BlockConfig(attention=rotary(mechanism=Local(window=5)), feedforward=GATED, norm="rms")),
    "linear": language("none", BlockConfig(attention=rotary(mechanism=Linear(chunk=4)), feedforward=GATED, norm="rms")),
    "gemma": language(
        "none",
        BlockConfig(
            attention=rotary(mechanism=Local(window=5), qk_norm="head", softcap=3.0),
            feedforward=GATED,
            norm="rms_zero_centered",
            order="sandwich",
        ),
    )
    .replace(
        "stack",
        layers=3,
        alternates=(
            BlockConfig(
                attention=rotary(qk_norm="head", softcap=3.0),
                feedforward=GATED,
                norm="rms_zero_centered",
                order="sandwich",
            ),
        ),
    )
    .replace(embedding_scale=12**0.5, logit_softcap=5.0),
    "neox": language(
        "none",
        BlockConfig(attention=rotary(qk_norm="all").replace(rotary=Rotary(width=2)), feedforward=PLAIN, parallel=True),
    ).replace(special=Special(end=(5, 7, 9))),
    "opt": language(
        "learned",
        BlockConfig(attention=AttentionConfig(width=12, heads=3, bias=True, causal=True), feedforward=PLAIN),
    ).replace(offset=2),
    "projected": language(
        "learned",
        BlockConfig(
            attention=AttentionConfig(width=12, heads=3, bias=True, causal=True),
            feedforward=PLAIN,
            order="post",
            residual_scale=0.7,
        ),
    ).replace(offset=2, embedding_width=7, head_scale=0.5),
    "t5": seq2seq(Relative(buckets=6, max_distance=13)),
    "bart": seq2seq(positions="learned", length=LENGTH, offset=2),
    "recurrent": RecurrentConfig(
        source_vocabulary=V, vocabulary=V, width=7, hidden=11, special=Special(end=(5,), start=3)
    ),
}
# Groups that divide the width of 12; the feed-forward's 19 inputs are no whole groups, and have 8 bits.
GROUPS = Scheme(bits=4, group=4, minimum=True, scale="float16")
CONFIGS |= {
    "int8": CONFIGS["gpt2"].replace(weights=WEIGHTS["int8"]),
    "int4": CONFIGS["llama"].replace(weights=WeightsConfig(scheme=GROUPS, head=INT8)),
    "t5 int8": CONFIGS["t5"].replace(weights=WEIGHTS["int8"]),
}


@cache
def model(name: str, dtype: torch.dtype = torch.float64) -> torch.nn.Module:
    """Weights so large that tokens differ, and so that a token's logits depend on all that came before."""
    return fresh(CONFIGS[name], seed=7, dtype=dtype, std=0.4)
