"""What all laws share: the model in its own numbers and in float64, its noise, how hard to look, and what is drawn."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from random import Random
from typing import TypeVar

from headway.adapt.adapter import Adapter
from headway.adapt.inputs import fit_length, other_inputs, probe
from headway.adapt.model import AdaptedModel
from headway.audit.search.compare import Comparison, value_deviations
from headway.audit.search.noise import MARGIN, Noise, in_float64, measure_noise
from headway.models import parameters

One = TypeVar("One")


class TrialRng(Random):
    """Draws from a seed, and knows the number of its trial."""

    def __init__(self, seed: str, trial: int) -> None:
        super().__init__(seed)
        self.trial = trial

    def turn(self, options: Sequence[One], *, every: int = 1) -> One:
        """The options one after the other, trial by trial (or the next one only `every` so many trials).

        >>> [TrialRng("", trial).turn("abc") for trial in range(4)]
        ['a', 'b', 'c', 'a']
        """
        return options[self.trial // every % len(options)]

    def length(self, adapter: Adapter, *, least: int, most: int) -> int:
        """A length between two, as the model takes it."""
        return fit_length(adapter, self.randint(least, most))


@dataclass(frozen=True)
class Effort:
    """How hard to look: trials of each law, how many of them in the model's own numbers (the last ones, `at_home`), in
    how many at gradients too, lengths and items up to, tries to shrink a counter-example. Every sixth trial of a law,
    or the last, is of a text of the `far` length."""

    trials: int
    in_own_dtype: int
    gradients: int
    longest: int
    far: int
    items: int
    shrinking: int

    def for_size(self, parameters: int) -> "Effort":
        """Less of a model that is slow to run; told by its size, so that a report does not depend on the machine."""
        if parameters < LARGE:
            return self
        lengths = max(8, self.longest // 2), self.far // 4
        return Effort(max(3, self.trials // 4), 2, max(1, self.gradients // 8), *lengths, 2, self.shrinking // 2)

    def reaches_far(self, trial: int) -> bool:
        """Whether this trial is one of a long text."""
        return trial % 6 == min(self.trials, 6) - 1


LARGE = 20_000_000
UNCLEAR = 0.01  # of the largest number: what rounding and chance may explain without hiding a fault
NOISY = "two equal runs differ by {:.1g} of the largest number (see determinism)"
QUICK = Effort(trials=8, in_own_dtype=2, gradients=5, longest=12, far=140, items=4, shrinking=90)
FULL = Effort(trials=42, in_own_dtype=2, gradients=20, longest=80, far=300, items=6, shrinking=400)


class SearchContext:
    """What all laws share: the model in its own numbers and in float64, its noise, and how hard to look."""

    def __init__(self, original: AdaptedModel, effort: Effort = QUICK, seed: int = 0) -> None:
        self.original, self.seed, self.chance = original, seed, True
        self.effort = effort.for_size(parameters(original.module))

    def for_variant(self, subject: AdaptedModel, noise: Noise, *, chance: bool = True) -> "SearchContext":
        """The same with another subject, examined in its own numbers, whose noise is known; without `chance`,
        runs that differ by themselves are not excused."""
        found = SearchContext(subject, self.effort, self.seed)
        found.effort, found._precise, found.noise = self.effort, (subject, self.why_not_float64), noise
        found.chance, found.why_undecidable = chance, ""
        return found

    @cached_property
    def _precise(self) -> tuple[AdaptedModel, str]:
        return in_float64(self.original)

    @property
    def subject(self) -> AdaptedModel:
        """The one that is examined."""
        return self._precise[0]

    @property
    def why_not_float64(self) -> str:
        """Why it is not in float64; "" where it is."""
        return self._precise[1]

    @cached_property
    def noise(self) -> Noise:
        return measure_noise(self.subject, self.original)

    @cached_property
    def why_undecidable(self) -> str:
        """Why no law can be told here; "" where they can."""
        noise = self.noise
        if MARGIN * noise.repeated > UNCLEAR:
            return NOISY.format(noise.repeated)
        if noise.tolerance > UNCLEAR:
            return f"rounding alone explains {noise.tolerance:.1g} of the largest number"
        one = probe(self.subject.adapter, 3)
        other = replace(one, inputs=other_inputs(self.subject.adapter, one.inputs, 1))
        still = value_deviations(self.subject, Comparison((one,), (other,), "")).largest == 0.0
        return "its results are the same whatever it reads" if still else ""

    def random(self, law: str, trial: int) -> TrialRng:
        return TrialRng(f"{law} {self.seed} {trial}", trial)

    def draw_length(self, random: TrialRng, *, least: int) -> int:
        """A length for a trial: mostly a short one, now and then a long one."""
        effort = self.effort
        if effort.reaches_far(random.trial):
            far = max(least, effort.far)
            return random.length(self.subject.adapter, least=max(least, far * 9 // 10), most=far)
        return random.length(self.subject.adapter, least=least, most=effort.longest)
