"""Llama and the models of its shape: rotary positions, grouped heads, RMSNorm, a gated feed-forward.

Llama 2: arXiv:2307.09288. Llama 3: arXiv:2407.21783. Mistral: arXiv:2310.06825. Qwen2: arXiv:2407.10671.
Qwen3: arXiv:2505.09388. SmolLM2: arXiv:2502.02737. TinyLlama: arXiv:2401.02385. Granite 3: IBM 2024. SmolLM3: Hugging
Face 2025. Sizes are those of the released base models.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from headway.config import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    LanguageConfig,
    Rotary,
    Spec,
    Special,
    StackConfig,
    read_spec,
)
from headway.config.layers import Llama3Scaling, Order, QKNorm, Scaling

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
    rotary_width: int | None = None,
    window: int | None = None,
    bias: bool = False,
    output_bias: bool = False,
    hidden_bias: bool = False,
    activation: str = "silu",
    norm: str = "rms",
    order: Order = "pre",
    eps: float = 1e-5,
    qk_norm: QKNorm | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    residual_scale: float = 1.0,
    tied: bool = False,
    family: str = "llama",
    special: Special = _SENTENCE,
    **rest: Any,
) -> LanguageConfig:
    """A Llama of any size; with a window each token sees itself and the window - 1 before it (Mistral).

    `rest` are options of the model itself, such as the scale of its embedding.

    >>> llama(vocabulary=101, width=12, hidden=17, layers=2, heads=3, length=64).stack.block.attention.head_width
    4
    """
    attention = AttentionConfig(
        width=width, heads=heads, kv_heads=kv_heads or heads, head_width=head_width or width // heads, causal=True,
        bias=bias, output_bias=output_bias, rotary=Rotary(base=base, scaling=scaling, width=rotary_width),
        qk_norm=qk_norm, scale=scale, softcap=softcap, mechanism=_seeing(window),
    )  # fmt: skip
    feedforward = FeedForwardConfig(hidden=hidden, activation=activation, gated=True, bias=hidden_bias)
    block = BlockConfig(
        attention=attention, feedforward=feedforward, norm=norm, order=order, eps=eps, residual_scale=residual_scale
    )
    return LanguageConfig(
        family=family,
        vocabulary=vocabulary,
        length=length,
        stack=StackConfig(block=block, layers=layers, final_norm=True),
        tied=tied,
        special=special,
        **rest,
    )


def layered(config: LanguageConfig, layers: Sequence[Mapping[str, Any]]) -> LanguageConfig:
    """The same with what each layer's attention has of its own: a `window` (None: it sees all), or any other option.

    >>> tiny = llama(vocabulary=101, width=12, hidden=17, layers=4, heads=3, length=64)
    >>> [window_of(block.attention) for block in layered(tiny, [{"window": 7}, {"window": None}] * 2).stack.pattern]
    [7, None]
    """
    made = {
        str(one): config.stack.block.replace(
            "attention", mechanism=_seeing(one["window"]), **{key: one[key] for key in one if key != "window"}
        )
        for one in layers
    }
    first, *others = (made[str(one)] for one in layers)
    return config.replace("stack", block=first, alternates=tuple(others))


def _seeing(window: int | None) -> Spec:
    return read_spec("softmax") if window is None else read_spec("local", window=window)


def window_of(attention: AttentionConfig) -> int | None:
    """How many tokens a layer sees, itself included; None: all before it."""
    return attention.mechanism.model_dump().get("window")


_TWO = partial(llama, vocabulary=32000, length=4096)
_THREE = partial(llama, vocabulary=128256, kv_heads=8, base=5e5, special=Special(begin=128000, end=(128001,)))
_LONG = Llama3Scaling(factor=32, low=1, high=4, length=8192)
_THREE_SMALL = partial(_THREE, hidden=8192, length=131072, scaling=_LONG, tied=True)
_QWEN = partial(
    llama, family="qwen2", vocabulary=151936, length=131072, base=1e6, bias=True, eps=1e-6,
    special=Special(begin=151643, end=(151643,)),
)  # fmt: skip
_QWEN3 = partial(
    llama, family="qwen3", vocabulary=151936, length=32768, base=1e6, eps=1e-6, kv_heads=8, head_width=128,
    qk_norm=QKNorm(), special=Special(begin=151643, end=(151643,)),
)  # fmt: skip
_GRANITE = partial(
    llama, family="granite", vocabulary=49155, length=131072, base=5e6, layers=40, heads=32, kv_heads=8, tied=True,
    residual_scale=0.22, embedding_scale=12.0, special=Special(begin=0, end=(0,), pad=0),
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
    "qwen3-0.6b": partial(_QWEN3, width=1024, hidden=3072, layers=28, heads=16, tied=True),
    "qwen3-1.7b": partial(_QWEN3, width=2048, hidden=6144, layers=28, heads=16, tied=True),
    "qwen3-4b": partial(_QWEN3, width=2560, hidden=9728, layers=36, heads=32, tied=True),
    "qwen3-8b": partial(_QWEN3, width=4096, hidden=12288, layers=36, heads=32),
    "qwen3-14b": partial(_QWEN3, width=5120, hidden=17408, layers=40, heads=40),
    "qwen3-32b": partial(_QWEN3, width=5120, hidden=25600, layers=64, heads=64),
    "granite3.1-2b": partial(_GRANITE, width=2048, hidden=8192, scale=1 / 64, head_scale=1 / 8),
    "granite3.1-8b": partial(_GRANITE, width=4096, hidden=12800, scale=1 / 128, head_scale=1 / 16),
    "smollm2-135m": partial(_SMOL, width=576, hidden=1536, layers=30, heads=9, kv_heads=3, base=1e5),
    "smollm2-360m": partial(_SMOL, width=960, hidden=2560, layers=32, heads=15, kv_heads=5, base=1e5),
    "smollm2-1.7b": partial(_SMOL, width=2048, hidden=8192, layers=24, heads=32, base=1.3e5),
    "smollm3-3b": lambda: layered(
        llama(
            family="smollm3", vocabulary=128256, width=2048, hidden=11008, layers=36, heads=16, kv_heads=4,
            length=65536, base=5e6, eps=1e-6, tied=True, special=Special(end=(128001,), pad=128004),
        ), ([{"window": None}] * 3 + [{"window": None, "rotary": None}]) * 9,
    ),
    "tinyllama": partial(_TWO, width=2048, hidden=5632, layers=22, heads=32, kv_heads=4, length=2048),
}  # fmt: skip
