"""Documents to shards of tokens: once, in batches, and from where it was when it was killed.

    build(documents(places), tokenizer, directory, identity=fingerprint(places)).split(0.1)

gives two views of the tokens, to learn from and to measure with.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import numpy as np

from headway.data.chunks import Chunk, Document, chunks_of
from headway.data.files import read_json, write_whole
from headway.data.tokenizer import Tokenizer
from headway.data.tokens import DOCUMENTS, MANIFEST, MARKS, Shards, opened, shard_name, tokenizer_hash

SHARD_TOKENS = 1 << 24
CHUNKS = 256  # that are encoded together; the library spreads them over the processor's cores
KINDS = ("", ".documents", ".marks")


@dataclass(frozen=True)
class Progress:
    """How far the work is."""

    documents: int
    tokens: int
    bytes: int


@dataclass
class _Growing:
    """The shard that is being filled, and the counts of all before it."""

    tokens: int = 0
    bytes: int = 0
    documents: int = 0
    chunks: int = 0
    rows: list[np.ndarray] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    marks: list[tuple[int, int]] = field(default_factory=list)

    def add(self, row: np.ndarray) -> None:
        self.rows.append(row)
        self.tokens += len(row)

    def flush(self) -> None:
        self.rows, self.starts, self.marks = [], [], []


def build(
    documents: Iterable[Document],
    tokenizer: Tokenizer,
    directory: str | Path,
    *,
    identity: str,
    progress: Callable[[Progress], None] | None = None,
    shard_tokens: int = SHARD_TOKENS,
) -> Shards:
    """The shards of these documents, made where they are not there yet.

    `identity` stands for the data. Where a manifest in the directory names the same data and tokenizer, finished shards
    are kept and the rest is made; where it names others, all is made anew.
    """
    place = Path(directory)
    place.mkdir(parents=True, exist_ok=True)
    manifest = _begun(
        place,
        {"identity": identity, "tokenizer": tokenizer_hash(tokenizer), "size": tokenizer.size, "end": tokenizer.end},
    )
    if not manifest["finished"]:
        _fill(place, manifest, chunks_of(documents), tokenizer, shard_tokens, progress or (lambda _: None))
        _finish(place, manifest)
    return Shards.open(place)


def _begun(place: Path, wanted: dict) -> dict:
    """The manifest of work on the same data and tokenizer, or a fresh one in a directory without old shards."""
    try:
        found = read_json(place / MANIFEST) if (place / MANIFEST).exists() else {}
    except ValueError:
        found = {}
    if all(found.get(key) == value for key, value in wanted.items()):
        return found
    (place / MANIFEST).unlink(missing_ok=True)
    for path in [*place.glob("shard-*.npy"), place / DOCUMENTS, place / MARKS]:
        path.unlink(missing_ok=True)
    return {**wanted, "finished": False, "tokens": 0, "bytes": 0, "documents": 0, "chunks": 0, "shards": []}


def _fill(
    place: Path,
    manifest: dict,
    chunks: Iterator[Chunk],
    tokenizer: Tokenizer,
    shard_tokens: int,
    progress: Callable[[Progress], None],
) -> None:
    end = () if tokenizer.end is None else (tokenizer.end,)
    kind = np.dtype(np.uint16 if tokenizer.size <= 1 << 16 else np.uint32)
    now = _Growing(*(manifest[key] for key in ("tokens", "bytes", "documents", "chunks")))
    if not now.chunks:
        now.add(np.array(end, kind))
    chunks = islice(chunks, now.chunks, None)
    while batch := list(islice(chunks, CHUNKS)):
        for chunk, found in zip(batch, tokenizer.encode_all([one.text for one in batch], special=False), strict=True):
            _append(now, chunk, np.array(found, kind), np.array(end, kind))
        progress(Progress(now.documents, now.tokens, now.bytes))
        if now.tokens - manifest["tokens"] >= shard_tokens:
            _write(place, manifest, now)
    if now.rows:
        _write(place, manifest, now)


def _append(now: _Growing, chunk: Chunk, found: np.ndarray, end: np.ndarray) -> None:
    now.marks.append((now.tokens, now.bytes))
    if chunk.starts:
        now.starts.append(now.tokens)
        now.documents += 1
    now.add(found)
    if chunk.ends:
        now.add(end)
    now.chunks += 1
    now.bytes += len(chunk.text.encode())


def _write(place: Path, manifest: dict, now: _Growing) -> None:
    """One more shard, and then the manifest that knows of it: a shard that no manifest names is made again."""
    number = len(manifest["shards"])
    contents = np.concatenate(now.rows), np.array(now.starts, np.int64), np.array(now.marks, np.int64).reshape(-1, 2)
    for kind, content in zip(KINDS, contents, strict=True):
        _join([content], place / shard_name(number, kind))
    manifest["shards"].append({"tokens": now.tokens - manifest["tokens"], "documents": len(now.starts)})
    manifest |= {"tokens": now.tokens, "bytes": now.bytes, "documents": now.documents, "chunks": now.chunks}
    _say(place, manifest)
    now.flush()


def _finish(place: Path, manifest: dict) -> None:
    """What each shard knows of its documents and marks becomes one file each; the manifest says so last."""
    if not manifest["documents"]:
        raise ValueError("there is no text in the data: every document is empty")
    numbers = range(len(manifest["shards"]))
    for kind, name in zip(KINDS[1:], (DOCUMENTS, MARKS), strict=True):
        _join([opened(place / shard_name(number, kind)) for number in numbers], place / name)
    manifest["finished"] = True
    _say(place, manifest)
    for number in numbers:
        for kind in KINDS[1:]:
            (place / shard_name(number, kind)).unlink(missing_ok=True)


def _join(parts: list[np.ndarray], path: Path) -> None:
    """Written, not mapped: a full disk is then an error that can be told, and not the end of the process."""
    shape = (sum(len(part) for part in parts), *parts[0].shape[1:])
    with path.open("wb") as file:
        said = {"descr": parts[0].dtype.str, "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(file, said)
        for part in parts:
            file.write(part.tobytes())
        file.flush()
        os.fsync(file.fileno())


def _say(place: Path, manifest: dict) -> None:
    write_whole(place / MANIFEST, json.dumps(manifest, indent=2) + "\n")
