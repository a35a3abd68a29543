"""Attention over an image: the picture under a veil that is thin where a head looks."""

from base64 import b64decode
from io import BytesIO
from typing import Any

import numpy as np
from jaxtyping import Float

from headway.look.picture.heads import GAP, LARGEST, LEFT, TOP, Mosaic, left_of
from headway.look.picture.style import WIDTH, map_of
from headway.look.record import Layer, Look, Side, layer_name, matrix

VEIL = 0.88  # how dark a patch is that gets nothing
ALONE = 3.2  # inches of a picture where one head is shown
BELOW = 0.2  # inches for what the veil means


def over_patches(look: Look, layer: Layer) -> bool:
    """Whether a layer looks at patches of a picture."""
    side = look.sides[layer.keys]
    return side.grid is not None and side.picture is not None and layer.kind != "pattern"


def images(look: Look, layers: list[Layer], place: int | None) -> Any:
    """A row for each layer: the picture as it is, and every head (or one alone) over it.

    Heads that look at no patches, but at channels, say, stand between them as maps.
    """
    columns = 1 + (max(len(layer.heads) for layer in layers) if place is None else 1)
    side = min(LARGEST if place is None else ALONE, (WIDTH - LEFT) / columns - GAP)
    step = side + GAP
    drawn = Mosaic.of(LEFT + columns * step, TOP + len(layers) * step + BELOW)
    for row, layer in enumerate(layers):
        places = list(range(len(layer.heads))) if place is None else [place]
        drawn.row(layer_name(layer), TOP + row * step, side)
        _row(drawn, look, layer, places, down=TOP + row * step, side=side)
    _titles(drawn, max(layers, key=lambda layer: len(layer.heads)), place, side)
    first = next(layer for layer in layers if over_patches(look, layer))
    who = "the class token attends" if _by_class(first, look.sides[first.keys]) else "all attend on average"
    drawn.say(f"light: what {who} to", drawn.width / 2, drawn.height - BELOW + 0.02, size=6.0, above=False)
    return drawn.made


def _row(drawn: Mosaic, look: Look, layer: Layer, places: list[int], *, down: float, side: float) -> None:
    keys = look.sides[layer.keys]
    shown = decoded(keys) if over_patches(look, layer) else None
    if shown is not None:
        drawn.put(shown, (left_of(0, side), down, side, side))
    for column, place in enumerate(places, start=1):
        box = (left_of(column, side), down, side, side)
        if shown is None:
            drawn.put(matrix(layer, place), box, cmap=map_of("sequential"), vmin=0)
            continue
        drawn.put(shown, box)
        drawn.put(_veil(attention_over_patches(layer, place, keys)), box, framed=False)


def _veil(share: Float[np.ndarray, "y x"]) -> Float[np.ndarray, "y x 4"]:
    """Black that lets through what is attended to."""
    veil = np.zeros((*share.shape, 4))
    veil[..., 3] = VEIL * (1 - share)
    return veil


def _titles(drawn: Mosaic, layer: Layer, place: int | None, side: float) -> None:
    heads = layer.heads if place is None else (layer.heads[place],)
    for column, text in enumerate(["image", *(f"head {head}" for head in heads)]):
        drawn.say(text, left_of(column, side) + side / 2, TOP - 0.04, size=min(6.5, 12 * side), above=True)


def _by_class(layer: Layer, side: Side) -> bool:
    return bool(side.extra) and layer.queries == layer.keys and layer.rows[0] == 0


def attention_over_patches(layer: Layer, place: int, side: Side) -> Float[np.ndarray, "y x"]:
    """What the class token sees of each patch, as a share of the most; without one, what all rows see on average."""
    assert side.grid is not None
    weights = matrix(layer, place)
    row = weights[0] if _by_class(layer, side) else weights.mean(0)
    patches = row[side.extra : side.extra + side.grid[0] * side.grid[1]].reshape(side.grid)
    return patches / (patches.max() or 1.0)


def decoded(side: Side) -> Float[np.ndarray, "y x c"]:
    """The pixels of the picture that a side carries within."""
    from matplotlib.image import imread

    assert side.picture is not None
    pixels = imread(BytesIO(b64decode(side.picture.partition(",")[2])), format="png").astype(np.float64)
    return np.repeat(pixels[..., None], 3, axis=-1) if pixels.ndim == 2 else pixels
