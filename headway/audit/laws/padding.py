"""Padding changes nothing: on either side, of any amount, whatever it holds; not even NaN gets out of it."""

from dataclasses import replace

from torch import Tensor

from headway.adapt.adapter import Overwrite, Reading
from headway.adapt.inputs import draw_inputs, fit_length, no_labels
from headway.adapt.model import AdaptedModel
from headway.audit.report import Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Comparison
from headway.audit.search.find import search
from headway.audit.search.search_context import SearchContext, TrialRng
from headway.models import parameters

LARGE = 1e6  # a score that -1e4 does not outweigh
HELD = {"large": "large numbers"}
POISONS = {"nan": float("nan"), "inf": float("inf"), "-inf": float("-inf")}


def padding(context: SearchContext) -> Finding:
    """Items alone, and padded in one batch."""
    return search(context, "padding", draw, compare)


def quarantine(context: SearchContext) -> Finding:
    """The same with NaN or inf where the padding is, and in the gradients of the weights."""
    return search(context, "quarantine", draw_poison, compare)


def draw(context: SearchContext, rng: TrialRng) -> Case:
    """Left, right and both sides in turn; a source is padded where there is one."""
    a, most = context.subject.adapter, max(1, context.effort.longest // 3)
    length = context.draw_length(rng, least=2)
    room = most if a.longest is None else max(0, min(most, a.longest - length))
    sides = rng.turn([(1, 0), (0, 1), (1, 1)])
    left, right = (side * rng.randint(1, max(1, room // sum(sides))) for side in sides)
    kinds = ["tokens", "large"] if context.subject.missing("vectors") is None else ["tokens"]
    items = min(rng.turn([2, 1, 3]), context.effort.items)
    return Case(
        rng.randrange(1 << 30), length, items, left if room else 0, right if room else 0,
        source=fit_length(context.subject.adapter, length + 3), content=rng.turn(kinds),
    )  # fmt: skip


def draw_poison(context: SearchContext, rng: TrialRng) -> Case:
    return replace(draw(context, rng), content=rng.turn(list(POISONS)))


def compare(context: SearchContext, case: Case) -> Comparison | None:
    """Each item alone; then all in one batch, the k-th shorter by k, padded to one length."""
    subject = context.subject
    if (case.length + case.left + case.right) % subject.adapter.multiple or case.left + case.right + case.items < 2:
        return None
    whole = case.reading(subject.adapter)
    alone = tuple(_alone(whole, k, _length(subject, case, k)) for k in range(case.items))
    padded = _padded(subject, case, alone)
    hidden = [one for one in (padded.keep, padded.source_keep) if one is not None]
    if all(bool(one.all()) for one in hidden):  # nothing is padded, and nothing would be tried
        return None
    poison = case.content in POISONS
    sides = " and ".join(
        f"{count} on the {side}" for side, count in (("left", case.left), ("right", case.right)) if count
    )
    one = case.left + case.right == 1
    held = (
        "" if case.content == "tokens" else f", which hold{'s' if one else ''} {HELD.get(case.content, case.content)}"
    )
    sentence = f"results change with padding ({sides or 'to one length'}){held}"
    return Comparison(alone, (padded,), sentence, weights=poison and _small(subject))


def _small(subject: AdaptedModel) -> bool:
    return parameters(subject.module) < 5_000_000


def _length(subject: AdaptedModel, case: Case, item: int) -> int:
    return max(subject.adapter.shortest, case.length - item * subject.adapter.multiple, 1)


def _alone(whole: Reading, item: int, length: int) -> Reading:
    source = whole.source
    kept = None if source is None else max(1, source.shape[1] - item)
    return replace(
        whole.part(0, length), inputs=whole.inputs[item : item + 1, :length],
        labels=whole.labels[item : item + 1, :length],
        source=None if source is None else source[item : item + 1, :kept],
        source_labels=None if whole.source_labels is None else whole.source_labels[item : item + 1, :kept],
    )  # fmt: skip


def _padded(subject: AdaptedModel, case: Case, alone: tuple[Reading, ...]) -> Reading:
    total = case.left + case.length + case.right
    inputs, marks = _block(subject, case, [(one.inputs, one.labels) for one in alone], total, source=False)
    found = Reading(inputs, marks, keep=marks >= 0, overwrite=_over(case, marks < 0))
    if not subject.adapter.reads_source:
        return found
    given = [(one.source, one.source_labels) for one in alone]
    parts = [(one, marks) for one, marks in given if one is not None and marks is not None]
    width = max(one.shape[1] for one, _ in parts) + (case.left + case.right) // 2
    width += width == total  # lengths tell whose places a module's numbers belong to
    source, source_marks = _block(subject, case, parts, width, source=True)
    gone = source_marks < 0
    return replace(
        found, source=source, source_labels=source_marks, source_keep=~gone, source_overwrite=_over(case, gone)
    )


def _block(
    subject: AdaptedModel, case: Case, parts: list[tuple[Tensor, Tensor]], total: int, *, source: bool
) -> tuple[Tensor, Tensor]:
    """Items one below the other, with `left` padding before and the rest behind; all before where left is alone."""
    first = parts[0][0]
    filler = draw_inputs(subject.adapter, case.seed + 5, len(parts), total, source=source).to(first)
    if case.seed % 2:  # as a rule padding is one token again and again
        filler = filler[:1, :1].expand_as(filler).clone()
    marks = no_labels(len(parts), total)
    for row, (inputs, given) in enumerate(parts):
        size = inputs.shape[1]
        start = total - size if case.left and not case.right else min(case.left, total - size)
        filler[row, start : start + size] = inputs[0]
        marks[row, start : start + size] = given[0]
    return filler, marks


def _over(case: Case, where: Tensor) -> Overwrite | None:
    value = LARGE * (-1) ** case.seed if case.content == "large" else POISONS.get(case.content)
    return None if value is None or not bool(where.any()) else Overwrite(where, value)
