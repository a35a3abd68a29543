"""Pictures as examples: normalised, and while training moved and mirrored by draws from each example's own key."""

import numpy as np
import torch
from jaxtyping import Int

from headway.config.images import Images
from headway.data.album import Album
from headway.data.batch import Batch
from headway.data.image import per_channel

SHIFT = 8  # a picture moves by at most one part in so many of its side
AUGMENTS = ("none", "shift", "flip", "flip-shift")


class Pictures:
    """The examples of an album: `images` B C Y X in float32 and `label` B.

    `images` says how pixels become numbers, as `read_image` does it: (pixel · scale - mean) / std, pixels from 0 to
    255. With `augment` a picture is moved by up to an eighth of its sides, over black, or mirrored half of the time.
    """

    sizes = None  # all alike

    def __init__(self, album: Album, images: Images, *, augment: str = "none") -> None:
        if augment not in AUGMENTS:
            raise ValueError(f"there is no augmentation {augment!r}; there are {', '.join(AUGMENTS)}")
        if not len(album):
            raise ValueError("there are no pictures left: hold fewer of them back")
        self.album, self.augment = album, augment
        std = per_channel("std", images.std, album.channels)
        self.factor = np.float32(255 * images.scale / std)
        self.offset = np.float32(per_channel("mean", images.mean, album.channels) / std)

    def __len__(self) -> int:
        return len(self.album)

    def batch(self, rows: Int[np.ndarray, " B"], keys: Int[np.ndarray, " B"]) -> Batch:
        x = self.album.take(rows)
        if "flip" in self.augment:
            x = flipped(x, keys)
        if "shift" in self.augment:
            x = shifted(x, keys)
        images = (x * self.factor - self.offset).transpose(0, 3, 1, 2)
        label = self.album.labels[rows]
        inputs = {"images": torch.from_numpy(np.ascontiguousarray(images)), "label": torch.from_numpy(label)}
        return Batch(inputs, {"loss": len(rows)})


def flipped(x: np.ndarray, keys: Int[np.ndarray, " B"]) -> np.ndarray:
    """B Y X C, half of them from right to left."""
    turn = drawn(keys, 2, use=2) == 1
    return np.where(turn[:, None, None, None], x[:, :, ::-1], x)


def shifted(x: np.ndarray, keys: Int[np.ndarray, " B"]) -> np.ndarray:
    """B Y X C, each moved by at most an eighth of its sides (one pixel at least); what comes in is 0."""
    down, across = (max(1, side // SHIFT) for side in x.shape[1:3])
    x = np.pad(x, ((0, 0), (down, down), (across, across), (0, 0)))
    top, left = drawn(keys, 2 * down + 1, use=0), drawn(keys, 2 * across + 1, use=1)
    rows = top[:, None] + np.arange(x.shape[1] - 2 * down)
    columns = left[:, None] + np.arange(x.shape[2] - 2 * across)
    return x[np.arange(len(x))[:, None, None], rows[:, :, None], columns[:, None, :]]


def drawn(keys: Int[np.ndarray, " B"], bound: int, *, use: int) -> Int[np.ndarray, " B"]:
    """A number below `bound` for each key and use: the finaliser of SplitMix64 (Steele et al. 2014), its high bits.

    >>> drawn(np.array([3, 5, 7, 11]), 10, use=0).tolist()
    [1, 3, 3, 3]
    """
    z = np.asarray(keys).astype(np.uint64) + np.uint64((use + 1) * 0x9E3779B97F4A7C15 % 2**64)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return ((z >> np.uint64(32)) * np.uint64(bound) >> np.uint64(32)).astype(np.int64)
