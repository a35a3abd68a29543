"""What is drawn: tokens, and for each layer the weights of its heads with what was measured of them. No torch.

A record is made once from a model (or from a rule alone), and everything that draws reads nothing else: the page, the
picture for a paper, the terminal, the report of a run. As JSON it is a file of a run: arrays in base64.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

import numpy as np
from jaxtyping import Float, UInt8

from headway.look.packed import Factors, Weights
from headway.render import legible

Kind = Literal["encoder", "decoder", "cross", "channels", "pattern"]


@dataclass(frozen=True)
class Side:
    """A row of things that attend or are attended to: tokens of a text, patches of an image, channels."""

    name: str  # "text", "source", "target", "image", "channels", "positions"
    tokens: tuple[str, ...]  # as text; drawn through render.legible, never as HTML
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


def matrix(layer: Layer, place: int) -> Float[np.ndarray, "l M"]:
    """All rows held of one head, `place` counted among those held."""
    if isinstance(layer.data, Weights):
        return layer.data.values[place].astype(np.float64)
    return np.stack([layer.data.row(place, row) for row in range(layer.rows[1])])


def head_at(look: Look, head: tuple[int, int]) -> tuple[Layer, int]:
    """A layer (counted in the record) and the place of a head among those that it holds."""
    layer, number = head
    if not 0 <= layer < len(look.layers):
        raise ValueError(f"there is no layer {layer}: there are {len(look.layers)}, counted from 0")
    held = look.layers[layer].heads
    if number not in held:
        raise ValueError(f"layer {layer} has no head {number} here; it holds {', '.join(map(str, held))}")
    return look.layers[layer], held.index(number)


def only_head(look: Look) -> tuple[Layer, int] | None:
    """The one head of a record that holds no other."""
    return (look.layers[0], 0) if len(look.layers) == 1 and len(look.layers[0].heads) == 1 else None


def layer_name(layer: Layer) -> str:
    """How a layer is called: of an encoder or decoder by number, a pattern by its own name."""
    return layer.label if layer.kind == "pattern" else f"{layer.kind} {layer.label}"


SHARE = 0.3  # of its weight a head gives to the view that it is named after, at least
ABOVE = 0.1  # so much more than chance, at least: in a short text, every key holds a large share
RARE = 0.2  # of the rows: a view that fewer rows have (a word that comes twice) names no head
BROAD = 0.9  # entropy from which on a head looks everywhere, 1 being uniform


def role_of(views: Mapping[str, float], chance: Mapping[str, float], entropy: float) -> str:
    """The view that stands out the most above chance; where none does, "broad" or "mixed".

    >>> role_of({"first": 0.5, "next": 0.4}, {"first": 0.3, "next": 0.1}, 0.7)
    'next'
    >>> role_of({"first": 0.35}, {"first": 0.34}, 0.98)
    'broad'
    """
    above = {name: share - chance[name] for name, share in views.items() if share >= SHARE}
    best = max(above, key=above.__getitem__, default=None)
    if best is not None and above[best] >= ABOVE:
        return best
    return "broad" if entropy >= BROAD else "mixed"


@dataclass(frozen=True)
class HeadRole:
    """A row of the table of heads; share and chance are of the view that the head is named after, if it is."""

    layer: int  # its place among the layers of the look
    label: str
    kind: Kind
    head: int
    role: str
    share: float | None
    chance: float | None
    entropy: float
    reach: float | None


def roles_table(look: Look) -> list[HeadRole]:
    """Every head of every layer with its role, in their order."""
    return [
        HeadRole(
            place, layer.label, layer.kind, head, found.role,
            found.views.get(found.role), found.chance.get(found.role), found.entropy, found.reach,
        )
        for place, layer in enumerate(look.layers)
        for head, found in zip(layer.heads, layer.measures, strict=True)
    ]  # fmt: skip


VERSION = 1


def as_json(look: Look) -> dict[str, Any]:
    """Numbers, texts, lists and objects only; `from_json` makes the record again."""
    return {
        "version": VERSION,
        "title": look.title,
        "subtitle": look.subtitle,
        "notes": list(look.notes),
        "sides": [asdict(side) | {"shown": [legible(token) for token in side.tokens]} for side in look.sides],
        "layers": [_layer_json(layer) for layer in look.layers],
        "lens": None if look.lens is None else asdict(look.lens),
    }


def _layer_json(layer: Layer) -> dict[str, Any]:
    plain = {
        one.name: getattr(layer, one.name) for one in fields(layer) if one.name not in ("data", "maps", "measures")
    }
    kind = "weights" if isinstance(layer.data, Weights) else "factors"
    held = {one.name: _array_json(getattr(layer.data, one.name)) for one in fields(layer.data)}
    return plain | {
        "maps": _array_json(layer.maps),
        "measures": [asdict(one) for one in layer.measures],
        "data": {"kind": kind} | held,
    }


def _array_json(value: Any) -> Any:
    """An array as its dtype, shape and bytes (little-endian); anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    whole = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<")))
    return {"dtype": value.dtype.name, "shape": list(value.shape), "base64": b64encode(whole.tobytes()).decode()}


def from_json(found: Any) -> Look:
    """The record of what `as_json` gave; a ValueError says what is not as it should be."""
    try:
        if found["version"] != VERSION:
            raise ValueError(f"it has version {found['version']!r}, and this headway reads {VERSION}")
        lens = found["lens"]
        return Look(
            found["title"], tuple(map(_side, found["sides"])), tuple(map(_layer_of, found["layers"])),
            None if lens is None else Lens(**{name: _frozen(value) for name, value in lens.items()}),
            tuple(found["notes"]), found["subtitle"],
        )  # fmt: skip
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{type(error).__name__} at {error}") from None


def _frozen(value: Any) -> Any:
    return tuple(map(_frozen, value)) if isinstance(value, list) else value


def _side(found: dict[str, Any]) -> Side:
    return Side(**{name: _frozen(value) for name, value in found.items() if name != "shown"})


def _layer_of(found: dict[str, Any]) -> Layer:
    data = {name: _array_of(value) for name, value in found["data"].items() if name != "kind"}
    make: Callable[..., Weights | Factors] = Weights if found["data"]["kind"] == "weights" else Factors
    rest = {name: _frozen(value) for name, value in found.items() if name not in ("data", "maps", "measures")}
    measures = tuple(Measures(**one) for one in found["measures"])
    return Layer(**rest, data=make(**data), maps=_array_of(found["maps"]), measures=measures)


def _array_of(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kind = np.dtype(value["dtype"]).newbyteorder("<")
    return np.frombuffer(b64decode(value["base64"]), kind).reshape(value["shape"]).astype(value["dtype"])
