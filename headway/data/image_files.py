"""Images with their classes on disk: .npz, pairs of .npy, MNIST's idx files, and folders with one folder per class."""

import hashlib
import io
import os
from collections.abc import Callable, Iterator
from itertools import chain
from math import prod
from pathlib import Path

import numpy as np

from headway.config.base import Pair
from headway.config.size_limits import check_expansion, check_memory
from headway.config.vision import Images
from headway.data.array_file import map_npy, read_npy, read_npz
from headway.data.image import open_picture, read_pixels
from headway.data.publish import sync, write_hashed
from headway.data.stream import open_stream

IDX = ("-idx3-ubyte", "-idx3-ubyte.gz")
ARRAYS = (".npz", ".npy", *IDX)
CACHED = "pictures-"  # how the files begin in which pictures of one size are kept
IMAGES, LABELS = ("images", "image", "x"), ("label", "labels", "y")  # names in an .npz


def read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """(pixels N Y X C, labels N); an .npy is mapped from the disk, page by page, and not read at once."""
    pixels, labels = _read_arrays(path)
    pixels = pixels[..., None] if pixels.ndim == 3 else pixels
    if pixels.ndim != 4 or pixels.dtype.kind not in "uif" or 0 in pixels.shape:
        raise ValueError(
            f"images are numbers of shape N Y X or N Y X C, and those of {path} are {pixels.dtype} of shape "
            f"{pixels.shape}"
        )
    if pixels.shape[3] not in (1, 3, 4):
        raise ValueError(f"images have 1, 3 or 4 channels, the last axis, and those of {path} {pixels.shape[3]}")
    return pixels, _checked_labels(path, labels, len(pixels))


def is_labels(path: Path) -> bool:
    """Whether a file holds the classes of another one beside it, so that a glob may find both."""
    return any(
        path.stem.endswith(tail) and path.with_name(path.stem.removesuffix(tail) + path.suffix).exists()
        for tail in ("-labels", "_labels")
    )


def _read_arrays(path: Path) -> tuple[np.ndarray, np.ndarray]:
    if path.suffix == ".npz":
        found = read_npz(path, {"images": IMAGES, "label": LABELS})
        return found["images"], found["label"]
    labels = labels_of(path)
    if labels is None:
        names = " or ".join(one.name for one in _beside(path)) or path.name.replace("idx3", "idx1")
        raise ValueError(f"the classes of {path.name} are expected beside it, in {names}")
    return (map_npy(path), read_npy(labels)) if path.suffix == ".npy" else (_idx(path), _idx(labels))


def labels_of(path: Path) -> Path | None:
    """The file beside that has the classes of these pictures, where there is one."""
    return next((one for one in _beside(path) if one.exists()), None)


def _beside(path: Path) -> list[Path]:
    if path.suffix == ".npy":
        return [path.with_name(f"{path.stem}{tail}.npy") for tail in ("-labels", "_labels")]
    name = path.name.replace("-images-idx3", "-labels-idx1")
    return [path.with_name(name)] if name != path.name else []


def _checked_labels(path: Path, labels: np.ndarray, count: int) -> np.ndarray:
    if labels.shape != (count,):
        raise ValueError(f"{path} has {count} images, and labels of shape {labels.shape}: one is needed for each")
    if labels.dtype.kind == "f" and np.array_equal(labels, labels.round()):
        labels = labels.astype(np.int64)
    if labels.dtype.kind not in "iuUS":
        raise ValueError(f"labels are whole numbers or names, and those of {path} are {labels.dtype}")
    return labels.astype(str) if labels.dtype.kind == "S" else labels


