"""BERT and its smaller relatives, as the bare model with its pooler: heads are added with `model_copy` or `bert(...)`.

BERT: Devlin et al. 2018, arXiv:1810.04805. Tiny to medium: Turc et al. 2019, arXiv:1908.08962. MiniLM: Wang et al.
2020, arXiv:2002.10957, with the six layers of its best known sentence encoder.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Special, StackConfig
from headway.config.text import MaskedConfig, Outcome

_SPECIAL = Special(pad=0)


def bert(
    *,
    width: int,
    heads: int,
    layers: int,
    hidden: int | None = None,
    vocabulary: int = 30522,
    length: int = 512,
    types: int = 2,
    activation: str = "gelu",
    eps: float = 1e-12,
    dropout: float = 0.1,
    pooler: bool = True,
    words: bool = False,
    adjacent: bool = False,
    inverted: bool = False,
    inference: int = 0,
    inference_labels: tuple[str, ...] = (),
    classes: int = 0,
    labels: tuple[str, ...] = (),
    outcome: Outcome = "one",
    special: Special = _SPECIAL,
    **options: Any,
) -> MaskedConfig:
    """A BERT of any size: post-norm, biases everywhere; the feed-forward is four times as wide where nobody says.

    `options` are others of `MaskedConfig`, such as token_classes=9 or answers=True.

    With a head that BERT's own layout has no place for (`inverted`, `inference`) it is saved in headway's.

    >>> bert(width=768, heads=12, layers=12).stack.block.feedforward.hidden
    3072
    """
    block = BlockConfig(
        attention=AttentionConfig(width=width, heads=heads, bias=True, output_bias=True),
        feedforward=FeedForwardConfig(hidden=4 * width if hidden is None else hidden, activation=activation),
        order="post",
        eps=eps,
        dropout=dropout,
    )
    options.setdefault("family", "headway" if inverted or inference else "bert")
    return MaskedConfig(
        vocabulary=vocabulary, length=length, types=types,
        stack=StackConfig(block=block, layers=layers), eps=eps, pooler=pooler, words=words, adjacent=adjacent,
        inverted=inverted, inference=inference, inference_labels=inference_labels, classes=classes, labels=labels,
        outcome=outcome, special=special, **options,
    )  # fmt: skip


PRESETS: dict[str, Callable[[], MaskedConfig]] = {
    "bert-tiny": partial(bert, width=128, heads=2, layers=2),
    "bert-mini": partial(bert, width=256, heads=4, layers=4),
    "bert-small": partial(bert, width=512, heads=8, layers=4),
    "bert-medium": partial(bert, width=512, heads=8, layers=8),
    "bert-base": partial(bert, width=768, heads=12, layers=12),
    "bert-large": partial(bert, width=1024, heads=16, layers=24),
    "minilm-l6": partial(bert, width=384, heads=12, layers=6),
}
