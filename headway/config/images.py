"""How pictures become numbers: what a preprocessor does before a vision model looks."""

from typing import Literal

from pydantic import field_validator

from headway.config.base import Extent, Frozen, Pair

Resample = Literal["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]


class Images(Frozen):
    """A picture is resized, its middle is cut out, and each pixel becomes (pixel · scale - mean) / std.

    `resize` is rows and columns, one number for the shorter side, or None for the size that the model reads. `mean` and
    `std` are one number, or one a channel.
    """

    resize: Extent | None = None
    crop: Pair | None = None
    resample: Resample = "bilinear"
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.5,)
    std: tuple[float, ...] = (0.5,)

    @field_validator("std")
    @classmethod
    def _divides(cls, std: tuple[float, ...]) -> tuple[float, ...]:
        if 0 in std:
            raise ValueError(f"pixels are divided by std, and one of {std} is 0")
        return std
