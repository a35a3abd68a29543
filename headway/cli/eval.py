"""`headway eval`: how good a model is on data."""

from typing import Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.common import Counter, Weights, at_least_one, say
from headway.cli.option_names import check_words, options_of
from headway.cli.output import STDOUT, Output

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
    negative: Annotated[list[str] | None, Parameter(negative="")] = None,
    paired: Annotated[bool, Parameter(negative="")] = False,
    score: str | None = None,
    cut: Annotated[bool, Parameter(negative="")] = False,
    dtype: Literal["float32", "bfloat16", "float64"] | None = None,
    weights: Weights = None,
    output: Output = STDOUT,
) -> int:
    """Measure a model on data.

    What is measured follows from the model. A language model: loss,
    perplexity and bits per byte, every token counted. A masked-word model:
    loss and accuracy of hidden words. A classifier of texts or pictures:
    accuracy, macro-F1, a table of its classes and who was taken for whom. A
    model that reads a source: loss, BLEU and chrF with their signatures. A
    sentence encoder: how often a text finds its twin, and rank correlation
    with scores. Nothing is random: the same command gives the same numbers.
    With --weights the model is measured a second time as it is, and its
    numbers stand beside.

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
        Language models: windows begin every so many tokens and count only tokens that no window before has. By default
        they stand side by side; a smaller stride gives each token more context, and takes longer.
    batch
        How many examples to compute together.
    beam
        Translate by a search with so many beams; without it, the likeliest token is taken each time.
    max_new_tokens
        Tokens to produce at most for each source.
    samples
        Translations to show.
    format
        Format of the data; by default what the names of the files say.
    document
        What one document is, in plain text.
    text
        Column of the text, in files that have columns.
    label
        Column of the class.
    source
        Column of the text to translate.
    target
        Column of its translation.
    first
        Column of the first of two texts, for a sentence encoder or a classifier of pairs.
    second
        Column of the second.
    negative
        Columns of hard negatives, for a sentence encoder; with commas between them.
    paired
        Classify two texts of a row together (columns first and second) instead of one.
    score
        Column of how similar two texts are, for a rank correlation.
    cut
        Read the beginning of a text that is too long for the model instead of refusing it.
    dtype
        Compute in this precision; by default in the one that the weights are stored in.
    """
    at_least_one(batch=batch, length=length, stride=stride, beam=beam, max_new_tokens=max_new_tokens)
    check_words("eval", data, options_of(eval))
    if not data:
        raise ValueError("there is nothing to measure on: name a file, a folder, or a source such as digits-test")
    output.check()
    # torch takes seconds to import, and --help must not wait for it
    from headway.app.evaluate import as_json, evaluate, samples_text, tables, task_of
    from headway.app.metrics import EvalSettings, Evaluation
    from headway.app.run import read_run
    from headway.config.train import DataConfig
    from headway.hub import load
    from headway.hub.target import directory as open_directory

    found = open_directory(directory)
    path, run = found.path, {} if found.run is None else read_run(found.run).config
    kind = task_of(found.config, task, path)
    said = {"format": format, "document": document, "text": text, "label": label, "source": source, "target": target,
            "first": first, "second": second, "negative": negative, "paired": paired or None}  # fmt: skip
    columns = {**_columns(run), **{name: value for name, value in said.items() if value is not None}}
    settings = EvalSettings(
        DataConfig(train=data, cut=cut, **columns), length=length, stride=stride, batch=batch, beams=beam,
        max_new_tokens=max_new_tokens, samples=samples, score=score,
    )  # fmt: skip
    counter = Counter()

    def measured(stored: str | None) -> Evaluation:
        loaded = load(path, dtype=dtype, weights=stored)
        say(str(loaded.receipt))
        return evaluate(loaded, kind, settings, lambda what, done, total: counter(done, total, what))

    plain = None if weights is None else measured(None)
    result = measured(weights)
    notes = [*samples_text(result), *result.notes]
    output.write(tables(result, plain), record=as_json(result, plain), notes=notes, indent=None)
    return 0


def _columns(run: dict[str, Any]) -> dict[str, Any]:
    """What a run said of its data, so that the same files can be read again."""
    names = ("format", "document", "text", "label", "source", "target", "first", "second", "negative", "paired")
    return {name: value for name, value in run.get("data", {}).items() if name in names}
