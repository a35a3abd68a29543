"""Trial after trial: the largest deviation, and where it is too large, the smallest counter-example and its module."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from torch import Tensor

from headway.adapt.adapter import SPAN, Reading
from headway.adapt.model import AdaptedModel
from headway.adapt.trial import error_line
from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, REFUTED, Example, Finding, ModuleDeviation, Strip
from headway.audit.search.case import Case, shrink
from headway.audit.search.compare import Comparison, Deviations, gradient_deviations, value_deviations
from headway.audit.search.localise import first_wrong, first_wrong_by_gradient, layers
from headway.audit.search.noise import MARGIN, rounding
from headway.audit.search.search_context import SearchContext, TrialRng

ATTEMPTS = 4  # draws for each trial: not every draw poses a law

Draw = Callable[[SearchContext, TrialRng], Case]
Compare = Callable[[SearchContext, Case], Comparison | None]


@dataclass(frozen=True, eq=False)
class Violation:
    """A case that breaks a law: by how much, and whether in its values or in gradients alone."""

    case: Case
    comparison: Comparison
    found: Deviations
    tolerance: float
    in_values: bool


def search(
    context: SearchContext,
    law: str,
    draw: Draw,
    compare: Compare,
    *,
    claimed: bool = True,
    trials: int | None = None,
    start: int = 0,
) -> Finding:
    """Try a law. One that is not claimed is looked for a counter-example all the same, and is never broken.

    `start` is the number of the first trial: which turns have been taken already.
    """
    if why_undecidable := context.why_undecidable:
        return Finding(law, NOT_APPLICABLE, why=f"{why_undecidable}, so that nothing can be told")
    worst, tried, failed = 0.0, 0, ""
    alone = context.subject is context.original
    wanted = trials or max(1, context.effort.trials - (0 if alone else context.effort.in_own_dtype))
    for trial in range(start, start + ATTEMPTS * wanted):
        case = draw(context, context.random(law, trial))
        try:
            comparison = compare(context, case)
            if comparison is None:
                continue
            look = _confirmed if claimed else _tried
            broken, deviation = look(context, case, comparison, gradients=claimed and tried < context.effort.gradients)
        except Exception as error:  # whatever a foreign model says to a text that it does not expect
            failed = failed or _failure(case, error)
            continue
        tried, worst = tried + 1, max(worst, deviation)
        if broken is not None:
            return _refuted(context, law, broken, compare, tried, claimed=claimed)
        if tried == wanted:
            break
    if not tried:
        return Finding(law, NOT_APPLICABLE, why=failed or "no trial could pose it")
    found = Finding(law, HOLDS if claimed else REFUTED, tried, worst, context.noise.tolerance, why=failed)
    return found if alone or not claimed else _in_own_dtype(context, found, draw, compare)


def _refuted(
    context: SearchContext, law: str, broken: Violation, compare: Compare, tried: int, *, claimed: bool
) -> Finding:
    """What nobody claims is shrunk a little only."""
    tries = context.effort.shrinking // (1 if claimed else 10)
    return _finding_of(context, law, _shrink(context, broken, compare, tries), tried, BROKEN if claimed else REFUTED)


def _in_own_dtype(context: SearchContext, found: Finding, draw: Draw, compare: Compare) -> Finding:
    """What holds in float64 is tried in the model's own numbers, whose lowest number is another."""
    own = context.for_variant(context.original, context.noise.in_own_dtype())
    own.effort = replace(context.effort, gradients=0)
    once = search(
        own, found.law, draw, compare, trials=min(context.effort.in_own_dtype, found.trials + 1), start=found.trials
    )
    if once.status != BROKEN or once.example is None:
        return replace(found, trials=found.trials + once.trials)
    kind = str(context.original.dtype).removeprefix("torch.")
    told = replace(once.example, sentence=f"{once.example.sentence} (in {kind}, not in float64)")
    return replace(once, trials=found.trials + once.trials, example=told)


def _failure(case: Case, error: Exception) -> str:
    told = ", ".join(f"{name} {value}" for name, value in case.as_json().items())
    return f"a trial failed ({told}): {error_line(error)}"


