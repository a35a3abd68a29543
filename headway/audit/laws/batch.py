"""An item's result does not depend on its companions, on how many they are, or on their order."""

from dataclasses import replace

import torch

from headway.adapt.adapter import NOBODY, Reading
from headway.adapt.inputs import draw_inputs, item_labels
from headway.audit.report import NOT_APPLICABLE, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Comparison
from headway.audit.search.find import search
from headway.audit.search.search_context import SearchContext, TrialRng


def batch(context: SearchContext) -> Finding:
    """Items alone, beside each other in another order, and beside strangers."""
    return search(context, "batch", draw, compare)


def draw(context: SearchContext, rng: TrialRng) -> Case:
    length = context.draw_length(rng, least=1)
    content = rng.turn(["alone", "strangers", "order"])
    return Case(
        rng.randrange(1 << 30),
        length,
        rng.randint(2, max(2, context.effort.items)),
        source=length + 2,
        content=content,
    )


def compare(context: SearchContext, case: Case) -> Comparison | None:
    """`alone`: one by one; `order`: the whole batch as it is; `strangers`: the first alone, the others unlabelled."""
    if case.items < 2:
        return None
    whole = case.reading(context.subject.adapter)
    if case.content == "alone":
        alone = tuple(rows(whole, [k]) for k in range(case.items))
        return Comparison(alone, (whole,), f"results of {case.items} items differ from those of each alone")
    if case.content == "order":
        order = torch.randperm(case.items, generator=torch.Generator().manual_seed(case.seed)).tolist()
        order = order if order != sorted(order) else order[::-1]
        return Comparison(
            (whole,), (rows(whole, order),), f"results change when {case.items} items stand in another order"
        )
    labels = whole.labels.clone()
    labels[1:] = NOBODY
    beside = f"a result changes with {case.items - 1} other item{'s' * (case.items > 2)} beside it"
    return Comparison((rows(whole, [0]),), (replace(whole, labels=labels),), beside)


def rows(reading: Reading, which: list[int]) -> Reading:
    """Some items of a reading, in this order."""

    def some(x: torch.Tensor | None) -> torch.Tensor | None:
        return None if x is None else x[which]

    return replace(
        reading, inputs=reading.inputs[which], labels=reading.labels[which], keep=some(reading.keep),
        positions=some(reading.positions), segments=some(reading.segments), source=some(reading.source),
        source_labels=some(reading.source_labels), source_keep=some(reading.source_keep),
    )  # fmt: skip


def segments(context: SearchContext) -> Finding:
    """Each text alone, and all in one row."""
    if context.subject.adapter.reads_source:
        return Finding("segments", NOT_APPLICABLE, why="each row has one source, so its texts cannot be packed")
    return search(context, "segments", draw_packed, compare_packed)


def draw_packed(context: SearchContext, rng: TrialRng) -> Case:
    length = context.draw_length(rng, least=3)
    parts, left = [], length
    while left:
        parts.append(rng.randint(1, max(1, min(left, length - 1))))
        left -= parts[-1]
    return Case(rng.randrange(1 << 30), length, chunks=tuple(parts))


def compare_packed(context: SearchContext, case: Case) -> Comparison | None:
    """The texts have the lengths of the case's pieces."""
    if len(case.chunks) < 2 or sum(case.chunks) != case.length:
        return None
    a = context.subject.adapter
    whole = draw_inputs(a, case.seed, 1, case.length)
    marks = torch.cat([item_labels(1, size, first=k) for k, size in enumerate(case.chunks)], 1)
    alone = [Reading(x, mark) for x, mark in zip(whole.split(case.chunks, 1), marks.split(case.chunks, 1), strict=True)]
    packed = Reading(
        whole,
        marks,
        positions=torch.cat([torch.arange(size) for size in case.chunks])[None],
        segments=torch.cat([torch.full((size,), k) for k, size in enumerate(case.chunks)])[None],
    )
    sentence = f"texts of {', '.join(map(str, case.chunks))} in one row see each other"
    return Comparison(tuple(_plain(one) for one in alone), (packed,), sentence)


def _plain(reading: Reading) -> Reading:
    return replace(reading, positions=None, segments=None)
