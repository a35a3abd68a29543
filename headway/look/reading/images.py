"""Our own models that read an image: patches, their grid, and the picture that they see."""

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from headway.config.base import Pair, sides
from headway.config.vision import Images
from headway.data.image import per_channel, read_image
from headway.look.reading.sample import EXTRA, AttentionInfo, AttentionPlace, ModelInputs, ModelSample
from headway.look.record import Side
from headway.render.png import data_address, png

PATCHES = AttentionPlace("encoder")
PADDING = (
    "Grids are filled up to whole windows: stage {} patches. Padding is no part of the picture, and measures and roles "
    "count it."
)


def vision(model: Any, given: ModelInputs, title: str) -> ModelSample:
    config, image = model.config, image_of(model, given, title)
    rows, columns = (side * patch for side, patch in zip(config.grid, sides(config.patch), strict=True))
    seen = pixels_of(image[:, :rows, :columns], config.images)  # what is past the last whole patch is not looked at
    side = patches("image", config.grid, EXTRA[: config.extra], address(seen))
    return ModelSample(title, model, (side,), lambda: model.hidden_states(image[None]), lambda attention: PATCHES)


def davit(model: Any, given: ModelInputs, title: str) -> ModelSample:
    """One side for each stage: its grid, filled up to whole windows."""
    config, image = model.config, image_of(model, given, title)
    seen = pixels_of(image, config.images)
    stages = range(len(config.depths))
    found = tuple(_stage(config, stage, seen) for stage in stages)
    filled = [f"{stage + 1} from {_size(config.grids[stage])} to {_size(config.padded(stage))}" for stage in stages
              if config.grids[stage] != config.padded(stage)]  # fmt: skip
    notes = (PADDING.format(", ".join(filled)),) if filled else ()
    return ModelSample(title, model, found, lambda: model.hidden_states(image[None]), _in_stage, notes=notes)


def _stage(config: Any, stage: int, seen: UInt8[np.ndarray, "Y X C"]) -> Side:
    grid, step = config.padded(stage), config.stride * 2**stage
    picture = address(on_canvas(seen, (grid[0] * step, grid[1] * step)))
    return padded(patches(f"image, stage {stage + 1}", grid, (), picture), config.grids[stage])


def padded(side: Side, real: Pair) -> Side:
    """The side, of which only so many rows and columns are of the image; the rest stands for nothing, by name.

    >>> padded(patches("image", (1, 3), (), None), (1, 2)).tokens
    ('1,1', '1,2', 'padding 1,3')
    """
    assert side.grid is not None
    columns = side.grid[1]
    beside = {at for at in range(len(side.tokens)) if at // columns >= real[0] or at % columns >= real[1]}
    tokens = tuple(f"padding {name}" if at in beside else name for at, name in enumerate(side.tokens))
    return replace(side, tokens=tokens, special=tuple(sorted(beside)))


def _size(grid: Pair) -> str:
    return f"{grid[0]} x {grid[1]}"


def _in_stage(attention: AttentionInfo) -> AttentionPlace:
    stage = int(attention.name.split(".")[1])  # stages.1.blocks.0.spatial.attention
    return AttentionPlace("encoder", stage, stage)


def image_of(model: Any, given: ModelInputs, title: str) -> Float[Tensor, "C Y X"]:
    """What the model reads: from a picture's file, or as it was given."""
    if given.text is not None or given.pair is not None:
        raise ValueError(f"{title} reads an image, and a text was given: give an image")
    if given.inputs is None:
        if given.image is None:
            raise ValueError(f"{title} reads an image, and none was given: give the path of a picture")
        return read_image(given.image, model.config)
    found = given.inputs
    if not isinstance(found, Tensor) or found.ndim not in (3, 4):
        raise ValueError(f"{title} reads images, a tensor of shape C Y X or B C Y X")
    return found if found.ndim == 3 else found[0]


def patches(name: str, grid: Pair, extra: tuple[str, ...], picture: str | None) -> Side:
    """Patches row by row, named by row and column from 1 on, behind the tokens that are no patch.

    >>> patches("image", (1, 2), ("[class]",), None).tokens
    ('[class]', '1,1', '1,2')
    """
    names = (f"{row},{column}" for row in range(1, grid[0] + 1) for column in range(1, grid[1] + 1))
    return Side(name, (*extra, *names), tuple(range(len(extra))), (), grid, len(extra), picture)


def pixels_of(image: Float[Tensor, "C Y X"], images: Images) -> UInt8[np.ndarray, "Y X C"]:
    """The pixels that were normalised: (x · std + mean) / scale."""
    x = image.detach().double().cpu().numpy().transpose(1, 2, 0)
    std, mean = (per_channel(name, getattr(images, name), x.shape[2]) for name in ("std", "mean"))
    return np.clip(np.rint((x * std + mean) / images.scale), 0, 255).astype(np.uint8)


def to_pixels(image: Float[Tensor, "C Y X"]) -> UInt8[np.ndarray, "Y X C"]:
    """An image of unknown normalisation: its smallest number black, its largest white."""
    x = image.detach().double().nan_to_num(0.0).cpu()
    low, high = float(x.min()), float(x.max())
    x = (x - low) / ((high - low) or 1.0)
    return (x * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()


def on_canvas(pixels: UInt8[np.ndarray, "Y X C"], size: Pair) -> UInt8[np.ndarray, "y x c"]:
    """On a larger canvas, of which what lies beside the picture cannot be seen; cut where it is smaller."""
    pixels = pixels[: size[0], : size[1]]
    rows, columns, channels = pixels.shape
    if (rows, columns) == size or channels not in (1, 3):
        return pixels
    canvas = np.zeros((*size, 4), np.uint8)
    canvas[:rows, :columns, :3], canvas[:rows, :columns, 3] = pixels, 255
    return canvas


def address(pixels: UInt8[np.ndarray, "Y X C"]) -> str | None:
    """The picture as an address; None of channels that are no colours."""
    height, width, channels = pixels.shape
    if channels not in (1, 3, 4):
        return None
    return data_address(png(np.ascontiguousarray(pixels).tobytes(), width=width, height=height, channels=channels))
