"""Lines in, vectors out, chunk by chunk.

Texts are sorted by length within a chunk, and chunks lie where they lie whatever happened before: a run that went on
after an interruption gives the bytes of one that was never interrupted.
"""

import hashlib
import io
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from torch import Tensor

from headway.app.resumable_file import ResumableFile
from headway.data.lines import text_of
from headway.data.tokenizer import Tokenizer
from headway.hub.load import Loaded, called, with_tokenizer
from headway.hub.receipt import Receipt
from headway.hub.sentence import mean_pooled
from headway.models.encoder import Masked
from headway.models.sentence import SentenceEncoder
from headway.nn.modes import evaluating

# Lines between two checkpoints: an interruption costs less than this; sorting so many leaves rows well filled.
CHUNK = 512
BY_MEAN = "the mean of its tokens' vectors"
Vectors = np.ndarray[Any, np.dtype[np.float32]]
Form = Callable[[Sequence[str], Vectors], bytes]
Progress = Callable[[int, int], None]  # lines done, of how many


@dataclass
class Embedder:
    """Texts to vectors."""

    model: SentenceEncoder
    tokenizer: Tokenizer
    hash: str  # of all that a vector depends on
    receipt: Receipt
    cut: int = 0  # texts so far that had more tokens than the model reads

    @classmethod
    def of(cls, loaded: Loaded) -> "Embedder":
        model, tokenizer = readable(*loaded[:2], loaded.receipt.path)
        receipt = loaded.receipt if model is loaded.model else replace(loaded.receipt, pooling=BY_MEAN)
        parts = (
            receipt.weights_hash or receipt.hash,
            receipt.dtype,
            model.config.model_dump_json(),
            tokenizer.engine.to_str(),
        )
        return cls(model, tokenizer, hashlib.sha256("\n".join(parts).encode()).hexdigest(), receipt)

    def __call__(self, texts: Sequence[str], done: Callable[[int], None] | None = None) -> Vectors:
        tokens = self.tokenizer.encode_all([self.model.config.prompt + text for text in texts])
        found = self.model.encode(tokens, done=done).float().numpy()
        self.cut += sum(len(text) > self.model.config.limit for text in tokens)
        if not np.isfinite(found).all():
            bad = texts[int(np.argmin(np.isfinite(found).all(1)))]
            raise ValueError(f"the vector of {bad[:40]!r} is not finite: the weights are damaged")
        return found


def readable(model: Any, tokenizer: Tokenizer | None, name: str) -> tuple[SentenceEncoder, Tokenizer]:
    """A sentence encoder and its tokenizer, or a refusal that says what is missing; a plain encoder is pooled."""
    if not isinstance(model, SentenceEncoder | Masked):
        kind = getattr(getattr(model, "config", None), "family", type(model).__name__)
        raise ValueError(
            f"{name} holds a {kind} model and no way to make one vector of a text: a sentence encoder has a "
            "modules.json that names its pooling, and of an encoder such as BERT the mean is taken"
        )
    if tokenizer is None:
        raise ValueError(f"{name} has no tokenizer (tokenizer.json or vocab.txt), so it cannot read text")
    return (mean_pooled(model, tokenizer) if isinstance(model, Masked) else model), tokenizer


def embed(model: Any, texts: str | Sequence[str], *, tokenizer: Tokenizer | None = None) -> Tensor:
    """The vector of a text, or one row for each of several (N O), by a sentence encoder.

    Of an encoder without a pooling (a plain BERT) it is the mean of the vectors of its tokens.
    The model is one that `headway.load` gave, or the name or path of one; without a tokenizer it reads with its own.
    Texts are packed without padding, and what one of them gets does not depend on the others.
    """
    found, known = readable(*with_tokenizer(model, tokenizer), called(model))
    several = [texts] if isinstance(texts, str) else list(texts)
    with evaluating(found):
        vectors = found.encode(known.encode_all([found.config.prompt + text for text in several]))
    return vectors[0] if isinstance(texts, str) else vectors


@dataclass(frozen=True)
class Lines:
    """The lines of a stream that can be read again; counted, hashed and found to be text once."""

    stream: BinaryIO
    name: str
    count: int
    hash: str

    @classmethod
    def of(cls, stream: BinaryIO, name: str) -> "Lines":
        digest, count = hashlib.sha256(), 0
        stream.seek(0)
        for count, line in enumerate(stream, start=1):
            digest.update(line)
            text_of(line, count, name)
        return cls(stream, name, count, digest.hexdigest())

    def chunks(self, done: int) -> Iterator[list[str]]:
        """Texts, CHUNK at a time, without the first `done`."""
        self.stream.seek(0)
        rows = islice(enumerate(self.stream, start=1), done, None)
        while chunk := [text_of(line, number, self.name) for number, line in islice(rows, CHUNK)]:
            yield chunk


def as_json_lines(texts: Sequence[str], vectors: Vectors) -> bytes:
    """One object for each text; nine digits say a float32 exactly."""
    rows = zip(map(json.dumps, texts), vectors.tolist(), strict=True)
    written = (f'{{"text": {text}, "embedding": [{", ".join(map("{:.9g}".format, row))}]}}\n' for text, row in rows)
    return "".join(written).encode()


def _as_numbers(texts: Sequence[str], vectors: Vectors) -> bytes:
    return vectors.astype("<f4").tobytes()


def _heading(rows: int, width: int) -> bytes:
    """How a .npy file of so many vectors begins."""
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<f4", "fortran_order": False, "shape": (rows, width)})
    return head.getvalue()


def embed_file(
    embed: Embedder, lines: Lines, out: Path, *, overwrite: bool, progress: Progress, say: Callable[[str], None]
) -> None:
    """Vectors of all lines into `out` (.npy or .jsonl), going on where an earlier run stopped."""
    body = form_of(out)
    source = {"model": embed.hash, "input": lines.hash, "lines": lines.count, "chunk": CHUNK}
    with ResumableFile(out, source, overwrite=overwrite, say=say) as part:
        if part.done is not None:
            say(f"going on after {part.done:,} of {lines.count:,} lines")
        head = _heading(lines.count, embed.model.config.width) if body is _as_numbers else b""
        done = part.begin(head) if part.done is None else part.done
        embed.cut = part.notes.get("cut", 0)
        try:
            for texts in lines.chunks(done):
                vectors = embed(texts, lambda count, before=done: progress(before + count, lines.count))
                done = part.add(body(texts, vectors), done + len(texts), cut=embed.cut)
        except KeyboardInterrupt:
            kept = f"{part.done or 0:,} of {lines.count:,} lines are kept"
            say(f"interrupted: {kept}; the same command goes on from there")
            raise
        if done != lines.count:
            raise ValueError(f"{lines.name} has changed while it was read: begin again")
        part.finish()


def form_of(out: Path) -> Form:
    """How vectors are written, by the ending of the file."""
    forms: dict[str, Form] = {".npy": _as_numbers, ".jsonl": as_json_lines}
    if out.suffix not in forms:
        raise ValueError(f"vectors are written to {' or '.join(forms)}, not to {out.name!r}")
    return forms[out.suffix]
