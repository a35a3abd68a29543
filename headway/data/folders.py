"""Pictures in folders, one folder per class, as one array of pixels."""

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from headway.config.base import Pair
from headway.config.images import Images
from headway.data.image import open_picture, read_pixels

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
        pixels = np.empty(shape, np.uint8)
        _fill(pixels, found, images, progress)
        return pixels, labels
    kept = cache / f"pictures-{_print(found, images, shape)}.npy"
    if not kept.exists():
        _write(kept, shape, found, images, progress)
    return np.load(kept, mmap_mode="r"), labels


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


def _fill(
    pixels: np.ndarray, found: list[tuple[Path, str]], images: Images, progress: Callable[[int, int], None]
) -> None:
    for row, (path, _) in enumerate(found):
        pixels[row] = read_pixels(path, images, size=pixels.shape[1:3], channels=pixels.shape[3])
        progress(row + 1, len(found))


def _write(
    kept: Path,
    shape: tuple[int, ...],
    found: list[tuple[Path, str]],
    images: Images,
    progress: Callable[[int, int], None],
) -> None:
    """The file is there when it is whole."""
    kept.parent.mkdir(parents=True, exist_ok=True)
    part = kept.with_name(f".{kept.name}.{os.getpid()}")
    try:
        pixels = np.lib.format.open_memmap(part, "w+", np.uint8, shape)
        _fill(pixels, found, images, progress)
        pixels.flush()
        part.replace(kept)
    finally:
        part.unlink(missing_ok=True)


def _print(found: list[tuple[Path, str]], images: Images, shape: tuple[int, ...]) -> str:
    """A name for these pixels: another picture, size or way of resizing gives another one."""
    seen = hashlib.sha256(f"{shape} {images.resize} {images.crop} {images.resample}".encode())
    for path, name in found:
        about = path.stat()
        seen.update(f"{path.resolve()} {name} {about.st_size} {about.st_mtime_ns}\n".encode())
    return seen.hexdigest()[:16]
