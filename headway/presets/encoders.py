"""BERT's relatives, as the bare model: heads are added with `model_copy`, or are options of the functions.

RoBERTa: Liu et al. 2019, arXiv:1907.11692. XLM-RoBERTa: Conneau et al. 2019, arXiv:1911.02116. DistilBERT: Sanh et al.
2019, arXiv:1910.01108.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

from headway.config import Special
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


_XLM = partial(roberta, family="xlm-roberta", vocabulary=250002)

PRESETS: dict[str, Callable[[], MaskedConfig]] = {
    "roberta-base": partial(roberta, width=768, heads=12, layers=12),
    "roberta-large": partial(roberta, width=1024, heads=16, layers=24),
    "xlm-roberta-base": partial(_XLM, width=768, heads=12, layers=12),
    "xlm-roberta-large": partial(_XLM, width=1024, heads=16, layers=24),
    "distilbert-base": partial(distilbert, width=768, heads=12, layers=6),
}
