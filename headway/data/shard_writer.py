"""Documents to shards of tokens: once, in batches, and from where it was when it was killed.

    build(documents(places), tokenizer, directory, identity=fingerprint(places)).split(0.1)

gives two views of the tokens, to learn from and to measure with.
"""

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from headway.data.files import read_json, write_whole
from headway.data.hashes import stamp, verify_first
from headway.data.publish import make_directory, write_hashed
from headway.data.shards import DOCUMENTS, MANIFEST, MARKS, Shards, open_array, shard_hashes, shard_name, tokenizer_hash
from headway.data.source import Document
from headway.data.tokenizer import Tokenizer

SHARD_TOKENS = 1 << 24
SMALLEST, LARGEST, SHARE = 256, 4096, 64  # characters of a chunk, and how many make up a small text at least
CHUNKS = 256  # that are encoded together; the library spreads them over the processor's cores
KINDS = ("", ".documents", ".marks")


@dataclass(frozen=True)
class Chunk:
    """Some lines of a document."""

    text: str
    starts: bool
    ends: bool


@dataclass(frozen=True)
class TokenizingProgress:
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
    progress: Callable[[TokenizingProgress], None] | None = None,
    shard_tokens: int = SHARD_TOKENS,
) -> Shards:
    """The shards of these documents, made where they are not there yet.

    `identity` stands for the data. Where a manifest in the directory names the same data and tokenizer, finished shards
    are kept and the rest is made; where it names others, all is made anew.
    """
    place = Path(directory)
    make_directory(place)
    manifest = _read_manifest(
        place,
        {"identity": identity, "tokenizer": tokenizer_hash(tokenizer), "size": tokenizer.size, "end": tokenizer.end},
    )
    finished = manifest["finished"]
    # What is there already has to be what was written; of much of it the rest is hashed while it is used.
    unverified = verify_first(shard_hashes(place, manifest), whole=not finished)
    if not finished:
        _fill(place, manifest, chunks_of(documents), tokenizer, shard_tokens, progress or (lambda _: None))
        _finish(place, manifest)
    found = Shards.open(place)
    found.unverified = unverified
    return found


def _read_manifest(place: Path, wanted: dict) -> dict:
    """The manifest of work on the same data and tokenizer, or a fresh one in a directory without old shards."""
    try:
        found = read_json(place / MANIFEST) if (place / MANIFEST).exists() else {}
    except ValueError:
        found = {}
    said = found.pop("sha256", None)
    if found and all(found.get(key) == value for key, value in wanted.items()):
        if said is not None and stamp(found) != said:
            raise ValueError(f"{place / MANIFEST} is not what was written: remove {place}, and it is made again")
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
    progress: Callable[[TokenizingProgress], None],
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
        progress(TokenizingProgress(now.documents, now.tokens, now.bytes))
        if now.tokens - manifest["tokens"] >= shard_tokens:
            _write_shard(place, manifest, now)
    if now.rows:
        _write_shard(place, manifest, now)


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


def _write_shard(place: Path, manifest: dict, now: _Growing) -> None:
    """One more shard, and then the manifest that knows of it: a shard that no manifest names is made again."""
    number = len(manifest["shards"])
    contents = np.concatenate(now.rows), np.array(now.starts, np.int64), np.array(now.marks, np.int64).reshape(-1, 2)
    written = [
        _write_array([content], place / shard_name(number, kind)) for kind, content in zip(KINDS, contents, strict=True)
    ]
    manifest["shards"].append({"tokens": now.tokens - manifest["tokens"], "documents": len(now.starts), **written[0]})
    manifest |= {"tokens": now.tokens, "bytes": now.bytes, "documents": now.documents, "chunks": now.chunks}
    _write_manifest(place, manifest)
    now.flush()


def _finish(place: Path, manifest: dict) -> None:
    """What each shard knows of its documents and marks becomes one file each; the manifest says so last."""
    if not manifest["documents"]:
        raise ValueError("there is no text in the data: every document is empty")
    numbers = range(len(manifest["shards"]))
    for kind, name in zip(KINDS[1:], (DOCUMENTS, MARKS), strict=True):
        parts = [open_array(place / shard_name(number, kind)) for number in numbers]
        manifest.setdefault("files", {})[name] = _write_array(parts, place / name)
    manifest["finished"] = True
    _write_manifest(place, manifest)
    for number in numbers:
        for kind in KINDS[1:]:
            (place / shard_name(number, kind)).unlink(missing_ok=True)


def _write_array(parts: list[np.ndarray], path: Path) -> dict[str, Any]:
    """Written, not mapped: a full disk is then an error that can be told, and not the end of the process.

    Returns the size and the hash of the file.
    """
    shape = (sum(len(part) for part in parts), *parts[0].shape[1:])
    head = io.BytesIO()
    said = {"descr": parts[0].dtype.str, "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(head, said)
    return write_hashed(path, chain([head.getvalue()], (part.tobytes() for part in parts)))


def _write_manifest(place: Path, manifest: dict) -> None:
    write_whole(place / MANIFEST, json.dumps({**manifest, "sha256": stamp(manifest)}, indent=2) + "\n")


def chunks_of(documents: Iterable[Document]) -> Iterator[Chunk]:
    """Documents in stretches of some thousand characters; of a small text they are smaller, so that it can be split.

    A stretch is tokenised by itself. It ends after the end of a line, with letters on both sides if one can be had: no
    tokenizer in use joins such an end with the letter behind it, so the tokens are those of the whole (but one that
    writes a space before every text, as SentencePiece does, writes it here too).
    """
    seen, starts, left = 0, True, ""
    for piece in documents:
        text = left + piece.text
        at = 0
        # While more may come, enough is left to look for a good cut: cuts do not depend on how pieces were cut.
        while len(text) - at > (size := min(max(seen // SHARE, SMALLEST), LARGEST)) * (1 if piece.ends else 2):
            stop = _cut(text, at, at + size)
            yield Chunk(text[at:stop], starts, ends=False)
            seen, at, starts = seen + stop - at, stop, False
        left = text[at:]
        if piece.ends and (left or not starts):
            yield Chunk(left, starts, ends=True)
            seen += len(left)
        if piece.ends:
            starts, left = True, ""
    assert not left, "the last piece of a document says that it ends"


# From best to worst: a lone line's end, one before a letter, any, and a space (which begins the next stretch).
_ENDS = tuple(re.compile(pattern) for pattern in (r"(?<=\S)\n(?=\S)", r"\n(?=\S)", r"\n", r"(?= )"))


def _cut(text: str, start: int, about: int) -> int:
    """Where to cut near `about`, at most twice as far from the start; anywhere, in a text without spaces."""
    for pattern in _ENDS:
        if found := pattern.search(text, about, 2 * about - start):
            return found.end()
    return about
