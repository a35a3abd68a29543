"""`headway embed`: lines in, vectors out."""

import json as json_format
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Literal

from cyclopts import Parameter

from headway.cli.common import Counter, Weights, say
from headway.cli.option_names import check_words, options_of
from headway.config.read_file import open_file
from headway.data.stream import name_of, stdin_bytes

TERMINATED = 143  # 128 + SIGTERM, as a shell reports it


def embed(
    directory: Path,
    file: Annotated[Path, Parameter(allow_leading_hyphen=True)] = Path("-"),
    /,
    *,
    out: Annotated[Path | None, Parameter(alias="-o")] = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    dtype: Literal["float32", "bfloat16", "float64"] | None = None,
    weights: Weights = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """One vector for each line of text, by a sentence encoder.

    Lines are sorted by length and packed without padding; vectors stand in
    the order of the lines. A line with more tokens than the model reads is
    cut to those that it reads; how many were is said at the end.

    A run into a file that was interrupted goes on where it stopped when the
    same command is given again (512 lines are one step), and the file is the
    same to the byte. Nothing half-written ever has the name of the result.

    For example:

        headway embed all-MiniLM-L6-v2/ lines.txt -o vectors.npy
        headway embed all-MiniLM-L6-v2/ - -o vectors.jsonl < lines.txt
        echo "a line" | headway embed all-MiniLM-L6-v2/

    Parameters
    ----------
    directory
        The model: a run, or a directory as sentence-transformers saves it (modules.json, config.json,
        model.safetensors, tokenizer.json). Of a plain encoder such as BERT, without modules.json, the mean of the
        tokens' vectors is taken.
    file
        Lines of text in UTF-8; `-` is stdin.
    out
        A .npy file (float32, one row a line) or a .jsonl file (one object a line); without it, objects on stdout.
    overwrite
        Replace the file, and a part of it that was begun with another model or input.
    dtype
        Compute in this precision, for example bfloat16; by default in the one that the weights are stored in.
    json
        Print JSON: with --out one object of how many lines, numbers and cut lines; without, one object a line, as ever.
    """
    check_words("embed", [str(file)], options_of(embed))
    try:
        with _opened(file) as stream, _terminable():
            facts = _embed(directory, stream, name_of(file), out=out, overwrite=overwrite, dtype=dtype, weights=weights)
    except Terminated:
        return TERMINATED
    if json and out is not None:
        print(json_format.dumps(facts, indent=2))
    return 0


def _embed(
    directory: Path,
    stream: BinaryIO,
    name: str,
    *,
    out: Path | None,
    overwrite: bool,
    dtype: str | None,
    weights: str | None,
) -> dict[str, Any]:
    # torch takes seconds to import, and --help must not wait for it
    from headway.app.embed import Embedder, Lines, embed_file, form_of
    from headway.app.resumable_file import check_place
    from headway.hub import load, target

    if out is not None:
        form_of(out)
        check_place(out, overwrite)
    lines = Lines.of(stream, name)  # a mistake in the input is said before the model is loaded
    loaded = load(target.directory(directory).path, dtype=dtype, weights=weights)
    embedder = Embedder.of(loaded)
    say(str(embedder.receipt))
    if out is not None:
        embed_file(embedder, lines, out, overwrite=overwrite, progress=Counter(), say=say)
    else:
        _print(embedder, lines)
    say(f"{lines.count:,} lines, {embedder.model.config.width} numbers each" + (f": {out}" if out else ""))
    if embedder.cut:
        limit = embedder.model.config.limit
        say(f"cut to {limit} tokens, the most that this model reads: {embedder.cut:,} of {lines.count:,} lines")
    return {"out": str(out), "lines": lines.count, "width": embedder.model.config.width, "cut": embedder.cut}


def _print(embedder: Any, lines: Any) -> None:
    """One object a line on stdout."""
    from headway.app.embed import as_json_lines

    done, clock = 0, Counter()
    for texts in lines.chunks(0):
        sys.stdout.write(as_json_lines(texts, embedder(texts)).decode())
        done += len(texts)
        if not sys.stdout.isatty():  # where the vectors themselves show it
            clock(done, lines.count)


class Terminated(KeyboardInterrupt):
    """Asked to end by SIGTERM; what Ctrl-C would keep is kept."""


@contextmanager
def _terminable() -> Iterator[None]:
    if threading.current_thread() is not threading.main_thread():  # which alone may handle signals
        yield
        return

    def stop(*_: object) -> None:
        raise Terminated

    before = signal.signal(signal.SIGTERM, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def _opened(file: Path) -> Iterator[BinaryIO]:
    """A stream that can be read twice: once to count and hash, once to embed."""
    if str(file) != "-":
        with open_file(file) as stream:
            yield stream
        return
    with tempfile.TemporaryFile() as kept:
        shutil.copyfileobj(stdin_bytes(), kept)
        yield kept
