"""Many pictures with their classes: from folders, arrays on disk or scikit-learn's digits, all of one size.

    folder/<class>/*.png     one folder per class; every picture is brought to one size
    x.npz                    `images` (N Y X or N Y X C) and `label` (N)
    x.npy                    the images; their classes in x-labels.npy or x_labels.npy beside it; mapped, not read
    …-idx3-ubyte[.gz]        as MNIST has them, the classes in …-labels-idx1-ubyte[.gz] beside it
    digits, digits-test      four fifths and one fifth of scikit-learn's 8 x 8 digits; digits-all

A pixel is a whole number from 0 to 255, or a number from 0 to 1.

Pictures as examples: normalised, and while training moved and mirrored by draws from each example's own key."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from glob import glob, has_magic
from importlib import import_module
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Int

from headway.config.base import Pair
from headway.config.vision import Images
from headway.data.array_file import check_mapped
from headway.data.batch import Batch
from headway.data.image import per_channel
from headway.data.image_files import ARRAYS, is_labels, read_arrays, read_folder
from headway.data.loader import scrambled

DIGITS = ("digits", "digits-test", "digits-all")
CHUNK = 4096  # pictures to look at in one go


@dataclass(frozen=True)
class ImageArray:
    """Pictures in one array, whatever their numbers; times `unit`, pixels go from 0 to 1."""

    where: str
    pixels: np.ndarray  # N Y X C
    labels: np.ndarray  # N; whole numbers, or names
    unit: float


@dataclass(frozen=True)
class ImageDataset:
    """Pictures of one size, each with the number of its class; `rows` are those of all arrays that belong to it."""

    arrays: tuple[ImageArray, ...]
    label: Int[np.ndarray, " A"]  # of every picture in the arrays
    names: tuple[str, ...]  # of the classes
    rows: Int[np.ndarray, " N"]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def size(self) -> Pair:
        """Rows and columns of pixels."""
        return self.arrays[0].pixels.shape[1:3]

    @property
    def channels(self) -> int:
        return self.arrays[0].pixels.shape[3]

    @property
    def labels(self) -> Int[np.ndarray, " N"]:
        return self.label[self.rows]

    @cached_property
    def _starts(self) -> np.ndarray:
        return np.cumsum([0, *(len(array.pixels) for array in self.arrays)])

    def take(self, rows: Int[np.ndarray, " B"]) -> np.ndarray:
        """B Y X C in float32, from 0 to 1."""
        rows = self.rows[rows]
        found = np.empty((len(rows), *self.size, self.channels), np.float32)
        for start, array in zip(self._starts, self.arrays, strict=False):
            check_mapped(array.pixels, array.where)
            here = (rows >= start) & (rows < start + len(array.pixels))
            found[here] = array.pixels[rows[here] - start] * np.float32(array.unit)
        return found

    def split(self, held: float) -> tuple["ImageDataset", "ImageDataset"]:
        """(the rest, a share of `held`): drawn once and for all, since a folder has its classes one after the other."""
        order = _fixed(len(self))
        count = round(held * len(self))
        parts = np.sort(order[count:]), np.sort(order[:count])
        rest, other = (ImageDataset(self.arrays, self.label, self.names, self.rows[part]) for part in parts)
        return rest, other

    def measure(self) -> Images:
        """How these pictures become numbers of mean 0 and deviation 1 in every channel."""
        sums = np.zeros((2, self.channels))
        for start in range(0, len(self), CHUNK):
            x = self.take(np.arange(start, min(start + CHUNK, len(self)))).astype(np.float64)
            sums += [x.sum((0, 1, 2)), np.square(x).sum((0, 1, 2))]
        mean, square = sums / (len(self) * self.size[0] * self.size[1])
        std = np.sqrt(np.maximum(square - mean**2, 0))
        # A channel that never changes has nothing to divide by.
        return Images(mean=tuple(mean.tolist()), std=tuple(np.where(std > 1e-6, std, 1.0).tolist()))


def read_images(
    places: Sequence[str],
    *,
    size: Pair | None = None,
    channels: int | None = None,
    names: tuple[str, ...] | None = None,
    images: Images | None = None,
    cache: Path | None = None,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> ImageDataset:
    """All pictures of these places.

    `size`, `channels`, `names` and `images` are a model's; without them the first picture and the data decide. Pictures
    from folders are kept in one array, mapped from a file in `cache` where there is one.
    """
    arrays: list[ImageArray] = []
    for place in _files(places):
        array = _read_array(place, size, channels, images or Images(), cache, progress)
        size, channels = size or array.pixels.shape[1:3], channels or int(array.pixels.shape[3])
        _check(array, size, channels)
        arrays.append(array)
    if not arrays:
        raise ValueError("there are no pictures: name a folder, an .npz, an .npy or digits")
    label, found = _numbered(arrays, names)
    return ImageDataset(tuple(arrays), label, found, np.arange(len(label)))


def _files(places: Sequence[str]) -> Iterator[str]:
    """The places, and for a pattern the files that it stands for, without those that hold the classes of others."""
    for place in places:
        found = sorted(glob(place)) if has_magic(place) and not Path(place).exists() else [place]
        if not found:
            raise ValueError(f"no file matches {place}")
        yield from (one for one in found if not is_labels(Path(one)))


def _read_array(
    place: str,
    size: Pair | None,
    channels: int | None,
    images: Images,
    cache: Path | None,
    progress: Callable[[int, int], None],
) -> ImageArray:
    path = Path(place).expanduser()
    if place in DIGITS and not path.exists():
        return _digits(place)
    if path.is_dir():
        pixels, labels = read_folder(path, images, size=size, channels=channels, cache=cache, progress=progress)
        return ImageArray(place, pixels, labels, 1 / 255)
    if not path.exists():
        raise ValueError(f"there is no file or folder {place}; pictures by name are {', '.join(DIGITS)}")
    if not path.name.endswith(ARRAYS):
        raise ValueError(f"{place} holds no pictures: give a folder with one folder per class, or {', '.join(ARRAYS)}")
    pixels, labels = read_arrays(path)
    return ImageArray(place, pixels, labels, _unit(place, pixels))


def _unit(place: str, pixels: np.ndarray) -> float:
    """1/255 for bytes; 1 or 1/255 for other numbers, as their largest says."""
    if pixels.dtype == np.uint8:
        return 1 / 255
    parts = [pixels[start : start + CHUNK] for start in range(0, len(pixels), CHUNK)]
    low, high = min(float(part.min()) for part in parts), max(float(part.max()) for part in parts)
    if not (low >= 0 and high <= 255):  # so that NaN is refused too
        raise ValueError(f"pixels go from 0 to 1 or from 0 to 255, and those of {place} from {low:g} to {high:g}")
    return 1.0 if high <= 1 else 1 / 255


def _check(array: ImageArray, size: Pair, channels: int) -> None:
    found = array.pixels.shape
    if found[1:3] != tuple(size):
        raise ValueError(
            f"the pictures of {array.where} have {found[1]} x {found[2]} pixels, and {size[0]} x {size[1]} are "
            "expected: bring all of them to one size"
        )
    if found[3] != channels:
        raise ValueError(f"the pictures of {array.where} have {found[3]} channels, and {channels} are expected")


def _numbered(arrays: Sequence[ImageArray], names: tuple[str, ...] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """The number of each picture's class, and the names of the classes."""
    if names is None:
        names = _names(arrays)
    index = {name: number for number, name in enumerate(names)}
    return np.concatenate([_numbers(array, names, index) for array in arrays]), names