def _tried(
    context: SearchContext, case: Case, comparison: Comparison, *, gradients: bool = True
) -> tuple[Violation | None, float]:
    """Values first; gradients where values agree."""
    found, tolerance = value_deviations(context.subject, comparison), context.noise.tolerance
    if found.largest > tolerance:
        return Violation(case, comparison, found, tolerance, True), found.largest
    if (
        not (gradients and comparison.gradients)
        or comparison.stepwise
        or context.subject.missing("vectors") is not None
    ):
        return None, found.largest
    slopes, limit = gradient_deviations(context.subject, comparison), context.noise.gradient_tolerance
    if slopes.largest > limit:
        return Violation(case, comparison, slopes, limit, False), slopes.largest
    return None, max(found.largest, slopes.largest)


def _confirmed(
    context: SearchContext, case: Case, comparison: Comparison, *, gradients: bool
) -> tuple[Violation | None, float]:
    """The same, asked once more before a law is called broken.

    Rounding may be worse on this very text than on the one it was measured on. And what only the copy in float64 does
    (a mask of its lowest number becomes -inf where the model falls back to float32) is no fault of the model.
    """
    broken, deviation = _tried(context, case, comparison, gradients=gradients)
    if broken is None or comparison.other is not None:
        return broken, deviation
    noise = context.noise
    if (
        context.chance
        and broken.in_values
        and rounding(context.subject, context.subject, comparison.before) > noise.tolerance
    ):
        raise ValueError("two equal runs of this text differ (see determinism)")
    if context.subject is context.original:
        return broken, deviation
    here = MARGIN * rounding(context.subject, context.original, comparison.before)
    own = max(here, (noise.tolerance if broken.in_values else noise.gradient_tolerance) / noise.share)
    if broken.in_values and deviation <= here * noise.share:
        return None, deviation
    if deviation > own:
        measure = value_deviations if broken.in_values else gradient_deviations
        again = measure(context.original, comparison).largest
        if again <= own:
            return None, again * noise.share
    return broken, deviation


def _shrink(context: SearchContext, broken: Violation, compare: Compare, tries: int) -> Violation:
    """The smallest that still breaks; the one it came from where that cannot be confirmed."""
    best = [broken]

    def breaks(case: Case) -> bool:
        try:
            comparison = compare(context, case)
            found = None if comparison is None else _tried(context, case, comparison, gradients=not broken.in_values)[0]
        except Exception:  # too small a text for the model
            return False
        if found is None or found.in_values != broken.in_values:
            return False
        best.append(found)
        return True

    a = context.subject.adapter
    shrink(broken.case, breaks, tries=tries, shortest=a.shortest, multiple=a.multiple)
    last = best[-1]
    sure = (
        last is broken or _confirmed(context, last.case, last.comparison, gradients=not last.in_values)[0] is not None
    )
    return last if sure else broken


def _finding_of(context: SearchContext, law: str, broken: Violation, tried: int, status: str) -> Finding:
    rows, module = _located(context, broken)
    sentence = (
        broken.comparison.sentence if broken.in_values else f"{broken.comparison.sentence} (seen in gradients alone)"
    )
    example = Example(
        sentence, token_rows(context.subject, broken.comparison, broken.found, broken.tolerance), broken.case.as_json()
    )
    return Finding(law, status, tried, broken.found.largest, broken.tolerance, module, example=example, layers=rows)


def _located(context: SearchContext, broken: Violation) -> tuple[list[ModuleDeviation], str]:
    if not broken.in_values:
        return [], first_wrong_by_gradient(context.subject, broken.comparison, broken.tolerance)
    rows = layers(context.subject, broken.comparison, broken.tolerance, broken.found.largest)
    return rows, first_wrong(rows, broken.tolerance, broken.found.largest)


def token_rows(subject: AdaptedModel, comparison: Comparison, found: Deviations, tolerance: float) -> list[Strip]:
    """The rows of all readings: first as they are compared with, then as they deviate."""
    amounts = dict(zip(found.labels.tolist(), found.amounts.tolist(), strict=True))
    if not subject.per_position:  # one result stands for its whole row
        readings = (*comparison.before, *comparison.after)
        known = {label for reading in readings for label in reading.labels.reshape(-1).tolist() if label >= 0}
        amounts = {label: amounts[label // SPAN] for label in known if label // SPAN in amounts}
    rows = [
        one for title, reading in _titled("once", comparison.before) for one in _rows(subject, reading, title, {}, 0.0)
    ]
    for title, reading in _titled("piece" if comparison.stepwise else "again", comparison.after):
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
