"""A row that may see nothing gives numbers, not NaN, and leaves its companions alone.

Such rows are: an item of nothing but padding beside a real one, padding before the first real token where texts are
read from left to right, and for an encoder-decoder a source of nothing but padding. A model that refuses them with a
ValueError has said what it thinks of them, and holds.
"""

from collections.abc import Iterator
from dataclasses import replace
from math import inf

import torch

from headway.adapt.adapter import NOBODY, Reading
from headway.adapt.inputs import fit_length
from headway.audit.laws.batch import rows
from headway.audit.laws.finite import Fault, fault_of, rows_of
from headway.audit.laws.variants import first_broken
from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, Example, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Contrast
from headway.audit.search.find import Pose, search
from headway.audit.search.search_context import LARGE, QUICK, Dice, Scene
from headway.models import parameters

SMALL = 5_000_000  # parameters: up to here their gradients are looked at in every trial
SAYINGS = {
    "row": "beside a row of nothing but padding",
    "leading": "in a row that begins with padding",
    "source": "beside a row whose source is nothing but padding",
}


def empty(scene: Scene) -> Finding:
    """Every such row that the model can be given."""
    kinds = list(_kinds(scene))
    if not kinds:
        return Finding("empty", NOT_APPLICABLE, why=scene.subject.missing("text", "keep") or "it takes no padding")
    found = list(_each(scene, kinds))
    refusals = "; ".join(one.why for one in found if one.why)
    told = first_broken(iter(found), "empty")
    return told if told.broken else replace(told, why=refusals)


def _kinds(scene: Scene) -> Iterator[str]:
    subject, a = scene.subject, scene.subject.adapter
    if subject.missing("text", "keep") is None:
        yield "row"
        if a.causal and fit_length(subject.adapter, 3 * a.multiple) > a.multiple:
            yield "leading"
    if subject.missing("source") is None and (a.source_mask is not None or a.call is not None):
        yield "source"


def _each(scene: Scene, kinds: list[str]) -> Iterator[Finding]:
    """Whether it is taken at all; then numbers, then the companions."""
    for kind in kinds:
        found = _refused(scene, kind) or _numbers(scene, kind)
        if not found.broken and not found.why and kind != "leading":
            found = _companions(scene, kind, found)
        yield found
        if found.broken:
            return


def _refused(scene: Scene, kind: str) -> Finding | None:
    """A ValueError is an answer, any other error a crash."""
    length = fit_length(scene.subject.adapter, 5)
    text = emptied(scene, Case(scene.seed + 13, length, 2, source=length), kind)
    try:
        scene.subject.run([] if text is None else [text])
    except ValueError as error:
        return Finding("empty", HOLDS, 1, 0.0, 0.0, why=f"{kind}: it refuses, saying “{error}”")
    except Exception as error:
        told = f"{type(error).__name__} {SAYINGS[kind]}: {' '.join(str(error).split())[:200]}"
        return Finding("empty", BROKEN, 1, inf, 0.0, why=told, example=Example(told, [], {"kind": kind}))
    return None


def _companions(scene: Scene, kind: str, before: Finding) -> Finding:
    trials = max(1, scene.effort.trials // 4)
    found = search(scene, "empty", draw, beside(kind), trials=trials)
    return replace(found, trials=found.trials + before.trials)


def _numbers(scene: Scene, kind: str) -> Finding:
    """Results and gradients, those of the parameters too; a text of two places shows it, if any does.

    In the model's own numbers: whether something is finite is a matter of these.
    """
    subject = scene.original
    many = parameters(subject.module)
    weights = many < SMALL or scene.effort.longest > QUICK.longest
    lengths = sorted({fit_length(subject.adapter, size) for size in ((2, 5) if many < LARGE else (2,))})
    for tried, length in enumerate(lengths, 1):
        text = emptied(scene, Case(scene.seed + 13, length, 2, source=length + 1), kind)
        fault = None if text is None else fault_of(subject, text, weights=weights)
        if text is not None and fault is not None:
            return _told(scene, kind, text, fault, tried)
    return Finding("empty", HOLDS, len(lengths), 0.0, scene.noise.tolerance)


def draw(scene: Scene, random: Dice) -> Case:
    length = random.length(scene.subject.adapter, least=2, most=scene.effort.longest)
    return Case(random.randrange(1 << 30), length, random.randint(2, 3), source=length + 1)


def beside(kind: str) -> Pose:
    """The first item alone, and beside others that see nothing."""

    def pose(scene: Scene, case: Case) -> Contrast | None:
        if case.items < 2:
            return None
        text = emptied(scene, case, kind)
        alone = rows(case.reading(scene.subject.adapter), [0])
        told = f"a result changes {SAYINGS[kind]}"
        return None if text is None else Contrast((alone,), (text,), told)

    return pose


def emptied(scene: Scene, case: Case, kind: str) -> Reading | None:
    """The first item as it is, the others without anything to see."""
    text = case.reading(scene.subject.adapter)
    labels = text.labels.clone()
    labels[1:] = NOBODY
    if kind == "source":
        if text.source is None:
            return None
        keep = torch.ones_like(text.source, dtype=torch.bool)
        keep[1:] = False
        return replace(text, labels=labels, source_keep=keep)
    keep = torch.ones_like(text.labels, dtype=torch.bool)
    keep[1:, : case.length if kind == "row" else max(1, case.length // 2)] = False
    return replace(text, labels=labels, keep=keep)


def _told(scene: Scene, kind: str, text: Reading, fault: Fault, tried: int) -> Finding:
    sentence = f"{fault.what} are not finite {SAYINGS[kind]}"
    example = Example(
        sentence, rows_of(scene.subject, text, sentence, fault), {"kind": kind, "length": text.labels.shape[1]}
    )
    return Finding("empty", BROKEN, tried, inf, scene.noise.tolerance, fault.module, example=example)
