"""Llama and the models of its shape: rotary positions, grouped heads, RMSNorm, a gated feed-forward.

Llama 2: arXiv:2307.09288. Llama 3: arXiv:2407.21783. Mistral: arXiv:2310.06825. Qwen2: arXiv:2407.10671.
SmolLM2: arXiv:2502.02737. TinyLlama: arXiv:2401.02385. Sizes are those of the released base models.
"""

from collections.abc import Callable
from functools import partial

from headway.config import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    LanguageConfig,
    Rotary,
    Special,
    StackConfig,
    read_spec,
)
from headway.config.layers import Llama3Scaling, Scaling

_SENTENCE = Special(begin=1, end=(2,))  # <s> and </s> of sentencepiece


def llama(
    *,
    vocabulary: int,
    width: int,
    hidden: int,
    layers: int,
    heads: int,
    length: int,
    kv_heads: int | None = None,
    head_width: int | None = None,
    base: float = 10000.0,
    scaling: Scaling | None = None,
    window: int | None = None,
    bias: bool = False,
    output_bias: bool = False,
    hidden_bias: bool = False,
    activation: str = "silu",
    eps: float = 1e-5,
    tied: bool = False,
    family: str = "llama",
    special: Special = _SENTENCE,
) -> LanguageConfig:
    """A Llama of any size; with a window each token sees itself and the window - 1 before it (Mistral).

    >>> llama(vocabulary=101, width=12, hidden=17, layers=2, heads=3, length=64).stack.block.attention.head_width
    4
    """
    attention = AttentionConfig(
        width=width, heads=heads, kv_heads=kv_heads or heads, head_width=head_width or width // heads, causal=True,
        bias=bias, output_bias=output_bias, rotary=Rotary(base=base, scaling=scaling),
        mechanism=read_spec("softmax") if window is None else read_spec("local", window=window),
    )  # fmt: skip
    feedforward = FeedForwardConfig(hidden=hidden, activation=activation, gated=True, bias=hidden_bias)
    block = BlockConfig(attention=attention, feedforward=feedforward, norm="rms", eps=eps)
    return LanguageConfig(
        family=family,
        vocabulary=vocabulary,
        length=length,
        stack=StackConfig(block=block, layers=layers, final_norm=True),
        tied=tied,
        special=special,
    )


_TWO = partial(llama, vocabulary=32000, length=4096)
_THREE = partial(llama, vocabulary=128256, kv_heads=8, base=5e5, special=Special(begin=128000, end=(128001,)))
_LONG = Llama3Scaling(factor=32, low=1, high=4, length=8192)
_THREE_SMALL = partial(_THREE, hidden=8192, length=131072, scaling=_LONG, tied=True)
_QWEN = partial(
    llama, family="qwen2", vocabulary=151936, length=131072, base=1e6, bias=True, eps=1e-6,
    special=Special(begin=151643, end=(151643,)),
)  # fmt: skip
_SMOL = partial(llama, vocabulary=49152, length=8192, tied=True, special=Special(begin=0, end=(0,)))

PRESETS: dict[str, Callable[[], LanguageConfig]] = {
    "llama2-7b": partial(_TWO, width=4096, hidden=11008, layers=32, heads=32),
    "llama2-13b": partial(_TWO, width=5120, hidden=13824, layers=40, heads=40),
    "llama2-70b": partial(_TWO, width=8192, hidden=28672, layers=80, heads=64, kv_heads=8),
    "llama3-8b": partial(_THREE, width=4096, hidden=14336, layers=32, heads=32, length=8192),
    "llama3-70b": partial(_THREE, width=8192, hidden=28672, layers=80, heads=64, length=8192),
    "llama3.2-1b": partial(_THREE_SMALL, width=2048, layers=16, heads=32),
    "llama3.2-3b": partial(_THREE_SMALL, width=3072, layers=28, heads=24),
    "mistral-7b": partial(
        llama, family="mistral", vocabulary=32000, width=4096, hidden=14336, layers=32, heads=32, kv_heads=8,
        length=32768, window=4096,
    ),
    "qwen2-0.5b": partial(_QWEN, width=896, hidden=4864, layers=24, heads=14, kv_heads=2, tied=True),
    "qwen2-1.5b": partial(_QWEN, width=1536, hidden=8960, layers=28, heads=12, kv_heads=2, tied=True),
    "qwen2-7b": partial(_QWEN, width=3584, hidden=18944, layers=28, heads=28, kv_heads=4, vocabulary=152064),
    "smollm2-135m": partial(_SMOL, width=576, hidden=1536, layers=30, heads=9, kv_heads=3, base=1e5),
    "smollm2-360m": partial(_SMOL, width=960, hidden=2560, layers=32, heads=15, kv_heads=5, base=1e5),
    "smollm2-1.7b": partial(_SMOL, width=2048, hidden=8192, layers=24, heads=32, base=1.3e5),
    "tinyllama": partial(_TWO, width=2048, hidden=5632, layers=22, heads=32, kv_heads=4, length=2048),
}  # fmt: skip
