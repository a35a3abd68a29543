"""What is drawn: tokens, and for each layer the weights of its heads with what was measured of them. No torch.

A record is made once from a model (or from a rule alone), and everything that draws reads nothing else: the page, the
picture for a paper, the terminal, the report of a run.
"""

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from jaxtyping import UInt8

from headway.look.packed import Factors, Weights

Kind = Literal["encoder", "decoder", "cross", "channels", "pattern"]


@dataclass(frozen=True)
class Side:
    """A row of things that attend or are attended to: tokens of a text, patches of an image, channels."""

    name: str  # "text", "source", "target", "image", "channels", "positions"
    tokens: tuple[str, ...]  # as text; drawn through page.legible, never as HTML
    special: tuple[int, ...] = ()  # places of tokens that stand for no text: [CLS], [SEP], </s>
    words: tuple[int, ...] = ()  # the number of the word that each token belongs to, -1 for none; () where unknown
    grid: tuple[int, int] | None = None  # rows and columns, where these are patches
    extra: int = 0  # tokens before the first patch (the class token)
    picture: str | None = None  # the image that the patches cover, as a data: address


@dataclass(frozen=True)
class Measures:
    """What was measured of one head, each a mean over its rows."""

    entropy: float  # of a row over log(number of keys that it may see): 1 is uniform, 0 is one key
    reach: float | None  # Σ_j weight_ij |i − j|, in tokens (on a grid in patches, Chebyshev); None between two texts
    largest: float  # the largest weight of a row
    views: dict[str, float] = field(default_factory=dict)  # name of a view -> share of the weight that goes there
    chance: dict[str, float] = field(default_factory=dict)  # the same if each row weighed all its keys alike
    role: str = "broad"  # the view that stands out the most, "broad" or "mixed" where none does


@dataclass(frozen=True, eq=False)
class Layer:
    """One attention: `heads` are the numbers of those that are held, `rows` the first row held and how many."""

    name: str  # of the module
    label: str  # for readers: "0", "1", … within its kind
    kind: Kind
    mechanism: str
    queries: int  # which of the sides asks
    keys: int  # which of them answers
    heads: tuple[int, ...]
    rows: tuple[int, int]
    data: Weights | Factors
    maps: UInt8[np.ndarray, "h y x"]  # each head small, for the overview: 255 is the map's largest weight
    measures: tuple[Measures, ...]  # one for each of `heads`


@dataclass(frozen=True)
class Lens:
    """What the model would say next, were it to end after each layer: for each depth and place the likeliest tokens."""

    side: int
    depths: tuple[str, ...]  # "embedding", "1", "2", …; the last is the model's own answer
    places: tuple[int, ...]
    tokens: tuple[tuple[tuple[str, ...], ...], ...]  # depth, place, rank
    probabilities: tuple[tuple[tuple[float, ...], ...], ...]
    note: str = ""


@dataclass(frozen=True, eq=False)
class Look:
    """Everything there is to see of one model on one input."""

    title: str
    sides: tuple[Side, ...]
    layers: tuple[Layer, ...]
    lens: Lens | None = None
    notes: tuple[str, ...] = ()
    subtitle: str = ""
