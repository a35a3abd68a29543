"""ViT and DaViT for small images, 8 x 8 or 28 x 28 pixels: sizes that follow from the image where nobody says.

>>> digits = small_davit(ModelChoice(), image=(8, 8), channels=1, classes=10)
>>> digits.grids, digits.window, digits.heads
(((8, 8), (4, 4)), (4, 4), (2, 4))
"""

from math import gcd, isqrt
from typing import Any

from headway.config.base import Extent, Pair, sides
from headway.config.images import Images
from headway.config.train import ModelChoice
from headway.config.vision import DaViTConfig, VisionConfig
from headway.presets.sized import CHANGES, changed
from headway.presets.vision import vit

LARGEST = 8  # side of a window
STEPS = ((16, 1), (64, 2))  # images of so many pixels at most have a position every so many pixels; larger ones every 4
STAGES = ("depths", "widths", "stage_heads")


def small_vit(
    choice: ModelChoice,
    *,
    image: Extent,
    channels: int,
    classes: int,
    labels: tuple[str, ...] = (),
    images: Images | None = None,
) -> VisionConfig:
    """A pre-norm ViT with a class token: 4 layers of width 64 with 4 heads; a patch has about √side pixels.

    >>> small_vit(ModelChoice(layers=3), image=28, channels=1, classes=10).grid
    (7, 7)
    """
    _refuse(choice, "a ViT", STAGES, "layers, width, heads, hidden, patch and dropout")
    size, width = sides(image), choice.width or 64
    made = vit(
        family="headway", image=size, patch=choice.patch or _patch(size), channels=channels, layers=choice.layers or 4,
        width=width, heads=choice.heads or _heads(width), hidden=choice.hidden, dropout=choice.dropout or 0.0,
        eps=1e-6, classes=classes, labels=labels, images=images,
    )  # fmt: skip
    return changed(made, choice)


def small_davit(
    choice: ModelChoice,
    *,
    image: Extent,
    channels: int,
    classes: int,
    labels: tuple[str, ...] = (),
    images: Images | None = None,
) -> DaViTConfig:
    """Two stages of dual blocks, 32 and 64 channels in 2 and 4 groups, windows of half the first grid (8 at most)."""
    _refuse(
        choice,
        "a DaViT",
        ("layers", "heads", "hidden", "patch", *CHANGES),
        "depths, widths, stage_heads, window, dropout",
    )
    size, depths = sides(image), choice.depths or (1, 2)
    widths = choice.widths or tuple((choice.width or 32) * 2**stage for stage in range(len(depths)))
    stride = _stride(size)
    return DaViTConfig(
        image=size, channels=channels, depths=depths, widths=widths,
        heads=choice.stage_heads or tuple(_heads(width) for width in widths),
        window=choice.window or _window(size, stride), stem=max(3, 2 * stride - 1), stride=stride,
        dropout=choice.dropout or 0.0, classes=classes, labels=labels, images=images or Images(),
    )  # fmt: skip


def _patch(size: Pair) -> int:
    """The largest side that divides both sides of the image, at most √side: as many patches as pixels in one, or more.

    >>> [_patch((side, side)) for side in (8, 14, 28, 32, 224)]
    [2, 2, 4, 4, 14]
    """
    common = gcd(*size)
    return max(side for side in range(1, isqrt(min(size)) + 1) if common % side == 0)


def _stride(size: Pair) -> int:
    return next((step for pixels, step in STEPS if max(size) <= pixels), 4)


def _window(size: Pair, stride: int) -> Pair:
    """Half the first grid, rounded up: smaller than the grid, so that there is more than one window.

    >>> _window((8, 8), 1), _window((28, 28), 2), _window((224, 224), 4)
    ((4, 4), (7, 7), (8, 8))
    """
    rows, columns = (min(LARGEST, -(-side // (2 * stride))) for side in size)
    return rows, columns


def _heads(width: int) -> int:
    """As many as have 16 channels each; fewer, where they do not divide the width."""
    return next(heads for heads in range(max(1, width // 16), 0, -1) if width % heads == 0)


def _refuse(choice: ModelChoice, what: str, names: tuple[str, ...], instead: str) -> None:
    said: dict[str, Any] = {name: value for name in names if (value := getattr(choice, name)) is not None}
    for name, value in said.items():
        raise ValueError(f"{what} has no {name}={value}: its sizes are {instead}")
