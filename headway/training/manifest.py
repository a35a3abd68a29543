"""The manifest of a checkpoint: which part of which tensor is in which file, checked for meaning before it is used.

A hash says that nothing has changed since it was written, and anybody can write a new one. So the manifest is also read
as a claim: every tensor is covered exactly once, by slices within its bounds, in files of the checkpoint's own
directory whose hashes and headers are as listed.
"""

from collections.abc import Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from headway.config.read_file import read_object
from headway.config.size_limits import LARGE_BYTES
from headway.data.hashes import hash_of, stamp
from headway.hub.safetensors_file import DTYPES
from headway.training.slices import Piece

MANIFEST = "manifest.json"
FORMAT = {"format": "headway checkpoint", "version": 1}
_DTYPES = frozenset(DTYPES.values())


class Damaged(ValueError):
    """A checkpoint that is not what was written."""


def read(place: Path) -> dict[str, Any]:
    """What a checkpoint says of itself, if it makes sense; the contents of its files are not looked at."""
    if not (place / MANIFEST).is_file():
        raise damaged(place, f"{MANIFEST} is missing")
    try:
        body = read_object(place / MANIFEST, LARGE_BYTES)
        said = body.pop("sha256")
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise damaged(place, f"{MANIFEST} cannot be read ({error})") from None
    if stamp(body) != said:
        raise damaged(place, f"{MANIFEST} is not what was written")
    if body.get("version") != FORMAT["version"]:
        raise ValueError(f"checkpoint {place.name} has version {body.get('version')}; this headway reads version 1")
    if (complaint := next(_complaints(body), None)) is not None:
        raise damaged(place, f"{MANIFEST} {complaint}")
    return body


def damaged(place: Path, why: str) -> Damaged:
    return Damaged(f"checkpoint {place.name} is damaged: {why}")


def check_file(place: Path, name: str, body: Mapping[str, Any]) -> None:
    """Refuse a file that is not in its place, has changed, or holds other tensors than the manifest says."""
    path = place / name
    if not path.exists():
        raise damaged(place, f"{name} is missing")
    if not path.is_file() or path.resolve().parent != place.resolve():
        raise damaged(place, f"{name} is no file of its own directory")
    if hash_of(path) != body["files"][name]:
        raise damaged(place, f"{name} is not what was written")
    listed = {
        tensor: (said["dtype"], tuple(part["shape"]))
        for tensor, said in body["tensors"].items()
        for part in said["slices"]
        if part["file"] == name
    }
    held = _header(place, path)
    if wrong := sorted(tensor for tensor in held.keys() | listed.keys() if held.get(tensor) != listed.get(tensor)):
        raise damaged(place, f"{name} does not hold {wrong[0]!r} as {MANIFEST} says")


def _header(place: Path, path: Path) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Dtype and shape of each tensor in a file."""
    try:
        with safe_open(path, framework="pt") as file:
            parts = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 (not a dict)
            return {name: (part.get_dtype(), tuple(part.get_shape())) for name, part in parts.items()}
    except (SafetensorError, OSError) as error:
        raise damaged(place, f"{path.name} cannot be read ({error})") from None


def _complaints(body: Mapping[str, Any]) -> Iterator[str]:
    """What cannot be, as the ends of sentences about the manifest."""
    for part in ("facts", "machine", "files", "tensors"):
        if not isinstance(body.get(part), dict):
            yield f"has no object {part!r}"
            return
    for name, said in body["files"].items():
        yield from _about_file(name, said)
    for name, said in body["tensors"].items():
        yield from (f"{complaint} (tensor {name!r})" for complaint in _about_tensor(said, body["files"]))


def _about_file(name: str, said: Any) -> Iterator[str]:
    if name in ("", ".", "..", MANIFEST) or "\0" in name or "\\" in name or Path(name).name != name:
        yield f"names {name!r}, which is no file of its own directory"
    digest = said.get("sha256") if isinstance(said, dict) else None
    if not isinstance(digest, str) or len(digest) != 64 or not _is_size(said.get("bytes")):
        yield f"lists {name!r} without its size and hash"


def _about_tensor(said: Any, files: Mapping[str, Any]) -> Iterator[str]:
    if not isinstance(said, dict) or not _is_dtype(said.get("dtype")) or not isinstance(said.get("slices"), list):
        yield "has a tensor without a known dtype and a list of slices"
    elif not _are_sizes(said.get("shape")):
        yield f"has the shape {said.get('shape')}, which is not a list of whole numbers from 0"
    elif wrong := [part for part in said["slices"] if not _is_slice(part, len(said["shape"]))]:
        yield f"has the slice {wrong[0]}, which is not a file with an offset and a shape of {len(said['shape'])} axes"
    elif absent := [part["file"] for part in said["slices"] if part["file"] not in files]:
        yield f"has a slice in {absent[0]!r}, which is not among its files with a hash"
    elif len({part["file"] for part in said["slices"]}) != len(said["slices"]):
        yield "has two slices of one tensor in one file"
    else:
        boxes = [Piece(tuple(part["offset"]), tuple(part["shape"])) for part in said["slices"]]
        if (complaint := cover(tuple(said["shape"]), boxes)) is not None:
            yield complaint


def cover(shape: tuple[int, ...], boxes: list[Piece]) -> str | None:
    """None where each number of a tensor is in exactly one box; else what is wrong.

    >>> cover((5, 3), [Piece((0, 0), (2, 3)), Piece((2, 0), (2, 3))])
    'covers 12 of 15 numbers'
    """
    for box in boxes:
        if any(end > size for end, size in zip(box.ends, shape, strict=True)):
            return f"has a slice from {box.offset} of shape {box.shape}, outside of the shape {shape}"
    ordered = sorted((box for box in boxes if not box.empty), key=lambda box: box.offset)
    for place, box in enumerate(ordered):
        for other in ordered[place + 1 :]:
            if shape and other.offset[0] >= box.ends[0]:  # so do all that follow
                break
            if not box.common(other).empty:
                return f"covers numbers twice, by slices from {box.offset} and from {other.offset}"
    covered = sum(prod(box.shape) for box in ordered)
    return None if covered == prod(shape) else f"covers {covered} of {prod(shape)} numbers"


def _is_dtype(value: Any) -> bool:
    return isinstance(value, str) and value in _DTYPES


def _is_slice(part: Any, axes: int) -> bool:
    if not isinstance(part, dict) or not isinstance(part.get("file"), str):
        return False
    return all(_are_sizes(part.get(key)) and len(part[key]) == axes for key in ("offset", "shape"))


def _are_sizes(value: Any) -> bool:
    return isinstance(value, list) and all(map(_is_size, value))


def _is_size(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63
