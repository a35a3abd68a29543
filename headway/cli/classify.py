"""`headway classify`: lines of text, or pictures, in; their classes with probabilities out."""

import json as json_format
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from headway.cli.common import Weights, at_least_one, readable, say
from headway.cli.option_names import check_words, options_of


def classify(
    directory: str,
    /,
    *files: Annotated[Path, Parameter(allow_leading_hyphen=True)],  # `-` is one
    top: int = 5,
    batch: int = 32,
    cut: Annotated[bool, Parameter(negative="")] = False,
    dtype: Literal["float32", "bfloat16", "float64"] | None = None,
    weights: Weights = None,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Classes of lines of text, or of pictures; named entities; answers.

    A line is a text, or two texts with a tab between them. Each gives one
    line: the most probable class and its probability, then the next ones,
    with tabs between. A model that scores each class for itself gives
    probabilities that need not add up to 1; one that was trained on values
    gives those, in the order of its classes. A classifier of tokens gives
    the named entities of a line, each with its label and probability. A
    model for questions reads a question and a text, a tab between them, and
    gives the answers that it finds there. A result does not depend on what
    else is in the file. An empty line is a text like any other; among
    paths of pictures it is a mistake.

    For example:

        headway classify models/sentiment reviews.txt
        headway classify models/sentiment --json < reviews.txt
        headway classify models/ner news.txt --json
        headway classify models/vit cat.jpg dog.jpg

    Parameters
    ----------
    directory
        The model: a run, or the directory of an encoder such as BERT with a classifier for text, of a ViT, DeiT or
        DaViT for pictures.
    files
        Lines of text in UTF-8, or pictures; `-`, or none at all, is stdin: lines of text, or paths of pictures.
    top
        How many classes, or answers, to show.
    batch
        How many inputs to compute together.
    cut
        Read the beginning of a text that is too long for the model instead of refusing it; the end says how many.
    dtype
        Compute in this precision, for example bfloat16; by default in the one that the weights are stored in.
    json
        One JSON object per line instead.
    """
    at_least_one(top=top, batch=batch)
    check_words("classify", map(str, files), options_of(classify))
    for file in files:
        readable(file)
    # torch takes seconds to import, and --help must not wait for it
    from headway.app.classify import Classifier, check
    from headway.hub import load, target

    place = target.directory(directory)
    check(files, place.config.kind)
    loaded = load(place.path, dtype=dtype, weights=weights)
    classifier = Classifier.of(loaded, cut=cut)
    say(str(loaded.receipt))
    count, inputs = 0, classifier.items(files)
    results = classifier.run(inputs, batch=batch, progress=lambda done: say(f"{done:,} classified"))
    for item, classes in results:
        count += 1
        if json:
            print(json_format.dumps(_row(item, classes, classifier, top), ensure_ascii=False))
        else:
            print("\t".join(_cells(classes, classifier.outcome, top)))
    if cut and not classifier.sees:
        most = classifier.model.config.length
        say(f"cut to {most} tokens, the most that this model reads: {classifier.shortened:,} of {count:,} lines")
    return 0


def _cells(found: list[Any], outcome: str, top: int) -> list[str]:
    """What stands between the tabs of a line."""
    from headway.render.text import cell

    if outcome == "entities":
        return [f"{cell(one.text)}\t{cell(one.label)}\t{one.probability:.4f}" for one in found]
    if outcome == "answers":
        return [f"{cell(one.text or one.label)}\t{one.probability:.4f}" for one in found[:top]]
    return [f"{cell(label)}\t{value:.4f}" for label, value in found[:top]]


def _row(item: Any, classes: list[Any], classifier: Any, top: int) -> dict[str, Any]:
    row: dict[str, Any] = {"file" if classifier.sees else "text": item.text}
    row |= {} if item.pair is None else {"pair": item.pair}
    if classifier.outcome == "entities":
        return {**row, "entities": [_span(one) for one in classes]}
    if classifier.outcome == "answers":
        return {**row, "answer": classes[0].text or None, "answers": [_span(one) for one in classes[:top]]}
    if classifier.outcome == "one":
        row["label"] = classes[0][0]
    if classifier.outcome == "several":
        row["labels"] = [label for label, value in classes if value >= 0.5]
    name = "value" if classifier.outcome == "value" else "probability"
    return {**row, "classes": [{"label": label, name: float(f"{value:.6g}")} for label, value in classes[:top]]}


def _span(one: Any) -> dict[str, Any]:
    return {**one._asdict(), "probability": float(f"{one.probability:.6g}")}
