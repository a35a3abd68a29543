"""No result depends on a later input, neither in its value nor in its gradient."""

from dataclasses import replace

import torch

from headway.adapt.adapter import NOBODY
from headway.adapt.inputs import other_inputs
from headway.audit.report import NOT_APPLICABLE, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Comparison
from headway.audit.search.find import search
from headway.audit.search.search_context import SearchContext, TrialRng

UNSAID = "it does not say that it reads from left to right; say causal=True (--causal) to have it tried"


def causal(context: SearchContext) -> Finding:
    """Later inputs change, or come on top; what stands before them must not move."""
    claimed = context.subject.adapter.causal
    if claimed is None:
        return Finding("causal", NOT_APPLICABLE, why=UNSAID)
    return search(context, "causal", draw, compare, claimed=claimed)


def draw(context: SearchContext, rng: TrialRng) -> Case:
    """Some later inputs; every third time the text simply goes on; in a long text each row changes at its own place."""
    length = context.draw_length(rng, least=2)
    if context.effort.reaches_far(rng.trial):
        powers = [2**k for k in range(1, 9) if 2**k < length]  # where blocks and windows end
        some = rng.sample(range(1, length), min(length - 1, context.effort.items)) if length > 1 else []
        places = tuple(sorted({*powers, *some}))
        return Case(rng.randrange(1 << 30), length, changed=places, source=length + 3, content="each")
    first = rng.randrange(1, length) if length > 1 else 1
    later = range(first, length)
    changed = tuple(sorted(rng.sample(later, rng.randint(1, len(later))))) if later else ()
    whole = rng.turn([False, True, False])
    content = "appended" if whole else "changed"
    return Case(
        rng.randrange(1 << 30), length, rng.randint(1, 2), changed=tuple(later) if whole else changed,
        source=length + 3, content=content,
    )  # fmt: skip


def compare(context: SearchContext, case: Case) -> Comparison | None:
    """The text as it is, and with later inputs changed (or, appended: without them)."""
    subject, multiple = context.subject, context.subject.adapter.multiple
    if not case.changed or min(case.changed) < 1:
        return None
    if case.content == "each":
        return _each(context, case)
    whole, first = case.reading(subject.adapter), min(case.changed)
    places = ", ".join(str(place) for place in case.changed)
    if case.content == "appended":
        if first % multiple or first < subject.adapter.shortest:
            return None
        keep = whole.labels.clone()
        keep[:, first:] = NOBODY
        sentence = f"results before place {first} change when the text goes on there"
        return Comparison((whole.part(0, first),), (replace(whole, labels=keep),), sentence)
    where = torch.zeros(case.length, dtype=torch.bool)
    where[list(case.changed)] = True
    labels = whole.labels.clone()
    labels[:, first:] = NOBODY
    other = other_inputs(subject.adapter, whole.inputs, case.seed)
    shape = (1, -1, *[1] * (whole.inputs.ndim - 2))
    inputs = torch.where(where.reshape(shape), other, whole.inputs)
    sentence = f"results before place {first} change with the input at {places}"
    return Comparison((replace(whole, labels=labels),), (replace(whole, inputs=inputs, labels=labels),), sentence)


def _each(context: SearchContext, case: Case) -> Comparison:
    """One text in many rows, each with another input at a place of its own; results before that place are compared."""
    rows, where = len(case.changed), torch.tensor(case.changed)
    whole = replace(case, items=rows).reading(context.subject.adapter)
    text = whole.inputs[:1].expand_as(whole.inputs)
    here = torch.arange(case.length) == where[:, None]
    labels = whole.labels.masked_fill(torch.arange(case.length) >= where[:, None], NOBODY)
    other = other_inputs(context.subject.adapter, text, case.seed)
    changed = torch.where(here.reshape(*here.shape, *[1] * (text.ndim - 2)), other, text)
    places = ", ".join(map(str, case.changed))
    sentence = f"results before place {places} change with the input there"
    one = replace(whole, inputs=text.contiguous(), labels=labels)
    return Comparison((one,), (replace(one, inputs=changed),), sentence, gradients=False)
