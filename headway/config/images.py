"""How pictures become numbers: what a preprocessor does before a vision model looks."""

from typing import Literal

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

    def check(self, channels: int, image: Pair) -> None:
        """Refuse numbers that do not belong to images of so many channels and of this size."""
        for name, values in (("mean", self.mean), ("std", self.std)):
            if len(values) not in (1, channels):
                raise ValueError(f"images of {channels} channels have one {name} or {channels}, not {len(values)}")
        if 0 in self.std:
            raise ValueError(f"pixels are divided by std, and one of {self.std} is 0")
        exact = self.crop or (None if isinstance(self.resize, int) else self.resize)
        if exact is not None and exact != image:
            raise ValueError(
                f"pictures are brought to {exact[0]} x {exact[1]}, and the model reads {image[0]} x {image[1]}"
            )
        if exact is None and self.resize is not None:
            raise ValueError(f"a shorter side of {self.resize} leaves the other open: say what to crop")
