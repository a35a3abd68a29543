"""Images and their classes as arrays on disk: .npz, pairs of .npy, and the idx files that MNIST began."""

import gzip
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

IDX = ("-idx3-ubyte", "-idx3-ubyte.gz")
ARRAYS = (".npz", ".npy", *IDX)
IMAGES, LABELS = ("images", "image", "x"), ("label", "labels", "y")  # names in an .npz


def read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(pixels N Y X C, labels N); an .npy is mapped from the disk, page by page, and not read at once."""
    try:
        pixels, labels = _read(path)
    except (OSError, EOFError, zipfile.BadZipFile) as error:
        raise ValueError(f"{path} cannot be read as an array: {error}") from None
    pixels = pixels[..., None] if pixels.ndim == 3 else pixels
    if pixels.ndim != 4 or pixels.dtype.kind not in "uif" or 0 in pixels.shape:
        raise ValueError(
            f"images are numbers of shape N Y X or N Y X C, and those of {path} are {pixels.dtype} of shape "
            f"{pixels.shape}"
        )
    if pixels.shape[3] not in (1, 3, 4):
        raise ValueError(f"images have 1, 3 or 4 channels, the last axis, and those of {path} {pixels.shape[3]}")
    return pixels, _labels(path, labels, len(pixels))


def is_labels(path: Path) -> bool:
    """Whether a file holds the classes of another one beside it, so that a glob may find both."""
    return any(
        path.stem.endswith(tail) and path.with_name(path.stem.removesuffix(tail) + path.suffix).exists()
        for tail in ("-labels", "_labels")
    )


def _read(path: Path) -> tuple[np.ndarray, np.ndarray]:
    if path.suffix == ".npz":
        return _npz(path)
    if path.suffix == ".npy":
        return _npy(path, mapped=True), _npy(_beside(path), mapped=False)
    labels = path.with_name(path.name.replace("-images-idx3", "-labels-idx1"))
    if labels == path or not labels.exists():
        raise ValueError(f"the classes of {path.name} are expected beside it, in {labels.name.replace('idx3', 'idx1')}")
    return _idx(path), _idx(labels)


def _npz(path: Path) -> tuple[np.ndarray, np.ndarray]:
    found = _npy(path, mapped=False)
    with found:
        images = next((name for name in IMAGES if name in found), None)
        labels = next((name for name in LABELS if name in found), None)
        if images is None or labels is None:
            raise ValueError(f"{path} holds {', '.join(found)}, and not 'images' and 'label'")
        return found[images], found[labels]


def _npy(path: Path, *, mapped: bool) -> Any:
    try:
        return np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except ValueError:  # a pickle, or half a file
        raise ValueError(f"{path} is no array of numbers that numpy has saved, or is damaged") from None


def _beside(path: Path) -> Path:
    both = [path.with_name(f"{path.stem}{tail}.npy") for tail in ("-labels", "_labels")]
    found = next((one for one in both if one.exists()), None)
    if found is None:
        raise ValueError(f"the classes of {path.name} are expected beside it, in {both[0].name} or {both[1].name}")
    return found


def _labels(path: Path, labels: np.ndarray, count: int) -> np.ndarray:
    if labels.shape != (count,):
        raise ValueError(f"{path} has {count} images, and labels of shape {labels.shape}: one is needed for each")
    if labels.dtype.kind == "f" and np.array_equal(labels, labels.round()):
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iuUS":
        raise ValueError(f"labels are whole numbers or names, and those of {path} are {labels.dtype}")
    return labels.astype(str) if labels.dtype.kind == "S" else labels


def _idx(path: Path) -> np.ndarray:
    """Bytes 0 0 8 and the number of axes, their sizes as big-endian 32-bit numbers, then the values."""
    with gzip.open(path) if path.suffix == ".gz" else path.open("rb") as file:
        data = file.read()
    axes = data[3] if data[:3] == b"\0\0\x08" and len(data) > 3 else 0
    shape = tuple(np.frombuffer(data, ">u4", axes, 4).tolist()) if len(data) >= 4 + 4 * axes else ()
    if not axes or len(data) != 4 + 4 * axes + int(np.prod(shape)):
        raise ValueError(f"{path} is not an idx file of bytes, or is damaged")
    return np.frombuffer(data, np.uint8, offset=4 + 4 * axes).reshape(shape)
