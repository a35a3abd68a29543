"""A picture from a file, as the numbers that a vision model reads. It needs Pillow: `pip install "headway[vision]"`."""

import os
import struct
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from headway.config.base import Extent, Pair, sides
from headway.config.read_file import open_file
from headway.config.size_limits import PIXELS, check_pixels
from headway.config.vision import DaViTConfig, Images, VisionConfig

MODES = {1: "L", 3: "RGB", 4: "RGBA"}  # channels -> how Pillow calls such pictures
GREY = ("1", "L")
# What Pillow may take a file for. Of its other formats some start a program: EPS starts Ghostscript.
FORMATS = ("PNG", "JPEG", "BMP", "GIF", "WEBP", "TIFF", "PPM")
_DAMAGE = (
    ArithmeticError,
    EOFError,
    LookupError,
    OSError,
    RuntimeError,
    SyntaxError,
    TypeError,
    ValueError,
    struct.error,
)


def read_image(path: str | Path, config: VisionConfig | DaViTConfig) -> Float[Tensor, "C Y X"]:
    """The picture resized, cropped and normalised as `config.images` says, in float32.

    (pixel · scale - mean) / std        for each channel
    """
    images, channels = config.images, config.channels
    pixels = read_pixels(path, images, size=sides(config.image), channels=channels) * images.scale
    found = (pixels - per_channel("mean", images.mean, channels)) / per_channel("std", images.std, channels)
    return torch.from_numpy(np.ascontiguousarray(found.transpose(2, 0, 1))).float()


def read_pixels(path: str | Path, images: Images, *, size: Pair, channels: int) -> UInt8[np.ndarray, "Y X C"]:
    """The picture's own pixels, resized and cropped as `images` says."""
    picture = resize(open_picture(path, channels), images.resize or size, images.resample)
    picture = picture if images.crop is None else crop(picture, images.crop)
    if (picture.height, picture.width) != size:
        raise ValueError(
            f"{path} became {picture.height} x {picture.width}, and the model reads {size[0]} x {size[1]}: set the "
            "configuration's images.crop, or leave images.resize out"
        )
    return np.asarray(picture).reshape(*size, channels)


def resize(picture: Any, size: Extent, resample: str) -> Any:
    """To rows and columns, or to a shorter side (the longer one is rounded down)."""
    if isinstance(size, int):
        short = min(picture.width, picture.height)
        size = (size * picture.height // short, size * picture.width // short)
    check_pixels(*size, "the picture resized")
    if size == (picture.height, picture.width):
        return picture
    return picture.resize(size[::-1], _pillow().Resampling[resample.upper()])


def crop(picture: Any, size: tuple[int, int]) -> Any:
    """The middle of a picture; one that is smaller gets a black border."""
    top, left = (picture.height - size[0]) // 2, (picture.width - size[1]) // 2
    return picture.crop((left, top, left + size[1], top + size[0]))


def open_picture(path: str | Path, channels: int | None = None) -> Any:
    """The picture, turned as its camera was held, in so many channels; in its own 1 or 3 where nobody says."""
    if channels is not None and channels not in MODES:
        raise ValueError(f"pictures have {', '.join(map(str, MODES))} channels, and this model reads {channels}")
    with open_file(path) as file:
        try:
            with _decoded(file, path) as picture:
                own = 1 if picture.mode in GREY else 3
                return import_module("PIL.ImageOps").exif_transpose(picture).convert(MODES[channels or own])
        except _DAMAGE as error:
            raise ValueError(f"{path} cannot be read as a picture: {error}") from None


def _decoded(file: BinaryIO, path: str | Path) -> Any:
    """A picture whose header was read; its pixels are not yet."""
    image = _pillow()
    try:
        with warnings.catch_warnings():  # what is too large is said by us
            warnings.simplefilter("ignore", image.DecompressionBombWarning)
            picture = image.open(file, formats=FORMATS)
    except image.DecompressionBombError:
        raise ValueError(f"it has more than {PIXELS:,} pixels") from None
    except image.UnidentifiedImageError:
        raise ValueError(f"it is none of {', '.join(FORMATS)}") from None
    check_pixels(picture.height, picture.width, "it", os.fstat(file.fileno()).st_size)
    return picture


def _pillow() -> Any:
    try:
        return import_module("PIL.Image")
    except ImportError:
        raise ValueError(
            'pictures are read with Pillow, which is not installed: pip install "headway[vision]"'
        ) from None


def per_channel(name: str, values: tuple[float, ...], channels: int) -> Float[np.ndarray, "_"]:
    if len(values) not in (1, channels):
        raise ValueError(f"images of {channels} channels have one {name} or {channels}, not {values}")
    return np.array(values)
