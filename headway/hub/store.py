"""The tensors of a directory: one safetensors file, or shards and their index. Headers are read; tensors when asked."""

from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor

from headway.config.read_file import open_file
from headway.data.files import read_json, read_optional
from headway.hub.content_hash import CONTENT, joined_hash
from headway.hub.safetensors_file import DTYPES
from headway.native.blake3 import Scan, TensorScan
from headway.native.build import library

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
HASH = "headway_hash"  # where a file that we wrote says what it holds
PICKLES = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack")
CHANGED = "the weights in {} are not those that were saved: their hash has changed"
POINTER = b"version https://git-lfs"
FLOATS = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
}  # fmt: skip


@dataclass(frozen=True)
class Header:
    """What a file says of one tensor before it is read."""

    file: str
    shape: tuple[int, ...]
    dtype: str


class Store:
    """The tensors of a directory, mapped into memory; use it in a `with`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._stack = ExitStack()
        self._open: dict[str, Any] = {}
        self._tensors: dict[str, Tensor] = {}
        self.headers: dict[str, Header] = {}
        self.files: dict[str, tuple[int, ...]] = {}  # which files these are: inode, size and time
        self.absent: dict[str, str] = {}  # names in the index that no file holds, and which it says does
        self.written_hash: str | None = None  # the hash that the writer noted
        self.written_content: str | None = None  # and that of the bytes, in files of newer versions
        try:
            self._read_headers()
        except BaseException:
            self._stack.close()
            raise

    def __enter__(self) -> "Store":
        return self

    def __exit__(self, *error: object) -> None:
        if "scan" in vars(self):
            self.scan.stop()
        self._stack.close()

    def tensor(self, name: str) -> Tensor:
        """One tensor, as the file holds it."""
        if name not in self._tensors:
            self._tensors[name] = self._open[self.headers[name].file].get_tensor(name)
        return self._tensors[name]

    @property
    def has_content_hash(self) -> bool:
        """Whether the bytes are compared by the hash that is fast where there are compiled kernels."""
        return self.written_content is not None and library() is not None

    @cached_property
    def scan(self) -> Scan:
        """One pass over all bytes, in a thread of its own from the moment somebody first asks for it."""
        known = DTYPES.values()
        tensors = {name: self.tensor(name) for name, header in self.headers.items() if header.dtype in known}
        return Scan(tensors, hashed=self.has_content_hash)

    def scanned(self) -> dict[str, TensorScan]:
        """What the pass found; weights that are not those that were written are refused."""
        found = self.scan.results()
        if self.has_content_hash:
            tensors = {name: self.tensor(name) for name in found}
            if joined_hash(found, tensors, self.written_hash or "") != self.written_content:
                raise ValueError(CHANGED.format(self.directory))
        return found

    def _read_headers(self) -> None:
        if (self.directory / INDEX).exists():
            self._read_shards()
        elif (self.directory / WEIGHTS).exists():
            self._read_file(WEIGHTS)
        else:
            raise ValueError(_nothing_here(self.directory))

    def _read_shards(self) -> None:
        where = self.directory / INDEX
        index = read_json(where)
        places = index.get("weight_map")
        if not isinstance(places, dict) or not places:
            raise ValueError(f"{where} has no weight_map that says which file holds which tensor")
        if wrong := [name for name, file in places.items() if not isinstance(file, str)]:
            raise ValueError(f"{where} says that {places[wrong[0]]!r} holds {wrong[0]!r}; a file's name is expected")
        for file in sorted(set(places.values())):
            if Path(file).name != file:
                raise ValueError(f"{where} names {file!r}, which is not a file of its own directory")
            self._read_file(file)
        said = index.get("metadata") or {}
        self._read_notes(said if isinstance(said, dict) else {})
        self.absent = {name: file for name, file in places.items() if name not in self.headers}
        for name, file in places.items():
            if name in self.headers and self.headers[name].file != file:
                raise ValueError(f"{where} says that {file} holds {name!r}, and {self.headers[name].file} does")
        if (self.directory / WEIGHTS).exists() and WEIGHTS not in places.values():
            raise ValueError(
                f"{self.directory} holds {WEIGHTS} and {INDEX} with other files: take away what is not the model"
            )

    def _read_notes(self, said: Mapping[str, Any]) -> None:
        self.written_hash, self.written_content = said.get(HASH), said.get(CONTENT)
        for key in (HASH, CONTENT):
            if not isinstance(said.get(key, ""), str):
                raise ValueError(f"{self.directory} says {said[key]!r} as {key}, and a hash is text")

    def _read_file(self, file: str) -> None:
        path = self.directory / file
        if not path.is_file():
            raise ValueError(f"{path} is missing, and {INDEX} names it")
        try:
            # Entered here, left together with the store.
            opened = self._stack.enter_context(safe_open(path, framework="pt"))
        except (SafetensorError, OSError) as error:
            raise ValueError(f"{path} is not a whole safetensors file: {_why(path, error)}") from None
        self._open[file] = opened
        status = path.stat()
        self.files[file] = (status.st_ino, status.st_size, status.st_mtime_ns)
        self._read_notes(opened.metadata() or {})
        for name in opened.keys():  # noqa: SIM118 (not a dict)
            if name in self.headers:
                raise ValueError(f"{name!r} stands in {self.headers[name].file} and again in {file}")
            part = opened.get_slice(name)
            self.headers[name] = Header(file, tuple(part.get_shape()), part.get_dtype())


def _why(path: Path, error: Exception) -> str:
    """A clone without large files leaves a few lines of text where each of them should be."""
    with open_file(path) as file:
        pointer = file.read(len(POINTER)) == POINTER
    return "it is a pointer of git-lfs (`git lfs pull` brings the file)" if pointer else str(error)


def _nothing_here(directory: Path) -> str:
    pickles = sorted(_files(directory, PICKLES))
    if pickles:
        return (
            f"{directory / pickles[0]} may run code when it is read, and is not opened: weights are read from "
            f"{WEIGHTS} alone; ask its maker for safetensors"
        )
    return f"{directory} holds neither {WEIGHTS} nor {INDEX}"


def _files(directory: Path, endings: tuple[str, ...]) -> Iterator[str]:
    return (path.name for path in directory.iterdir() if path.suffix in endings)


# What decoding depends on stands in generation_config.json, in newer directories there alone.
DECODING = ("eos_token_id", "decoder_start_token_id", "forced_bos_token_id", "forced_eos_token_id", "bad_words_ids")


def read_config(directory: Path) -> dict[str, Any]:
    """config.json, with what generation_config.json says of decoding and preprocessor_config.json of pictures."""
    config = read_json(directory / "config.json")
    said = read_optional(directory / "generation_config.json")
    config |= {key: said[key] for key in DECODING if said.get(key) is not None}
    if pictures := read_optional(directory / "preprocessor_config.json"):
        config["preprocessor"] = pictures
    return config


def tensor_names(directory: Path) -> tuple[str, ...]:
    """What the tensors of a directory are called; nothing where its files cannot be read."""
    try:
        with Store(directory) as store:
            return tuple(store.headers)
    except ValueError:
        return ()
