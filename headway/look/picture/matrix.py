"""The weights of heads as an array, from a record."""

import numpy as np
from jaxtyping import Float

from headway.look.packed import Weights
from headway.look.record import Layer, Look


def matrix(layer: Layer, place: int) -> Float[np.ndarray, "l M"]:
    """All rows held of one head, `place` counted among those held."""
    if isinstance(layer.data, Weights):
        return layer.data.values[place].astype(np.float64)
    return np.stack([layer.data.row(place, row) for row in range(layer.rows[1])])


def chosen(look: Look, head: tuple[int, int]) -> tuple[Layer, int]:
    """A layer (counted in the record) and the place of a head among those that it holds."""
    layer, number = head
    if not 0 <= layer < len(look.layers):
        raise ValueError(f"there is no layer {layer}: there are {len(look.layers)}, counted from 0")
    held = look.layers[layer].heads
    if number not in held:
        raise ValueError(f"layer {layer} has no head {number} here; it holds {', '.join(map(str, held))}")
    return look.layers[layer], held.index(number)


def only(look: Look) -> tuple[Layer, int] | None:
    """The one head of a record that holds no other."""
    return (look.layers[0], 0) if len(look.layers) == 1 and len(look.layers[0].heads) == 1 else None


def named(layer: Layer) -> str:
    """How a layer is called: of an encoder or decoder by number, a pattern by its own name."""
    return layer.label if layer.kind == "pattern" else f"{layer.kind} {layer.label}"