def _names(arrays: Sequence[ImageArray]) -> tuple[str, ...]:
    values = np.unique(np.concatenate([array.labels.astype(str) for array in arrays]))
    where = ", ".join(array.where for array in arrays)
    if len(values) < 2:
        raise ValueError(f"all pictures of {where} are of one class, {str(values[0])!r}: there is nothing to learn")
    if all(array.labels.dtype.kind in "iu" for array in arrays):
        low, high = (int(found) for found in (values.astype(int).min(), values.astype(int).max()))
        if low < 0 or high >= 2**16:
            raise ValueError(f"classes count from 0, and {where} has the label {low if low < 0 else high}")
        return tuple(str(number) for number in range(high + 1))
    return tuple(values.tolist())


def _numbers(array: ImageArray, names: tuple[str, ...], index: dict[str, int]) -> np.ndarray:
    values, back = np.unique(array.labels, return_inverse=True)
    if array.labels.dtype.kind in "iu":
        if (wrong := values[(values < 0) | (values >= len(names))]).size:
            raise ValueError(f"{array.where} has the label {wrong[0]}, and the {len(names)} classes count from 0")
        return array.labels.astype(np.int64)
    if unknown := [str(value) for value in values if str(value) not in index]:
        raise ValueError(
            f"the class {unknown[0]!r} of {array.where} was never seen in training; there are {', '.join(names[:20])}"
        )
    return np.array([index[str(value)] for value in values], np.int64)[back]


