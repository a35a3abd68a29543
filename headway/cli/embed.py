"""`headway embed`: lines in, vectors out."""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO, Literal

from cyclopts import Parameter


def embed(
    directory: Path,
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)] = Path("-"),
    /,
    *,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    dtype: Literal["float32", "bfloat16", "float64"] | None = None,
) -> int:
    """One vector for each line of text, by a sentence encoder.

    Lines are sorted by length and packed without padding; vectors stand in
    the order of the lines. A run that was interrupted goes on where it
    stopped when the same command is given again, and the file is the same to
    the byte. Nothing half-written ever has the name of the result.

    For example:

        headway embed all-MiniLM-L6-v2/ lines.txt -o vectors.npy
        headway embed all-MiniLM-L6-v2/ - -o vectors.jsonl < lines.txt
        echo "a line" | headway embed all-MiniLM-L6-v2/

    Parameters
    ----------
    directory
        The model, as sentence-transformers saves it: modules.json, config.json, model.safetensors, tokenizer.json.
    file
        Lines of text in UTF-8; `-` is stdin.
    out
        A .npy file (float32, one row a line) or a .jsonl file (one object a line); without it, objects on stdout.
    overwrite
        Replace the file, and a part of it that was begun with another model or input.
    dtype
        Compute in this precision, for example bfloat16; by default in the one that the weights are stored in.
    """
    with _opened(file) as stream:
        # torch takes seconds to import, and --help must not wait for it
        from headway.app.embed import Embedder, Lines, as_json_lines, embed_file, form_of
        from headway.app.partial import check_place
        from headway.hub import load

        if out is not None:
            form_of(out)
            check_place(out, overwrite)
        loaded = load(directory, dtype=dtype)
        embedder = Embedder.of(loaded)
        _say(str(loaded.receipt))
        lines, clock = Lines.of(stream, _name(file)), Clock()
        if out is not None:
            embed_file(embedder, lines, out, overwrite=overwrite, progress=clock, say=_say)
        else:
            for texts in lines.chunks(0):
                sys.stdout.write(as_json_lines(texts, embedder(texts)).decode())
        _say(f"{lines.count:,} lines, {embedder.model.config.width} numbers each" + (f": {out}" if out else ""))
    return 0


class Clock:
    """How far a run is: about once a second on a terminal, in one line; every ten seconds in a log."""

    def __init__(self) -> None:
        self.start: tuple[float, int] | None = None
        self.last = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        now, terminal = time.monotonic(), sys.stderr.isatty()
        self.start = self.start or (now, done)
        if now - self.last < (1 if terminal else 10) or now == self.start[0]:
            return
        self.last = now
        rate = (done - self.start[1]) / (now - self.start[0])
        _say(f"{done:,} of {total:,} lines, {rate:,.0f} a second", end="   \r" if terminal else "\n")


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """A stream that can be read twice: once to count and hash, once to embed."""
    if str(file) != "-":
        with file.open("rb") as stream:
            yield stream
        return
    with tempfile.TemporaryFile() as kept:
        shutil.copyfileobj(sys.stdin.buffer, kept)
        yield kept


def _name(file: Path) -> str:
    return "standard input" if str(file) == "-" else str(file)


def _say(line: str, end: str = "\n") -> None:
    print(line, file=sys.stderr, flush=True, end=end)
