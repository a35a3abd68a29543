"""Arrays from .npy and .npz files. What a header says is compared with the file before anything is read."""

import tokenize
import zipfile
import zlib
from collections.abc import Mapping
from math import prod
from mmap import mmap
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from headway.config.read_file import open_file
from headway.config.size_limits import check_expansion, check_memory

_HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
_DAMAGE = (
    ArithmeticError, EOFError, LookupError, MemoryError, NotImplementedError, OSError, RecursionError,
    RuntimeError, SyntaxError, TypeError, ValueError, tokenize.TokenError, zipfile.BadZipFile, zlib.error,
)  # fmt: skip


def map_npy(path: Path) -> np.ndarray:
    """An array that the system reads from the disk where it is looked at."""
    _check_npy(path)
    return np.load(path, mmap_mode="r", allow_pickle=False)


def check_mapped(array: np.ndarray, name: object) -> None:
    """Refuse a mapped array whose file was cut short: looking at what is gone would end the process (SIGBUS)."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap) and base.size() < len(base):
        raise ValueError(f"{name} was cut short while it was read: put back what it was, or begin anew")


def read_npy(path: Path) -> np.ndarray:
    """The same in memory."""
    check_memory(_check_npy(path), str(path))
    return np.load(path, allow_pickle=False)


def read_npz(path: Path, names: Mapping[str, tuple[str, ...]]) -> dict[str, np.ndarray]:
    """For each of our names the array that has one of theirs."""
    with open_file(path) as file:
        try:
            with zipfile.ZipFile(file) as archive:
                return _members(archive, path, names)
        except _Refused as error:
            raise ValueError(str(error)) from None
        except _DAMAGE as error:
            raise ValueError(f"{path} is no array of numbers that numpy has saved, or is damaged: {error}") from None


class _Refused(Exception):
    """A sentence of ours, among the errors of a library."""


def _members(archive: zipfile.ZipFile, path: Path, names: Mapping[str, tuple[str, ...]]) -> dict[str, np.ndarray]:
    stored = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
    chosen = {ours: next((name for name in theirs if name in stored), None) for ours, theirs in names.items()}
    if None in chosen.values():
        wanted = " and ".join(repr(theirs[0]) for theirs in names.values())
        raise _Refused(f"{path} holds {', '.join(stored)[:200]}, and not {wanted}")
    infos = {ours: stored[name] for ours, name in chosen.items() if name is not None}
    size = sum(info.file_size for info in infos.values())
    try:
        check_expansion(sum(info.compress_size for info in infos.values()), size, str(path))
        check_memory(size, str(path))
    except ValueError as error:
        raise _Refused(str(error)) from None
    return {ours: _member(archive, info, path) for ours, info in infos.items()}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path) -> np.ndarray:
    with archive.open(info) as file:
        if _claimed(file) != info.file_size:
            raise _Refused(f"{path} is damaged: the size of {info.filename} is not what its header says")
    with archive.open(info) as file:
        return np.lib.format.read_array(file, allow_pickle=False)


def _check_npy(path: Path) -> int:
    """The size of a file whose header fits to it."""
    with open_file(path) as file:
        size = file.seek(0, 2)
        file.seek(0)
        try:
            claimed = _claimed(file)
        except _DAMAGE:
            claimed = -1
    if claimed != size:
        raise ValueError(f"{path} is no array of numbers that numpy has saved, or is damaged")
    return size


def _claimed(file: BinaryIO | Any) -> int:
    """How many bytes an .npy has by its header."""
    shape, _, dtype = _HEADERS[np.lib.format.read_magic(file)](file)
    if dtype.hasobject or min(shape, default=0) < 0:
        raise ValueError("numbers are expected")
    return file.tell() + prod(shape) * dtype.itemsize
