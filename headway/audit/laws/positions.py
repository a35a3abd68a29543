"""Positions: results move with their inputs where a model claims it; where it does not, an example shows it.

Two claims are known. Equivariance: in another order, the results are the same, in that order. Shifts: positions that
all grow by the same number change nothing.
"""

from dataclasses import replace

import torch

from headway.adapt.adapter import Reading
from headway.audit.report import BROKEN, HOLDS, REFUTED, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import Comparison
from headway.audit.search.find import search
from headway.audit.search.search_context import SearchContext, TrialRng


def positions(context: SearchContext) -> Finding:
    """Both claims: tried where they are made, refuted where they are not."""
    a = context.subject.adapter
    found = [search(context, "positions", draw, permuted, claimed=bool(a.equivariant))]
    if context.subject.missing("positions") is None:
        found.append(search(context, "positions", draw, shifted, claimed=bool(a.shifts)))
    return _combined(found)


def _combined(found: list[Finding]) -> Finding:
    """The claim that is broken, else one that holds, else the first that nobody makes; `why` tells of all others."""
    order = sorted(found, key=lambda one: (one.status != BROKEN, one.status != HOLDS))
    sentences = [one.example.sentence for one in order if one.example is not None and one.status == REFUTED]
    return replace(order[0], trials=sum(one.trials for one in found), why=order[0].why or "; ".join(sentences))


def draw(context: SearchContext, rng: TrialRng) -> Case:
    """Two places that change seats, or more."""
    length = context.draw_length(rng, least=2)
    places = tuple(sorted(rng.sample(range(length), min(length, rng.randint(2, 4)))))
    return Case(rng.randrange(1 << 30), length, rng.randint(1, 2), changed=places, source=length + 2)


def permuted(context: SearchContext, case: Case) -> Comparison | None:
    """The inputs at these places go round by one."""
    if len(case.changed) < 2:
        return None
    whole = case.reading(context.subject.adapter)
    order = torch.arange(case.length)
    order[list(case.changed)] = torch.tensor([*case.changed[1:], case.changed[0]])
    moved = replace(whole, inputs=whole.inputs[:, order], labels=whole.labels[:, order])
    places = " and ".join(map(str, case.changed))
    return Comparison((whole,), (moved,), f"results do not move along when the inputs at {places} change places")


def shifted(context: SearchContext, case: Case) -> Comparison | None:
    """Positions 0, 1, … and the same some places further on."""
    longest, by = context.subject.adapter.longest, 1 + case.seed % 7
    if longest is not None:
        by = min(by, longest - case.length)
    if by < 1:
        return None
    whole = case.reading(context.subject.adapter)
    counted = torch.arange(case.length).expand(case.items, -1)
    sentence = f"results change when all positions grow by {by}"
    return Comparison((_at(whole, counted),), (_at(whole, counted + by),), sentence)


def _at(whole: Reading, positions: torch.Tensor) -> Reading:
    return replace(whole, positions=positions)
