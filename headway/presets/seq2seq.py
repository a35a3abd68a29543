"""Encoder-decoders: T5 (Raffel et al. 2019, arXiv:1910.10683) in both versions, Flan-T5 (Chung et al. 2022,
arXiv:2210.11416) in the sizes of version 1.1, BART (Lewis et al. 2019, arXiv:1910.13461), and Marian in the size of the
OPUS-MT models (Tiedemann & Thottingal 2020).
"""

from collections.abc import Callable
from functools import partial

from headway.config import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    RecurrentConfig,
    Relative,
    Special,
    StackConfig,
)
from headway.config.text import Forced, Seq2SeqConfig


def t5(*, width: int, hidden: int, layers: int, heads: int, head_width: int = 64, gated: bool = False) -> Seq2SeqConfig:
    """Pre-norm with RMSNorm, no biases, no scale, a relative bias; gated: version 1.1, with a head of its own.

    >>> t5(width=512, hidden=2048, layers=6, heads=8).decoder.block.cross.scale
    1.0
    """
    own = AttentionConfig(width=width, heads=heads, head_width=head_width, scale=1.0)
    activation = "gelu_tanh" if gated else "relu"
    block = BlockConfig(
        attention=own,
        feedforward=FeedForwardConfig(hidden=hidden, activation=activation, gated=gated, bias=False),
        norm="rms",
        eps=1e-6,
        dropout=0.1,
    )
    return Seq2SeqConfig(
        family="t5",
        vocabulary=32128,
        encoder=StackConfig(block=block, layers=layers, final_norm=True, bias=Relative()),
        decoder=StackConfig(block=_decoding(block), layers=layers, final_norm=True, bias=Relative()),
        tied=not gated,
        head_scale=1.0 if gated else width**-0.5,
        special=Special(end=(1,), pad=0, start=0),
    )


def bart(*, width: int, layers: int, heads: int) -> Seq2SeqConfig:
    """Post-norm, biases everywhere, learned positions that begin at row 2 of their table, a norm of the embeddings."""
    block = _post_norm(width, heads, 4 * width, "gelu")
    return Seq2SeqConfig(
        family="bart",
        vocabulary=50265,
        length=1024,
        encoder=StackConfig(block=block, layers=layers),
        decoder=StackConfig(block=_decoding(block), layers=layers),
        positions="learned",
        offset=2,
        embedding_norm=True,
        special=Special(begin=0, end=(2,), pad=1, start=2),
        forced=Forced(last=2),
    )


def marian(*, width: int, layers: int, heads: int, vocabulary: int = 58101) -> Seq2SeqConfig:
    """Post-norm, biases everywhere, scaled embeddings with sinusoids; the last token of the vocabulary is padding."""
    block, pad = _post_norm(width, heads, 4 * width, "silu"), vocabulary - 1
    return Seq2SeqConfig(
        family="marian",
        vocabulary=vocabulary,
        length=512,
        encoder=StackConfig(block=block, layers=layers),
        decoder=StackConfig(block=_decoding(block), layers=layers),
        positions="halves",
        embedding_scale=width**0.5,
        head_bias=True,
        special=Special(end=(0,), pad=pad, start=pad),
        forced=Forced(last=0, never=(pad,)),
    )


def _post_norm(width: int, heads: int, hidden: int, activation: str) -> BlockConfig:
    return BlockConfig(
        attention=AttentionConfig(width=width, heads=heads, bias=True, output_bias=True),
        feedforward=FeedForwardConfig(hidden=hidden, activation=activation),
        order="post",
        dropout=0.1,
    )


def _decoding(block: BlockConfig) -> BlockConfig:
    """The decoder's block beside the encoder's: causal, and with cross-attention of the same size."""
    own = block.attention
    return block.replace(attention=own.replace(causal=True), cross=own)


def rnnsearch() -> RecurrentConfig:
    """Bahdanau's encoder-decoder in the size of its paper (arXiv:1409.0473, appendix A): RNNsearch.

    30,000 words on each side, embeddings of 620, hidden states of 1,000.
    """
    return RecurrentConfig(source_vocabulary=30000, vocabulary=30000, width=620, hidden=1000)


# Version 1.1 changed the sizes too; Flan-T5 is the same model, trained further.
_VERSION_1_1 = {
    "small": partial(t5, width=512, hidden=1024, layers=8, heads=6, gated=True),
    "base": partial(t5, width=768, hidden=2048, layers=12, heads=12, gated=True),
    "large": partial(t5, width=1024, hidden=2816, layers=24, heads=16, gated=True),
    "xl": partial(t5, width=2048, hidden=5120, layers=24, heads=32, gated=True),
    "xxl": partial(t5, width=4096, hidden=10240, layers=24, heads=64, gated=True),
}

PRESETS: dict[str, Callable[[], Seq2SeqConfig | RecurrentConfig]] = {
    "t5-small": partial(t5, width=512, hidden=2048, layers=6, heads=8),
    "t5-base": partial(t5, width=768, hidden=3072, layers=12, heads=12),
    "t5-large": partial(t5, width=1024, hidden=4096, layers=24, heads=16),
    "t5-3b": partial(t5, width=1024, hidden=16384, layers=24, heads=32, head_width=128),
    "t5-11b": partial(t5, width=1024, hidden=65536, layers=24, heads=128, head_width=128),
    **{f"t5-v1.1-{size}": make for size, make in _VERSION_1_1.items()},
    **{f"flan-t5-{size}": make for size, make in _VERSION_1_1.items()},
    "bart-base": partial(bart, width=768, layers=6, heads=12),
    "bart-large": partial(bart, width=1024, layers=12, heads=16),
    "marian-base": partial(marian, width=512, layers=6, heads=8),
    "rnnsearch": rnnsearch,
}
