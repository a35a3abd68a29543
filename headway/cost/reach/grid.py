"""What every layer of a DaViT sees of the picture, in pixels: convolutions, windows and channels.

A convolution sees a square of positions, a window its tile, both products of a range of rows and one of columns; a
score between channels is a sum over the whole grid.
"""

from collections.abc import Callable

import torch

from headway.config import DaViTConfig, sides
from headway.config.base import Pair
from headway.cost.reach.masks import tile_axis
from headway.cost.reach.sets import Axis, Boxes, Layer, Sets, compose, everything, itself


def grid_layers(config: DaViTConfig) -> list[Layer]:
    """The stem, and the two kinds of block in turn, numbered through all stages."""
    image, grids, number = sides(config.image), config.grids, 0
    pixels = Boxes(tuple(itself(size) for size in image))
    found: list[Layer] = []
    seen: Sets = pixels
    for stage, (grid, before) in enumerate(zip(grids, (image, *grids), strict=False)):
        side, step = (config.kernel, 2) if stage else (config.stem, config.stride)
        seen = compose(_convolution(grid, before, side, step), seen)
        if not stage:
            found.append(Layer("stem", 0, seen))
        for _ in range(config.depths[stage]):
            for part, attended in (("spatial", _windows(config, grid)), ("channel", _channels(config, stage))):
                number, seen = number + 1, _block(grid, attended, seen)
                found.append(Layer(part, number, seen))
    return found


def _block(grid: Pair, attended: Boxes, seen: Sets) -> Sets:
    """A convolution of 3 x 3, attention, another convolution; each beside a residual, which adds nothing new."""
    near = _convolution(grid, grid, 3, 1)
    return compose(near, compose(attended, compose(near, seen)))


def _convolution(after: Pair, before: Pair, side: int, step: int) -> Boxes:
    """Each position sees `side` x `side` of those before, one square every `step`.

    A side of 2 begins at its own place; an odd side has its place in the middle.
    """
    return _along(after, before, lambda size, old: _taps(size, old, side, step))


def _taps(size: int, old: int, side: int, step: int) -> Axis:
    first = torch.arange(size) * step - (side - 1) // 2
    return Axis(first.clamp(min=0), (first + side).clamp(max=old), old)


def _along(after: Pair, before: Pair, axis: Callable[[int, int], Axis]) -> Boxes:
    return Boxes(tuple(axis(size, old) for size, old in zip(after, before, strict=True)))


def _windows(config: DaViTConfig, grid: Pair) -> Boxes:
    return Boxes(tuple(tile_axis(size, part) for size, part in zip(grid, sides(config.window), strict=True)))


def _channels(config: DaViTConfig, stage: int) -> Boxes:
    """All positions; but a group of one channel has nothing to choose from, and each position keeps to itself."""
    alone = config.channel(stage).head_width == 1
    return Boxes(tuple(itself(size) if alone else everything(size, size) for size in config.grids[stage]))
