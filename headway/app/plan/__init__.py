"""Which model for this data, in this time and memory: sizes, their prices, and the one to take.

The rule: of the models whose step fits into the memory, the one with the lowest loss to expect (plan_law) after the
steps that the time allows, within so many passes over the data; and where the data and not the time is what ends it,
no more parameters than tokens are seen, since such a model would learn them by heart.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from headway.app.plan.candidate import (
    DATA,
    MEMORY,
    PASSES,
    SHARE,
    TIME,
    Candidate,
    Task,
    Wanted,
    candidate,
    command_of,
    settings_of,
)
from headway.app.plan.data import DataSize, data_size
from headway.app.plan.sizes import choices, length_for, model_for
from headway.config.train import ModelChoice, TrainConfig

__all__ = ["Plan", "PlanInput", "Wanted", "choose", "make_plan", "read_input"]

LEAST = 1.0  # tokens seen for each parameter, where the data is what ends it
SHOWN = 5  # sizes around the one to take


@dataclass(frozen=True, eq=False)
class Plan:
    """Candidates of rising size, the one to take, why, and the command."""

    known: DataSize
    candidates: Sequence[Candidate]
    best: Candidate
    why: str
    command: str


@dataclass(frozen=True, eq=False)
class PlanInput:
    """Settings, the models to choose from, and what is known of the data."""

    config: TrainConfig
    given: Mapping[str, Any]  # settings that somebody chose, which stay
    sizes: Sequence[ModelChoice]
    known: DataSize
    length: int


def read_input(config: TrainConfig, given: Mapping[str, Any]) -> PlanInput:
    """The data of a configuration is read, and its mistakes are found, before any machine is measured."""
    sizes, known = choices(config), data_size(config)
    length = config.length if "length" in given else length_for(config, known)
    model_for(config, sizes[0], known, length)  # a model that cannot be is refused here
    return PlanInput(config, given, sizes, known, length)


def make_plan(read: PlanInput, wanted: Wanted) -> Plan:
    """The sizes with their prices, and the one to take."""
    config, given, known = read.config, read.given, read.known
    task = Task(config, given, known, read.length, wanted)
    found = list(_rising(task, read.sizes))
    _check(found, wanted)
    best = choose(found)
    first = max(0, min(found.index(best) - SHOWN // 2, len(found) - SHOWN))
    command = command_of(config.data.train, given, settings_of(task, best))
    return Plan(known, found[first : first + SHOWN], best, why(best, found, config), command)


def _rising(task: Task, sizes: Sequence[ModelChoice]) -> Iterator[Candidate]:
    """Until some are beyond the best: from there on every larger one is worse."""
    found: list[Candidate] = []
    for choice in sizes:
        found.append(candidate(task, choice))
        yield found[-1]
        if not found[0].steps or (len(found) >= SHOWN and len(found) - found.index(choose(found)) > SHOWN // 2):
            return


def _check(found: Sequence[Candidate], wanted: Wanted) -> None:
    if any(one.steps for one in found):
        return
    if all(one.limit == MEMORY for one in found):
        least = min(one.price.memory or 0 for one in found)
        raise ValueError(
            f"a memory of {wanted.memory:,} bytes is too small: a step of the smallest model takes {least:,}"
        )
    least = min(one.seconds for one in found if one.limit != MEMORY)
    raise ValueError(
        f"a budget of {wanted.seconds:g} s is too short for one step of the smallest model: it takes {least:.2g} s, "
        f"and {SHARE:.0%} of the time is for steps"
    )


def choose(found: Sequence[Candidate]) -> Candidate:
    """The one with the lowest loss to expect; where every one could learn the data by heart, the smallest."""
    able = [one for one in found if one.steps]
    fit = [one for one in able if one.limit == TIME or one.ratio >= LEAST]
    return min(fit, key=lambda one: one.excess) if fit else able[0]


def why(best: Candidate, found: Sequence[Candidate], config: TrainConfig) -> str:
    """The reason in a sentence."""
    passes = f"in {PASSES[config.task]} passes over the data, which are over before the time is"
    ended = passes if best.limit == DATA else f"in this time, {best.passes:.2g} passes over the data"
    seen = f"it sees {best.ratio:,.3g} tokens for each parameter outside of embeddings {ended}"
    if len(found) == 1:
        return f"the size was given; {seen}"
    after = found[found.index(best) + 1 :]
    if after and after[0].limit == MEMORY:
        return f"the largest whose step fits into the memory; {seen}"
    if best.limit == DATA and best.ratio < LEAST:
        return f"the smallest, and even that can learn this little data by heart; {seen}"
    if best.limit == DATA and after and after[0].limit == DATA and after[0].ratio < LEAST:
        return f"the largest that has no more parameters than tokens to see; {seen}"
    return f"the lowest loss to expect (the law of arXiv:2203.15556, refitted in arXiv:2404.10102); {seen}"
