"""`headway eval`: how good a model is on data."""

import json as json_format
import sys
import time
from typing import Annotated, Any, Literal

from cyclopts import Parameter

Format = Literal["auto", "text", "jsonl", "csv", "tsv"]


def eval(
    directory: str,
    /,
    *data: Annotated[str, Parameter(allow_leading_hyphen=True)],  # `-` is one
    task: Literal["language", "masked", "seq2seq", "classify", "inference", "images", "embed"] | None = None,
    length: int | None = None,
    stride: int | None = None,
    batch: int = 32,
    beam: Annotated[int | None, Parameter(alias="--beams")] = None,
    max_new_tokens: Annotated[int, Parameter(alias="--max-tokens")] = 256,
    samples: int = 5,
    format: Format | None = None,
    document: Literal["file", "line", "paragraph"] | None = None,
    text: str | None = None,
    label: str | None = None,
    source: str | None = None,
    target: str | None = None,
    first: str | None = None,
    second: str | None = None,
    paired: Annotated[bool, Parameter(negative="")] = False,
    score: str | None = None,
    cut: Annotated[bool, Parameter(negative="")] = False,
    dtype: Literal["float32", "bfloat16", "float64"] | None = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Measure a model on data.

    What is measured follows from the model. A language model: loss,
    perplexity and bits per byte, every token counted. A masked-word model:
    loss and accuracy of hidden words. A classifier of texts or pictures:
    accuracy, macro-F1, a table of its classes and who was taken for whom. A
    model that reads a source: loss, BLEU and chrF with their signatures. A
    sentence encoder: how often a text finds its twin, and rank correlation
    with scores. Nothing is random: the same command gives the same numbers.

    For example:

        headway eval runs/book other-book.txt
        headway eval models/gpt2 book.txt --length 1024 --stride 512
        headway eval runs/digits digits-test
        headway eval models/sentiment reviews.csv --text review --label stars
        headway eval models/opus-mt-en-de pairs.tsv --beam 6 --json

    Parameters
    ----------
    directory
        The model: any directory that headway reads, or a run.
    data
        Files, folders, globs, `-` for stdin, or sources by name, as in headway train.
    task
        What to measure, where the model can do several things.
    length
        Tokens of a window or text at most; by default as many as the model reads, of a language model at most 1,024.
    stride
        Of a language model: windows begin every so many tokens and count only tokens that no window before has. By
        default they stand side by side; a smaller stride gives each token more context, and takes longer.
    batch
        How many examples to compute together.
    beam
        Translate by a search with so many beams; without it, the likeliest token is taken each time.
    max_new_tokens
        Tokens to produce at most for each source.
    samples
        Translations to show.
    format
        Of the data; by default what the names of the files say.
    document
        What one document is, in plain text.
    text
        Columns, in files that have them: the text to read,
    label
        its class,
    source
        the text to translate,
    target
        its translation,
    first
        two texts, for a sentence encoder or a classifier of pairs,
    second
        the other one of the two,
    paired
        whether a classifier reads both,
    score
        and how alike they are.
    cut
        Read the beginning of a text that is too long for the model instead of refusing it.
    dtype
        Compute in this precision; by default in the one that the weights are stored in.
    json
        One JSON object instead of text.
    """
    for name, value in (("batch", batch), ("length", length), ("stride", stride), ("beam", beam),
                        ("max-new-tokens", max_new_tokens)):  # fmt: skip
        if value is not None and value < 1:
            raise ValueError(f"--{name} is at least 1, not {value}")
    if not data:
        raise ValueError("there is nothing to measure on: name a file, a folder, or a source such as digits-test")
    # torch takes seconds to import, and --help must not wait for it
    from headway.app.evaluate import as_json, as_text, evaluate, task_of
    from headway.app.metrics import EvalSettings
    from headway.app.run import read_run
    from headway.config.train import DataConfig
    from headway.hub import load
    from headway.hub.target import directory as open_directory

    found = open_directory(directory)
    path, run = found.path, {} if found.run is None else read_run(found.run).config
    kind = task_of(found.config, task, path)
    said = {"format": format, "document": document, "text": text, "label": label, "source": source, "target": target,
            "first": first, "second": second, "paired": paired or None}  # fmt: skip
    settings = {**_columns(run), **{name: value for name, value in said.items() if value is not None}}
    options = EvalSettings(
        DataConfig(train=data, cut=cut, **settings), length=length, stride=stride, batch=batch, beams=beam,
        max_new_tokens=max_new_tokens, samples=samples, score=score,
    )  # fmt: skip
    loaded = load(path, dtype=dtype)
    _say(str(loaded.receipt))
    result = evaluate(loaded, kind, options, Clock())
    print(json_format.dumps(as_json(result), ensure_ascii=False) if json else as_text(result))
    return 0


def _columns(run: dict[str, Any]) -> dict[str, Any]:
    """What a run said of its data, so that the same files can be read again."""
    names = ("format", "document", "text", "label", "source", "target", "first", "second", "paired")
    return {name: value for name, value in run.get("data", {}).items() if name in names}


class Clock:
    """How far it is, on stderr: once a second on a terminal, in one line; every ten seconds in a log."""

    def __init__(self) -> None:
        self.last = time.monotonic()

    def __call__(self, what: str, done: int, total: int) -> None:
        now, terminal = time.monotonic(), sys.stderr.isatty()
        if now - self.last >= (1 if terminal else 10):
            self.last = now
            of = f" of {total:,}" if total else ""
            print(f"{done:,}{of} {what}", file=sys.stderr, end="   \r" if terminal else "\n", flush=True)


def _say(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
