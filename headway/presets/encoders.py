"""BERT's relatives, as the bare model: heads are added with `model_copy`, or are options of the functions.

RoBERTa: Liu et al. 2019, arXiv:1907.11692. XLM-RoBERTa: Conneau et al. 2019, arXiv:1911.02116. DistilBERT: Sanh et al.
2019, arXiv:1910.01108. ELECTRA: Clark et al. 2020, arXiv:2003.10555 (its discriminators). MPNet: Song et al. 2020,
arXiv:2004.09297. ModernBERT: Warner et al. 2024, arXiv:2412.13663.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Relative, Rotary, Special, StackConfig
from headway.config.spec import read_spec
from headway.config.text import MaskedConfig
from headway.presets.bert import bert

_ROBERTA_SPECIAL = Special(begin=0, end=(2,), pad=1)


def roberta(*, family: str = "roberta", special: Special = _ROBERTA_SPECIAL, **options: Any) -> MaskedConfig:
    """A RoBERTa of any size: a BERT whose positions are counted behind that of padding, and one kind of sentence.

    >>> roberta(width=768, heads=12, layers=12).offset
    2
    """
    usual: dict[str, Any] = {"vocabulary": 50265, "length": 512, "types": 1, "eps": 1e-5, "word_activation": "gelu"}
    return bert(family=family, special=special, offset=offset_of(special), **usual | options)


def offset_of(special: Special) -> int:
    """Rows before that of the first position: up to the one of padding, which no real token has."""
    if special.pad is None:
        raise ValueError("a RoBERTa counts its positions from that of padding: it needs a pad token")
    return special.pad + 1


def distilbert(**options: Any) -> MaskedConfig:
    """A DistilBERT of any size: a BERT that tells no sentences apart; its classifier has a rectifier instead of tanh.

    >>> distilbert(width=768, heads=12, layers=6).types
    0
    """
    usual: dict[str, Any] = {"family": "distilbert", "types": 0, "pooler": bool(options.get("classes"))}
    chosen: dict[str, Any] = usual | {"pooler_activation": "relu"} | options
    return bert(**chosen)


def electra(*, embedding_width: int | None = None, **options: Any) -> MaskedConfig:
    """An ELECTRA of any size: a BERT whose embeddings may be narrower than its stack, with GELU in its classifier.

    >>> electra(width=256, heads=4, layers=12, embedding_width=128).embedding_width
    128
    """
    usual: dict[str, Any] = {"family": "electra", "pooler": bool(options.get("classes")), "word_activation": "gelu"}
    chosen: dict[str, Any] = usual | {"pooler_activation": "gelu"} | options
    return bert(embedding_width=embedding_width, **chosen)


def albert(*, embedding_width: int | None = 128, **options: Any) -> MaskedConfig:
    """An ALBERT of any size: a BERT of one block, run as every layer, whose embeddings are narrower (arXiv:1909.11942).

    >>> albert(width=768, heads=12, layers=12).stack.shared
    True
    """
    usual: dict[str, Any] = {"family": "albert", "vocabulary": 30000, "activation": "gelu_tanh", "dropout": 0.0}
    chosen: dict[str, Any] = usual | {"special": Special(begin=2, end=(3,), pad=0)} | options
    return bert(embedding_width=embedding_width, **chosen).replace("stack", shared=True)


BUCKETS = 32  # of differences of positions: MPNet has no other number


def mpnet(**options: Any) -> MaskedConfig:
    """An MPNet of any size: a RoBERTa without sentences, with a learned bias over differences of positions.

    >>> mpnet(width=768, heads=12, layers=12).stack.bias.buckets
    32
    """
    usual: dict[str, Any] = {"family": "mpnet", "vocabulary": 30527, "types": 0}
    return roberta(**usual | options).replace("stack", bias=Relative(buckets=BUCKETS))


def modernbert(
    *,
    width: int,
    heads: int,
    layers: int,
    hidden: int,
    windows: Sequence[int | None] | None = None,
    bases: tuple[float, float] = (160000.0, 10000.0),
    activation: str = "gelu",
    bias: bool = False,
    hidden_bias: bool = False,
    norm: str = "layer_unbiased",
    eps: float = 1e-5,
    **options: Any,
) -> MaskedConfig:
    """A ModernBERT of any size: norms before each branch, gated feed-forwards, rotary positions, no biases.

    `windows` says of each layer how far it sees (window - 1 tokens to each side; None: all), by default all in every
    third layer and 64 in the others; the rotary base is the first of `bases` where it sees all, else the second. The
    first layer has no norm before its attention: the embedding ends in one.

    >>> modernbert(width=768, heads=12, layers=22, hidden=1152).stack.blocks[1].attention.mechanism.window
    65
    """
    seen = [None if layer % 3 == 0 else 65 for layer in range(layers)] if windows is None else list(windows)
    feedforward = FeedForwardConfig(hidden=hidden, activation=activation, gated=True, bias=hidden_bias)

    def block(layer: int, window: int | None) -> BlockConfig:
        attention = AttentionConfig(
            width=width, heads=heads, bias=bias, output_bias=bias, rotary=Rotary(base=bases[window is not None]),
            mechanism=read_spec("softmax") if window is None else read_spec("local", window=window),
        )  # fmt: skip
        return BlockConfig(attention=attention, feedforward=feedforward, norm=norm, first_norm=layer > 0, eps=eps)

    first, *others = (block(layer, window) for layer, window in enumerate(seen))
    stack = StackConfig(block=first, alternates=tuple(others), layers=layers, final_norm=True)
    head = any(options.get(name) for name in ("classes", "token_classes", "answers"))
    usual: dict[str, Any] = {
        "family": "modernbert", "vocabulary": 50368, "length": 8192, "types": 0, "positions": "none", "eps": eps,
        "pooler": head, "pooler_activation": "gelu", "pooler_bias": False, "pooler_norm": True, "pooler_tokens": True,
        "special": Special(begin=50281, end=(50282,), pad=50283),
    }  # fmt: skip
    chosen: dict[str, Any] = usual | options
    return MaskedConfig(stack=stack, **chosen)


_XLM = partial(roberta, family="xlm-roberta", vocabulary=250002)

PRESETS: dict[str, Callable[[], MaskedConfig]] = {
    "roberta-base": partial(roberta, width=768, heads=12, layers=12),
    "roberta-large": partial(roberta, width=1024, heads=16, layers=24),
    "xlm-roberta-base": partial(_XLM, width=768, heads=12, layers=12),
    "xlm-roberta-large": partial(_XLM, width=1024, heads=16, layers=24),
    "distilbert-base": partial(distilbert, width=768, heads=12, layers=6),
    "electra-small": partial(electra, width=256, heads=4, layers=12, embedding_width=128),
    "electra-base": partial(electra, width=768, heads=12, layers=12),
    "electra-large": partial(electra, width=1024, heads=16, layers=24),
    "albert-base": partial(albert, width=768, heads=12, layers=12),
    "albert-large": partial(albert, width=1024, heads=16, layers=24),
    "albert-xlarge": partial(albert, width=2048, heads=16, layers=24),
    "albert-xxlarge": partial(albert, width=4096, heads=64, layers=12),
    "mpnet-base": partial(mpnet, width=768, heads=12, layers=12),
    "modernbert-base": partial(modernbert, width=768, heads=12, layers=22, hidden=1152),
    "modernbert-large": partial(modernbert, width=1024, heads=16, layers=28, hidden=2624),
}