def _idx(path: Path) -> np.ndarray:
    """Bytes 0 0 8 and the number of axes, their sizes as big-endian 32-bit numbers, then the values."""
    with open_stream(path) as file:
        head = file.read(4)
        axes = head[3] if head[:3] == b"\0\0\x08" and len(head) > 3 else 0
        sizes = file.read(4 * axes)
        shape = tuple(np.frombuffer(sizes, ">u4").tolist()) if len(sizes) == 4 * axes else ()
        check_memory(prod(shape), str(path))
        check_expansion(path.stat().st_size, prod(shape), str(path))
        data = file.read(prod(shape) + 1) if axes and axes == len(shape) else b""
    if not shape or len(data) != prod(shape):
        raise ValueError(f"{path} is not an idx file of bytes, or is damaged")
    return np.frombuffer(data, np.uint8).reshape(shape)


PICTURES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm")


def read_folder(
    folder: Path,
    images: Images,
    *,
    size: Pair | None,
    channels: int | None,
    cache: Path | None,
    progress: Callable[[int, int], None],
) -> tuple[np.ndarray, np.ndarray]:
    """(pixels N Y X C, class names N), class by class; the first picture decides what nobody says.

    With a `cache` the pixels are written there once, under a name made of all that they come from, and mapped.
    """
    found = [(path, name) for name, paths in _classes(folder).items() for path in paths]
    first = open_picture(found[0][0], channels)
    size, channels = size or (first.height, first.width), channels or len(first.getbands())
    shape = (len(found), *size, channels)
    labels = np.array([name for _, name in found])
    if cache is None:
        check_memory(prod(shape), str(folder))
        pixels = np.empty(shape, np.uint8)
        for row, one in enumerate(_pixels(shape, found, images, progress)):
            pixels[row] = one
        return pixels, labels
    kept = cache / f"{CACHED}{_cache_key(found, images, shape)}.npy"
    if not kept.exists():
        _write_cache(kept, shape, found, images, progress)
    try:
        return map_npy(kept), labels
    except ValueError as error:
        raise ValueError(f"{error}: remove it, and it is made again") from None


def _classes(folder: Path) -> dict[str, list[Path]]:
    """Name of a class -> its pictures, both in the order of their names."""
    inside = sorted(path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))
    if not inside:
        raise ValueError(f"{folder} has no folders: pictures are expected in one folder per class")
    found = {path.name: _pictures(path) for path in inside}
    if empty := [name for name, pictures in found.items() if not pictures]:
        raise ValueError(f"there are no pictures in {folder / empty[0]} ({', '.join(PICTURES)})")
    return found


def _pictures(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.suffix.lower() in PICTURES and path.name[0] != ".")


def _pixels(
    shape: tuple[int, ...], found: list[tuple[Path, str]], images: Images, progress: Callable[[int, int], None]
) -> Iterator[np.ndarray]:
    """Picture by picture, Y X C in bytes."""
    for row, (path, _) in enumerate(found):
        yield np.ascontiguousarray(read_pixels(path, images, size=(shape[1], shape[2]), channels=shape[3]), np.uint8)
        progress(row + 1, len(found))


def _write_cache(
    kept: Path,
    shape: tuple[int, ...],
    found: list[tuple[Path, str]],
    images: Images,
    progress: Callable[[int, int], None],
) -> None:
    """The file is there when it is whole. It is written, not mapped: a full disk is then an error, and no signal."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_name(f".{kept.name}.{os.getpid()}")
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "|u1", "fortran_order": False, "shape": shape})
    try:
        pixels = (one.tobytes() for one in _pixels(shape, found, images, progress))
        write_hashed(part, chain([head.getvalue()], pixels))
        part.replace(kept)
        sync(kept.parent)
    finally:
        part.unlink(missing_ok=True)


def _cache_key(found: list[tuple[Path, str]], images: Images, shape: tuple[int, ...]) -> str:
    """A name for these pixels: another picture, size or way of resizing gives another one."""
    seen = hashlib.sha256(f"{shape} {images.resize} {images.crop} {images.resample}".encode())
    for path, name in found:
        about = path.stat()
        seen.update(f"{path.resolve()} {name} {about.st_size} {about.st_mtime_ns}\n".encode())
    return seen.hexdigest()[:16]
