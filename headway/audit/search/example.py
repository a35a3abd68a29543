"""A counter-example as rows of tokens: what was read, what of it is hidden or changed, whose result deviates."""

from torch import Tensor

from headway.adapt.adapter import SPAN, Reading
from headway.adapt.model import AdaptedModel
from headway.audit.report import Strip
from headway.audit.search.compare import Apart
from headway.audit.search.contrast import Contrast


def strips(subject: AdaptedModel, contrast: Contrast, found: Apart, tolerance: float) -> list[Strip]:
    """The rows of all readings: first as they are compared with, then as they deviate."""
    amounts = dict(zip(found.labels.tolist(), found.amounts.tolist(), strict=True))
    if not subject.per_position:  # one result stands for its whole row
        readings = (*contrast.before, *contrast.after)
        known = {label for reading in readings for label in reading.labels.reshape(-1).tolist() if label >= 0}
        amounts = {label: amounts[label // SPAN] for label in known if label // SPAN in amounts}
    rows = [
        one for title, reading in _titled("once", contrast.before) for one in _rows(subject, reading, title, {}, 0.0)
    ]
    for title, reading in _titled("piece" if contrast.stepwise else "again", contrast.after):
        rows += _rows(subject, reading, title, amounts, tolerance)
    return rows


def _titled(word: str, readings: tuple[Reading, ...]) -> list[tuple[str, Reading]]:
    alone = len(readings) == 1
    return [(word if alone else f"{word} {k + 1}", reading) for k, reading in enumerate(readings)]


def _rows(
    subject: AdaptedModel, reading: Reading, title: str, amounts: dict[int, float], tolerance: float
) -> list[Strip]:
    found = []
    for row in range(len(reading.inputs)):
        name = title if len(reading.inputs) == 1 else f"{title}, row {row + 1}"
        if reading.source is not None and reading.source_labels is not None:
            found.append(_source(subject, reading, row, f"{name}, source"))
        labels = reading.labels[row].tolist()
        marks = [_marks(reading, row, column, amounts, tolerance) for column in range(len(labels))]
        tokens = _tokens(subject, reading.inputs[row], len(labels))
        found.append(Strip(name, tokens, marks, [amounts.get(label) if label >= 0 else None for label in labels]))
    return found


def _source(subject: AdaptedModel, reading: Reading, row: int, name: str) -> Strip:
    assert reading.source is not None and reading.source_labels is not None
    labels, keep = reading.source_labels[row].tolist(), reading.source_keep
    hidden = [keep is not None and not bool(keep[row, column]) for column in range(len(labels))]
    marks = ["padding" if gone else "" if label >= 0 else "changed" for gone, label in zip(hidden, labels, strict=True)]
    return Strip(name, _tokens(subject, reading.source[row], len(labels)), marks, [None] * len(labels))


def _marks(reading: Reading, row: int, column: int, amounts: dict[int, float], tolerance: float) -> str:
    label, marks = int(reading.labels[row, column]), []
    if reading.keep is not None and not bool(reading.keep[row, column]):
        marks.append("padding")
    elif label < 0:
        marks.append("changed")
    if reading.segments is not None and column and reading.segments[row, column] != reading.segments[row, column - 1]:
        marks.append("segment")
    if label >= 0 and amounts.get(label, 0.0) > tolerance:
        marks.append("broken")
    return " ".join(marks)


def _tokens(subject: AdaptedModel, inputs: Tensor, count: int) -> list[str]:
    words = subject.adapter.words
    if inputs.is_floating_point():
        return [f"x{column}" for column in range(count)] if inputs.ndim < 3 else ["image"] * count
    return [str(one) if words is None else words(one) for one in inputs.tolist()]
