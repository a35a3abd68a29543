"""OLMo 2 (arXiv:2501.00656), Phi-3 (arXiv:2404.14219), GPT-NeoX (arXiv:2204.06745) with Pythia (arXiv:2304.01373), and
OPT (arXiv:2205.01068), as they were released.
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
)
from headway.config.layers import QKNorm
from headway.presets.llama import llama

_SENTENCE = Special(begin=2, end=(2,), pad=1)  # </s> and <pad> of OPT's tokenizer
_ONE_TOKEN = Special(begin=0, end=(0,))  # one token both begins and ends a text


def gpt_neox(
    *,
    vocabulary: int,
    width: int,
    layers: int,
    heads: int,
    length: int = 2048,
    hidden: int | None = None,
    rotary: Rotary | None = None,
    activation: str = "gelu",
    bias: bool = True,
    parallel: bool = True,
    eps: float = 1e-5,
    dropout: float = 0.0,
    tied: bool = False,
    special: Special = _ONE_TOKEN,
) -> LanguageConfig:
    """Attention and feed-forward side by side; rotary positions, of a quarter of each head where nothing is said.

    >>> gpt_neox(vocabulary=101, width=48, layers=2, heads=3).stack.block.attention.rotary.width
    4
    """
    turned = Rotary(width=width // heads // 4) if rotary is None else rotary
    attention = AttentionConfig(width=width, heads=heads, causal=True, bias=bias, output_bias=bias, rotary=turned)
    feedforward = FeedForwardConfig(hidden=hidden or 4 * width, activation=activation)
    block = BlockConfig(attention=attention, feedforward=feedforward, parallel=parallel, eps=eps, dropout=dropout)
    stack = StackConfig(block=block, layers=layers, final_norm=True)
    return LanguageConfig(
        family="gpt_neox", vocabulary=vocabulary, length=length, stack=stack, tied=tied, special=special
    )


def opt(
    *,
    width: int,
    layers: int,
    heads: int,
    vocabulary: int = 50272,
    length: int = 2048,
    hidden: int | None = None,
    embedding_width: int | None = None,
    activation: str = "relu",
    bias: bool = True,
    pre_norm: bool = True,
    final_norm: bool = True,
    dropout: float = 0.1,
    tied: bool = True,
    special: Special = _SENTENCE,
) -> LanguageConfig:
    """Learned positions whose table begins two rows before the first; with norms after each sum there is no last one.

    >>> opt(width=48, layers=2, heads=3, pre_norm=False).stack.final_norm
    False
    """
    attention = AttentionConfig(width=width, heads=heads, causal=True, bias=bias, output_bias=bias)
    feedforward = FeedForwardConfig(hidden=hidden or 4 * width, activation=activation, bias=bias)
    order = "pre" if pre_norm else "post"
    block = BlockConfig(attention=attention, feedforward=feedforward, order=order, eps=1e-5, dropout=dropout)
    return LanguageConfig(
        family="opt",
        vocabulary=vocabulary,
        length=length,
        stack=StackConfig(block=block, layers=layers, final_norm=pre_norm and final_norm),
        positions="learned",
        offset=2,
        embedding_width=embedding_width,
        tied=tied,
        special=special,
    )


_OLMO2 = partial(
    llama, family="olmo2", vocabulary=100352, length=4096, base=5e5, order="res_post", eps=1e-6,
    qk_norm=QKNorm(over="all"), special=Special(end=(100257,), pad=100277),
)  # fmt: skip
_PHI3 = partial(
    llama, family="phi3", vocabulary=32064, length=4096, window=2047, special=Special(begin=1, end=(32000,), pad=32000)
)
_PYTHIA = partial(gpt_neox, vocabulary=50304)

PRESETS: dict[str, Callable[[], LanguageConfig]] = {
    "olmo2-1b": partial(_OLMO2, width=2048, hidden=8192, layers=16, heads=16),
    "olmo2-7b": partial(_OLMO2, width=4096, hidden=11008, layers=32, heads=32),
    "olmo2-13b": partial(_OLMO2, width=5120, hidden=13824, layers=40, heads=40),
    "olmo2-32b": partial(_OLMO2, width=5120, hidden=27648, layers=64, heads=40, kv_heads=8),
    "phi3-mini": partial(_PHI3, width=3072, hidden=8192, layers=32, heads=32),
    "phi3-medium": partial(_PHI3, width=5120, hidden=17920, layers=40, heads=40, kv_heads=10),
    "gpt-neox-20b": partial(
        gpt_neox,
        vocabulary=50432,
        width=6144,
        layers=44,
        heads=64,
        activation="gelu_tanh",
    ),
    "pythia-70m": partial(_PYTHIA, width=512, layers=6, heads=8),
    "pythia-160m": partial(_PYTHIA, width=768, layers=12, heads=12),
    "pythia-410m": partial(_PYTHIA, width=1024, layers=24, heads=16),
    "pythia-1b": partial(_PYTHIA, width=2048, layers=16, heads=8),
    "pythia-1.4b": partial(_PYTHIA, width=2048, layers=24, heads=16),
    "pythia-2.8b": partial(_PYTHIA, width=2560, layers=32, heads=32),
    "pythia-6.9b": partial(_PYTHIA, vocabulary=50432, width=4096, layers=32, heads=32),
    "pythia-12b": partial(_PYTHIA, vocabulary=50688, width=5120, layers=36, heads=40),
    "opt-125m": partial(opt, width=768, layers=12, heads=12),
    "opt-350m": partial(opt, width=1024, layers=24, heads=16, embedding_width=512, pre_norm=False),
    "opt-1.3b": partial(opt, width=2048, layers=24, heads=32),
    "opt-2.7b": partial(opt, width=2560, layers=32, heads=32),
    "opt-6.7b": partial(opt, width=4096, layers=32, heads=32),
    "opt-13b": partial(opt, width=5120, layers=40, heads=40),
    "opt-30b": partial(opt, width=7168, layers=48, heads=56),
}
