"""Texts that are packed into one row do not see each other."""

from dataclasses import replace

import torch

from headway.adapt.adapter import Reading
from headway.adapt.inputs import draw_inputs, item_labels
from headway.audit.report import NOT_APPLICABLE, Finding
from headway.audit.search.case import Case
from headway.audit.search.contrast import Contrast
from headway.audit.search.dice import Dice
from headway.audit.search.find import search
from headway.audit.search.scene import Scene


def segments(scene: Scene) -> Finding:
    """Each text alone, and all in one row."""
    if scene.subject.adapter.reads_source:
        return Finding("segments", NOT_APPLICABLE, why="each row has one source, so its texts cannot be packed")
    return search(scene, "segments", draw, pose)


def draw(scene: Scene, random: Dice) -> Case:
    length = scene.a_length(random, least=3)
    parts, left = [], length
    while left:
        parts.append(random.randint(1, max(1, min(left, length - 1))))
        left -= parts[-1]
    return Case(random.randrange(1 << 30), length, chunks=tuple(parts))


def pose(scene: Scene, case: Case) -> Contrast | None:
    """The texts have the lengths of the case's pieces."""
    if len(case.chunks) < 2 or sum(case.chunks) != case.length:
        return None
    a = scene.subject.adapter
    whole = draw_inputs(a, case.seed, 1, case.length)
    marks = torch.cat([item_labels(1, size, first=k) for k, size in enumerate(case.chunks)], 1)
    alone = [Reading(x, mark) for x, mark in zip(whole.split(case.chunks, 1), marks.split(case.chunks, 1), strict=True)]
    packed = Reading(
        whole,
        marks,
        positions=torch.cat([torch.arange(size) for size in case.chunks])[None],
        segments=torch.cat([torch.full((size,), k) for k, size in enumerate(case.chunks)])[None],
    )
    told = f"texts of {', '.join(map(str, case.chunks))} in one row see each other"
    return Contrast(tuple(_plain(one) for one in alone), (packed,), told)


def _plain(reading: Reading) -> Reading:
    return replace(reading, positions=None, segments=None)
