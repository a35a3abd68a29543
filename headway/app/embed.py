"""Lines of text, or paths of pictures, in; vectors out, chunk by chunk.

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
import torch
from torch import Tensor

from headway.app.resumable_file import ResumableFile
from headway.config.kinds import kinds_where
from headway.data.image import read_image
from headway.data.lines import text_of
from headway.data.tokenizer import Tokenizer
from headway.hub.load import Loaded, called, with_tokenizer
from headway.hub.receipt import Receipt
from headway.hub.sentence import mean_pooled
from headway.models.clip import Clip
from headway.models.encoder import Masked
from headway.models.sentence import SentenceEncoder
from headway.nn.modes import evaluating

# Lines between two checkpoints: an interruption costs less than this; sorting so many leaves rows well filled.
CHUNK = 512
PICTURES = 32  # read together
SEEING = kinds_where(lambda config: config.reads in ("images", "images and tokens"))
BY_MEAN = "the mean of its tokens' vectors"
Vectors = np.ndarray[Any, np.dtype[np.float32]]
Form = Callable[[Sequence[str], Vectors], bytes]
Progress = Callable[[int, int], None]  # lines done, of how many


@dataclass
class Embedder:
    """Texts to vectors."""

    model: SentenceEncoder | Clip
    tokenizer: Tokenizer
    hash: str  # of all that a vector depends on
    receipt: Receipt
    cut: int = 0  # texts so far that had more tokens than the model reads

    @classmethod
    def of(cls, loaded: Loaded) -> "Embedder":
        model, tokenizer = readable(*loaded[:2], loaded.receipt.path)
        receipt = loaded.receipt if model is loaded.model else replace(loaded.receipt, pooling=BY_MEAN)
        return cls(model, tokenizer, _hash_of(receipt, model, tokenizer.engine.to_str()), receipt)

    @property
    def width(self) -> int:
        return self.model.config.width

    def __call__(self, texts: Sequence[str], done: Callable[[int], None] | None = None) -> Vectors:
        tokens = self.tokenizer.encode_all([self.model.config.prompt + text for text in texts])
        found = self.model.encode(tokens, done=done).float().numpy()
        self.cut += sum(len(text) > self.model.config.limit for text in tokens)
        return _finite(texts, found)


@dataclass
class PictureEmbedder:
    """Paths of pictures to vectors."""

    model: Any
    hash: str
    receipt: Receipt
    cut: int = 0  # of pictures nothing is cut that the model would read

    @classmethod
    def of(cls, loaded: Loaded) -> "PictureEmbedder":
        model = seeing(loaded.model, loaded.receipt.path)
        return cls(model, _hash_of(loaded.receipt, model, "pictures"), loaded.receipt)

    @property
    def width(self) -> int:
        return self.model.config.vector_width

    def __call__(self, paths: Sequence[str], done: Callable[[int], None] | None = None) -> Vectors:
        if "" in paths:
            raise ValueError("a line is empty, and each is the path of a picture: leave it out")
        found = []
        for start in range(0, len(paths), PICTURES):
            found.append(picture_vectors(self.model, paths[start : start + PICTURES]).float().numpy())
            if done is not None:
                done(min(start + PICTURES, len(paths)))
        return _finite(paths, np.concatenate(found))


def _hash_of(receipt: Receipt, model: Any, reading: str) -> str:
    """Of all that a vector depends on but its input."""
    parts = (receipt.weights_hash or receipt.hash, receipt.dtype, model.config.model_dump_json(), reading)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _finite(texts: Sequence[str], found: Vectors) -> Vectors:
    if not np.isfinite(found).all():
        bad = texts[int(np.argmin(np.isfinite(found).all(1)))]
        raise ValueError(f"the vector of {bad[:40]!r} is not finite: the weights are damaged")
    return found


def seeing(model: Any, name: str) -> Any:
    """A model that reads pictures, or a refusal."""
    kind = getattr(getattr(model, "config", None), "kind", type(model).__name__)
    if kind not in SEEING:
        raise ValueError(f"{name} holds a {kind} model, which reads no pictures; {', '.join(SEEING)} do")
    return model


@torch.no_grad()
def picture_vectors(model: Any, paths: Sequence[str | Path]) -> Tensor:
    """One row for each picture."""
    config = model.config.vision if isinstance(model, Clip) else model.config
    return model.image_vectors(torch.stack([read_image(path, config) for path in paths]))


def readable(model: Any, tokenizer: Tokenizer | None, name: str) -> tuple[SentenceEncoder | Clip, Tokenizer]:
    """A model that gives texts vectors and its tokenizer, or a refusal; a plain encoder is pooled."""
    if not isinstance(model, SentenceEncoder | Clip | Masked):
        kind = getattr(getattr(model, "config", None), "family", type(model).__name__)
        raise ValueError(
            f"{name} holds a {kind} model and no way to make one vector of a text: a sentence encoder has a "
            "modules.json that names its pooling, and of an encoder such as BERT the mean is taken"
        )
    if tokenizer is None:
        raise ValueError(f"{name} has no tokenizer (tokenizer.json or vocab.txt), so it cannot read text")
    return (mean_pooled(model, tokenizer) if isinstance(model, Masked) else model), tokenizer


def embed(
    model: Any, texts: str | Path | Sequence[str] | Sequence[Path], *, tokenizer: Tokenizer | None = None
) -> Tensor:
    """The vector of a text, or one row for each of several (N O), by a sentence encoder or a CLIP.

    Of an encoder without a pooling (a plain BERT) it is the mean of the vectors of its tokens.
    A `Path`, or several, are pictures, for a model that sees: those of a CLIP lie in the space of its texts. The model
    is one that `headway.load` gave, or the name or path of one; without a tokenizer it reads with its own. Texts are
    packed without padding, and what one of them gets does not depend on the others.
    """
    single = isinstance(texts, str | Path)
    several = [texts] if isinstance(texts, str | Path) else list(texts)
    paths = [one for one in several if isinstance(one, Path)]
    if paths:
        if len(paths) != len(several):
            raise ValueError("texts and paths of pictures are embedded in two calls: give one kind at a time")
        seer = seeing(with_tokenizer(model, tokenizer)[0], called(model))
        with evaluating(seer):
            parts = [picture_vectors(seer, paths[at : at + PICTURES]) for at in range(0, len(paths), PICTURES)]
        return parts[0][0] if single else torch.cat(parts)
    found, known = readable(*with_tokenizer(model, tokenizer), called(model))
    with evaluating(found):
        vectors = found.encode(known.encode_all([found.config.prompt + str(text) for text in several]))
    return vectors[0] if single else vectors


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
    embed: Embedder | PictureEmbedder,
    lines: Lines,
    out: Path,
    *,
    overwrite: bool,
    progress: Progress,
    say: Callable[[str], None],
) -> None:
    """Vectors of all lines into `out` (.npy or .jsonl), going on where an earlier run stopped."""
    body = form_of(out)
    source = {"model": embed.hash, "input": lines.hash, "lines": lines.count, "chunk": CHUNK}
    with ResumableFile(out, source, overwrite=overwrite, say=say) as part:
        if part.done is not None:
            say(f"going on after {part.done:,} of {lines.count:,} lines")
        head = _heading(lines.count, embed.width) if body is _as_numbers else b""
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
