"""Named views: for each query a set of keys that heads are known to look at (Clark et al. 2019, arXiv:1906.04341;
Voita et al. 2019, arXiv:1905.09418).

Separators are the tokens that stand for no text ([SEP], </s>), but for the first token of all, which is a view of its
own: in BERT it is [CLS]. Punctuation is text, and none of them. A word is the same where its text is, blanks and case
aside; other pieces of the query's own word count too, the query itself does not.
"""

from collections.abc import Callable

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.look.measure.ground import Ground
from headway.look.record import Kind, Side

# A rule that broadcasts to l M: True where key j belongs to the view of row i.
View = Callable[[Ground], Bool[Tensor, "#l #M"]]


def _same_word(at: Ground) -> Tensor:
    asking, answering = at.words
    return (asking == answering) & (asking >= 0)


def _diagonal(at: Ground) -> Tensor:
    """Keys within one of the place that is as far into their text as the query is into its own."""
    keys = at.j.shape[1]
    return (at.i * (keys - 1) / max(at.asking - 1, 1) - at.j).abs() <= 1


# Where two views stand out alike, the one that is named first gives its name to the head.
TEXT: dict[str, View] = {
    "previous": lambda at: at.j == at.i - 1,
    "next": lambda at: at.j == at.i + 1,
    "itself": lambda at: at.j == at.i,
    "first": lambda at: at.j == 0,
    "separators": lambda at: at.separators,
    "same word": lambda at: _same_word(at) & (at.j != at.i),
}
ACROSS: dict[str, View] = {
    "diagonal": _diagonal,
    "first": lambda at: at.j == 0,
    "separators": lambda at: at.separators,
    "last": lambda at: at.j == at.j.shape[1] - 1,
    "same word": _same_word,
}
GRID: dict[str, View] = {
    "itself": lambda at: at.j == at.i,
    "neighbours": lambda at: at.patches & (at.apart == 1),
    "same row": lambda at: at.patches & (at.down == 0) & (at.j != at.i),
    "same column": lambda at: at.patches & (at.across == 0) & (at.j != at.i),
    "class token": lambda at: at.j < at.extra,
}
CHANNELS: dict[str, View] = {"itself": lambda at: at.j == at.i}


def views_of(kind: Kind, queries: Side, keys: Side) -> dict[str, View]:
    """The views that make sense between these two sides."""
    if kind == "channels":
        return CHANNELS
    if queries is not keys:
        return ACROSS
    return TEXT if keys.grid is None else GRID


def distances(kind: Kind, queries: Side, keys: Side) -> Callable[[Ground], Float[Tensor, "l M"]] | None:
    """How far a key is from a query: in tokens, or in patches (a class token is nowhere, and adds nothing).

    None between two sides and between channels.
    """
    if kind == "channels" or queries is not keys:
        return None
    if keys.grid is None:
        return lambda at: (at.i - at.j).abs().float()
    return lambda at: torch.where(at.patches, at.apart, 0).float()
