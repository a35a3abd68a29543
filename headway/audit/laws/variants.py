"""A model in another state, for laws that compare it with itself: in training, without dropout, in its own numbers."""

import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from math import sqrt
from typing import Any

import numpy as np
import torch
from torch import nn

from headway.adapt.adapter import Reading
from headway.adapt.call import call
from headway.adapt.model import AdaptedModel
from headway.audit.report import NOT_APPLICABLE, Finding
from headway.audit.search.noise import Noise
from headway.audit.search.search_context import SearchContext

Around = Callable[[nn.Module], AbstractContextManager[Any]]
TAKES = ("keep", "positions", "segments", "source")


def variant_context(context: SearchContext, subject: AdaptedModel, noise: Noise) -> SearchContext:
    """A context for a variant of the model, which answers for itself: less is excused."""
    return context.for_variant(subject.with_probes_of(context.subject), noise, chance=False)


def rounding(context: SearchContext, dtype: torch.dtype | None = None) -> Noise:
    """What rounding alone explains in numbers of that type (None: those examined).

    What two equal runs differ by is not excused, and rounding that takes more than half of the digits is none.
    """
    noise = context.noise
    epsilon = noise.epsilon if dtype is None else max(noise.epsilon, torch.finfo(dtype).eps)
    grown, most = epsilon / noise.epsilon, sqrt(epsilon)
    values, gradients = (min(max(one * grown, epsilon / 2), most) for one in (noise.values, noise.gradients))
    return Noise(values, gradients, 0.0, epsilon)


def with_context_manager(subject: AdaptedModel, around: Around, known: AdaptedModel) -> AdaptedModel:
    """The same, with something around each of its calls; `known` can do what it can."""
    plain = subject.adapter

    def read(module: nn.Module, reading: Reading) -> object:
        with around(module):
            return call(module, plain, reading)

    takes = frozenset(one for one in TAKES if known.missing(one) is None)
    return replace(subject, adapter=replace(plain, call=read, takes=takes)).with_probes_of(known)


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """All that draws begins at this seed, and goes on afterwards as if nothing had been drawn."""
    states = random.getstate(), np.random.get_state()
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        random.seed(seed)
        np.random.seed(seed)
        try:
            yield
        finally:
            random.setstate(states[0])
            np.random.set_state(states[1])


def combine(findings: Iterable[Finding], law: str) -> Finding:
    """The first that is broken, else the one that deviates most, with the trials of all; what could not be tried is
    named. Where nothing could be tried the law is not applicable."""
    seen: list[Finding] = []
    for one in findings:
        seen.append(one)
        if one.broken:
            return replace(one, law=law, trials=sum(one.trials for one in seen))
    tried = [one for one in seen if one.status != NOT_APPLICABLE]
    reasons = "; ".join(dict.fromkeys(one.why for one in seen if one.why))
    if not tried:
        return Finding(law, NOT_APPLICABLE, why=reasons or "nothing of it could be tried")
    worst = max(tried, key=lambda one: one.deviation or 0.0)
    return replace(worst, law=law, trials=sum(one.trials for one in tried), why=reasons)
