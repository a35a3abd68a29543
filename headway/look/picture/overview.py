"""All heads of a model small on one scale: layers below one another, heads side by side."""

from typing import Any

from headway.look.packed import Weights
from headway.look.picture.heads import bar
from headway.look.picture.matrix import matrix, named
from headway.look.picture.mosaic import GAP, LARGEST, LEFT, ROOM, TOP, Mosaic, left_of
from headway.look.picture.style import WIDTH, map_of, written
from headway.look.record import Layer, Look

ROLE = 0.13  # inches for the role below a map
SCALE = 0.6  # inches for the scale


def overview(look: Look) -> Any:
    """Every map from 0 to the largest weight of all; of long texts from the small maps, each with its own largest."""
    columns = max(len(layer.heads) for layer in look.layers)
    side = min(LARGEST, (WIDTH - LEFT - SCALE) / columns - GAP)
    whole = all(isinstance(layer.data, Weights) for layer in look.layers)
    top = _top(look) if whole else 1.0
    heights = [side * min(2.0, max(0.4, layer.maps.shape[1] / layer.maps.shape[2])) for layer in look.layers]
    step = GAP + (ROLE if side >= ROOM else 0.0)
    drawn = Mosaic.of(LEFT + columns * (side + GAP), TOP + sum(heights) + step * len(heights), right=SCALE)
    down = TOP
    for layer, high in zip(look.layers, heights, strict=True):
        _layer(drawn, layer, (down, side, high), whole=whole, top=top)
        down += high + step
    _numbers(drawn, max(look.layers, key=lambda layer: len(layer.heads)), side)
    total = drawn.width + SCALE
    scale = drawn.made.add_axes((drawn.width / total, 0.25, 0.1 / total, 0.5))
    bar(drawn.made, drawn.axes.images[0], top, whole=whole, cax=scale)
    return drawn.made


def _top(look: Look) -> float:
    return max(float(layer.data.values.max()) for layer in look.layers if isinstance(layer.data, Weights)) or 1.0


def _layer(drawn: Mosaic, layer: Layer, place: tuple[float, float, float], *, whole: bool, top: float) -> None:
    from matplotlib.colors import PowerNorm

    down, side, high = place
    drawn.row(named(layer), down, high)
    for number in range(len(layer.heads)):
        left = left_of(number, side)
        values = matrix(layer, number) if whole else layer.maps[number] / 255
        drawn.put(values, (left, down, side, high), cmap=map_of("sequential"), norm=PowerNorm(0.5, 0, top))
        if side >= ROOM:
            role = written(layer.measures[number].role, longest=18).replace("␣", " ")
            drawn.say(role, left + side / 2, down + high + 0.03, size=5.5, above=False)


def _numbers(drawn: Mosaic, layer: Layer, side: float) -> None:
    for number, head in enumerate(layer.heads):
        text = f"head {head}" if side >= ROOM else str(head)
        drawn.say(text, left_of(number, side) + side / 2, TOP - 0.04, size=6.5, above=True)
