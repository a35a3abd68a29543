"""A record as JSON and back: arrays in base64, so that a page or a file of a run can carry them. No torch."""

from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from headway.look.packed import Factors, Weights
from headway.look.record import Layer, Lens, Look, Measures, Side
from headway.render import legible

VERSION = 1


def as_json(look: Look) -> dict[str, Any]:
    """Numbers, texts, lists and objects only; `read` makes the record again."""
    return {
        "version": VERSION,
        "title": look.title,
        "subtitle": look.subtitle,
        "notes": list(look.notes),
        "sides": [asdict(side) | {"shown": [legible(token) for token in side.tokens]} for side in look.sides],
        "layers": [_layer(layer) for layer in look.layers],
        "lens": None if look.lens is None else asdict(look.lens),
    }


def _layer(layer: Layer) -> dict[str, Any]:
    plain = {
        one.name: getattr(layer, one.name) for one in fields(layer) if one.name not in ("data", "maps", "measures")
    }
    kind = "weights" if isinstance(layer.data, Weights) else "factors"
    held = {one.name: _plain(getattr(layer.data, one.name)) for one in fields(layer.data)}
    return plain | {
        "maps": _plain(layer.maps),
        "measures": [asdict(one) for one in layer.measures],
        "data": {"kind": kind} | held,
    }


def _plain(value: Any) -> Any:
    """An array as its dtype, shape and bytes (little-endian); anything else as it is."""
    if not isinstance(value, np.ndarray):
        return value
    whole = np.ascontiguousarray(value.astype(value.dtype.newbyteorder("<")))
    return {"dtype": value.dtype.name, "shape": list(value.shape), "base64": b64encode(whole.tobytes()).decode()}


def read(found: Any) -> Look:
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
    data = {name: _array(value) for name, value in found["data"].items() if name != "kind"}
    make: Callable[..., Weights | Factors] = Weights if found["data"]["kind"] == "weights" else Factors
    rest = {name: _frozen(value) for name, value in found.items() if name not in ("data", "maps", "measures")}
    measures = tuple(Measures(**one) for one in found["measures"])
    return Layer(**rest, data=make(**data), maps=_array(found["maps"]), measures=measures)


def _array(value: Any) -> Any:
    if not isinstance(value, dict):
        return value
    kind = np.dtype(value["dtype"]).newbyteorder("<")
    return np.frombuffer(b64decode(value["base64"]), kind).reshape(value["shape"]).astype(value["dtype"])