def _fixed(count: int) -> np.ndarray:
    """A permutation that is the same everywhere and for ever: numpy has frozen the streams of RandomState."""
    return np.random.RandomState(0).permutation(count)


def _digits(name: str) -> ImageArray:
    """1,797 pictures of 8 x 8; every fifth of a fixed permutation, 360 of them, is for the test."""
    try:
        whole = import_module("sklearn.datasets").load_digits()
    except ImportError:
        raise ValueError('digits come with scikit-learn, which is not installed: pip install "headway[data]"') from None
    order = _fixed(len(whole.target))
    test = np.arange(len(order)) % 5 == 0
    rows = np.sort(order[{"digits": ~test, "digits-test": test, "digits-all": test | True}[name]])
    return ImageArray(name, whole.images[rows, :, :, None].astype(np.uint8), whole.target[rows], 1 / 16)


SHIFT = 8  # a picture moves by at most one part in so many of its side
AUGMENTS = ("none", "shift", "flip", "flip-shift")


class ImageExamples:
    """The examples of a dataset: `images` B C Y X in float32 and `label` B.

    `images` says how pixels become numbers, as `read_image` does it: (pixel · scale - mean) / std, pixels from 0 to
    255. With `augment` a picture is moved by up to an eighth of its sides, over black, or mirrored half of the time.
    """

    sizes = None  # all alike

    def __init__(self, dataset: ImageDataset, images: Images, *, augment: str = "none") -> None:
        if augment not in AUGMENTS:
            raise ValueError(f"there is no augmentation {augment!r}; there are {', '.join(AUGMENTS)}")
        if not len(dataset):
            raise ValueError("there are no pictures left: hold fewer of them back")
        self.dataset, self.augment = dataset, augment
        std = per_channel("std", images.std, dataset.channels)
        self.factor = np.float32(255 * images.scale / std)
        self.offset = np.float32(per_channel("mean", images.mean, dataset.channels) / std)

    def __len__(self) -> int:
        return len(self.dataset)

    def batch(self, rows: Int[np.ndarray, " B"], keys: Int[np.ndarray, " B"]) -> Batch:
        x = self.dataset.take(rows)
        if "flip" in self.augment:
            x = flipped(x, keys)
        if "shift" in self.augment:
            x = shifted(x, keys)
        images = (x * self.factor - self.offset).transpose(0, 3, 1, 2)
        label = self.dataset.labels[rows]
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
    z = scrambled(np.asarray(keys).astype(np.uint64) + np.uint64((use + 1) * 0x9E3779B97F4A7C15 % 2**64))
    return ((z >> np.uint64(32)) * np.uint64(bound) >> np.uint64(32)).astype(np.int64)
