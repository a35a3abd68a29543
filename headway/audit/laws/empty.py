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
from headway.audit.laws.finite import Fault, find_fault, rows_of
from headway.audit.laws.variants import combine
from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, Example, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Comparison
from headway.audit.search.find import Compare, search
from headway.audit.search.search_context import LARGE, QUICK, SearchContext, TrialRng
from headway.models import parameters

SMALL = 5_000_000  # parameters: up to here their gradients are looked at in every trial
SAYINGS = {
    "row": "beside a row of nothing but padding",
    "leading": "in a row that begins with padding",
    "source": "beside a row whose source is nothing but padding",
}


def empty(context: SearchContext) -> Finding:
    """Every such row that the model can be given."""
    kinds = list(_kinds(context))
    if not kinds:
        return Finding("empty", NOT_APPLICABLE, why=context.subject.missing("text", "keep") or "it takes no padding")
    return combine(_each(context, kinds), "empty")


def _kinds(context: SearchContext) -> Iterator[str]:
    subject, a = context.subject, context.subject.adapter
    if subject.missing("text", "keep") is None:
        yield "row"
        if a.causal and fit_length(subject.adapter, 3 * a.multiple) > a.multiple:
            yield "leading"
    if subject.missing("source") is None and (a.source_mask is not None or a.call is not None):
        yield "source"


def _each(context: SearchContext, kinds: list[str]) -> Iterator[Finding]:
    """Whether it is taken at all; then numbers, then the companions."""
    for kind in kinds:
        found = _refused(context, kind) or _numbers(context, kind)
        if not found.broken and not found.why and kind != "leading":
            found = _companions(context, kind, found)
        yield found
        if found.broken:
            return


def _refused(context: SearchContext, kind: str) -> Finding | None:
    """A ValueError is an answer, any other error a crash."""
    length = fit_length(context.subject.adapter, 5)
    text = with_empty_rows(context, Case(context.seed + 13, length, 2, source=length), kind)
    try:
        context.subject.run([text])
    except ValueError as error:
        return Finding("empty", HOLDS, 1, 0.0, 0.0, why=f"{kind}: it refuses, saying “{error}”")
    except Exception as error:
        sentence = f"{type(error).__name__} {SAYINGS[kind]}: {' '.join(str(error).split())[:200]}"
        return Finding("empty", BROKEN, 1, inf, 0.0, why=sentence, example=Example(sentence, [], {"kind": kind}))
    return None


def _companions(context: SearchContext, kind: str, before: Finding) -> Finding:
    trials = max(1, context.effort.trials // 4)
    found = search(context, "empty", draw, beside(kind), trials=trials)
    return replace(found, trials=found.trials + before.trials)


def _numbers(context: SearchContext, kind: str) -> Finding:
    """Results and gradients, those of the parameters too; a text of two places shows it, if any does.

    In the model's own numbers: whether something is finite is a matter of these.
    """
    subject = context.original
    many = parameters(subject.module)
    weights = many < SMALL or context.effort.longest > QUICK.longest
    lengths = sorted({fit_length(subject.adapter, size) for size in ((2, 5) if many < LARGE else (2,))})
    for tried, length in enumerate(lengths, 1):
        text = with_empty_rows(context, Case(context.seed + 13, length, 2, source=length + 1), kind)
        fault = find_fault(subject, text, weights=weights)
        if fault is not None:
            return _finding_of(context, kind, text, fault, tried)
    return Finding("empty", HOLDS, len(lengths), 0.0, context.noise.tolerance)


def draw(context: SearchContext, rng: TrialRng) -> Case:
    length = rng.length(context.subject.adapter, least=2, most=context.effort.longest)
    return Case(rng.randrange(1 << 30), length, rng.randint(2, 3), source=length + 1)


def beside(kind: str) -> Compare:
    """The first item alone, and beside others that see nothing."""

    def compare(context: SearchContext, case: Case) -> Comparison | None:
        if case.items < 2:
            return None
        text = with_empty_rows(context, case, kind)
        alone = rows(case.reading(context.subject.adapter), [0])
        sentence = f"a result changes {SAYINGS[kind]}"
        return Comparison((alone,), (text,), sentence)

    return compare


def with_empty_rows(context: SearchContext, case: Case, kind: str) -> Reading:
    """The first item as it is, the others without anything to see."""
    text = case.reading(context.subject.adapter)
    labels = text.labels.clone()
    labels[1:] = NOBODY
    if kind == "source":
        assert text.source is not None
        keep = torch.ones_like(text.source, dtype=torch.bool)
        keep[1:] = False
        return replace(text, labels=labels, source_keep=keep)
    keep = torch.ones_like(text.labels, dtype=torch.bool)
    keep[1:, : case.length if kind == "row" else max(1, case.length // 2)] = False
    return replace(text, labels=labels, keep=keep)


def _finding_of(context: SearchContext, kind: str, text: Reading, fault: Fault, tried: int) -> Finding:
    sentence = f"{fault.what} are not finite {SAYINGS[kind]}"
    example = Example(
        sentence, rows_of(context.subject, text, sentence, fault), {"kind": kind, "length": text.labels.shape[1]}
    )
    return Finding("empty", BROKEN, tried, inf, context.noise.tolerance, fault.module, example=example)
