"""Fashion-MNIST (arXiv:1708.07747): 70,000 pictures of clothes, 28 x 28 greys, ten classes."""

import gzip
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from recipes.fetch.packages import debian

INSTALLED = "/usr/share/datasets/fashion-mnist"
PARTS = {"train": ("train", 60_000), "test": ("t10k", 10_000)}
CLASSES = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip


def make(place: Path) -> str:
    with TemporaryDirectory() as away:
        folder = debian("dataset-fashion-mnist", INSTALLED, Path(away))
        for name, (part, count) in PARTS.items():
            images = idx(gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes()))
            label = idx(gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes()))
            if images.shape != (count, 28, 28) or label.shape != (count,):
                raise ValueError(f"{folder} has {images.shape} pictures and {label.shape} labels, not {count:,} each")
            np.savez_compressed(place / f"fashion-{name}.npz", images=images, label=label.astype(np.int64))
    return "60,000 and 10,000 pictures in fashion-train.npz and fashion-test.npz"


def idx(content: bytes) -> np.ndarray:
    """An array of bytes as its file says: 0, 0, 8, the number of axes, the axes (four bytes each, high first), values.

    >>> idx(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 5, 2])).tolist()
    [7, 5, 2]
    """
    if content[:3] != bytes([0, 0, 8]):
        raise ValueError("a file of Fashion-MNIST does not begin as one should")
    axes = content[3]
    shape = np.frombuffer(content, ">u4", axes, 4)
    return np.frombuffer(content, np.uint8, offset=4 + 4 * axes).reshape(shape)
