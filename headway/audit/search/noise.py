"""How much of a deviation rounding explains: measured on the model itself, not assumed.

The same text is read in float32 and in float64: that difference is what float32's rounding does to this model. In
float64 it is smaller by the ratio of the two epsilons, unless the model itself falls back to fewer digits on its way
(a softmax "in float32"), which is seen by watching the types of all its intermediate results. A model that is not its
own in two equal runs has that noise too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headway.adapt.adapter import Reading
from headway.adapt.inputs import probe
from headway.adapt.model import AdaptedModel
from headway.audit.search.compare import Comparison, apart, gradient_deviations, results_by_label
from headway.models import parameters

MARGIN = 64.0  # the largest of many deviations over the typical one, with room
LARGEST = 2_000_000_000  # parameters: beyond, a copy in float64 is not made


@dataclass(frozen=True)
class Noise:
    """Relative to the largest number of a result. `repeated` is what two equal runs differ by; `share` is how much
    smaller rounding is here than in the model's own numbers."""

    values: float
    gradients: float
    repeated: float
    epsilon: float
    share: float = 1.0

    @property
    def tolerance(self) -> float:
        return MARGIN * max(self.values, self.repeated)

    @property
    def gradient_tolerance(self) -> float:
        return MARGIN * max(self.gradients, self.repeated)

    def in_own_dtype(self) -> "Noise":
        """Of the model in its own numbers."""
        share = self.share
        return Noise(self.values / share, self.gradients / share, self.repeated, self.epsilon / share)


def in_float64(subject: AdaptedModel) -> tuple[AdaptedModel, str]:
    """The model in float64, or itself and why not."""
    if parameters(subject.module) > LARGEST:
        return subject, "too large for a copy in float64"
    try:
        double = subject.copy(torch.float64)
        double.run([probe(double.adapter, 3)])
    except Exception as error:  # whatever a foreign model says to numbers it does not expect
        return subject, f"it does not run in float64 ({type(error).__name__})"
    return double, ""


def measure_noise(subject: AdaptedModel, original: AdaptedModel) -> Noise:
    """Of a subject that is examined; `original` is the model in its own numbers."""
    reading = probe(subject.adapter, 5)
    first, epsilon = coarsest(subject, reading)
    repeated = _apart(subject, reading, first, subject.run([reading])[0])
    if subject is original or original.dtype == torch.float64:
        share, values = 1.0, _jittered(subject, reading, epsilon)
        gradients = values
    else:
        share = epsilon / torch.finfo(original.dtype).eps
        values = _apart(subject, reading, first, original.run([reading])[0]) * share
        gradients = _gradients_between(subject, original, reading) * share
    least = epsilon / 2
    return Noise(max(values, least), max(gradients, values, least), repeated, epsilon, share)


def _apart(subject: AdaptedModel, reading: Reading, one: Tensor, two: Tensor) -> float:
    place = subject.per_position
    return _finite(apart(*(results_by_label([out], [reading], per_position=place) for out in (one, two))).largest)


def rounding(one: AdaptedModel, other: AdaptedModel, readings: Sequence[Reading]) -> float:
    """How far two copies of a model in different numbers are apart; 0 where one of them gives none."""
    results = [results_by_label(who.run(readings), readings, per_position=one.per_position) for who in (one, other)]
    return _finite(apart(*results).largest)


def _gradients_between(one: AdaptedModel, other: AdaptedModel, reading: Reading) -> float:
    if one.missing("vectors") is not None:
        return 0.0
    try:
        return _finite(gradient_deviations(one, Comparison((reading,), (reading,), "", other=other)).largest)
    except (RuntimeError, ValueError):
        return 0.0


def _jittered(subject: AdaptedModel, reading: Reading, epsilon: float) -> float:
    """What changes of one unit in the last place of every weight do: rounding, by another name."""
    try:
        shaken = subject.copy()
    except ValueError:  # what cannot be copied is taken for a chain of some ten roundings
        return 10 * epsilon
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for one in shaken.module.parameters():
            if one.is_floating_point():
                sign = torch.randint(0, 2, one.shape, generator=draw).to(one.device) * 2 - 1
                one.mul_((1 + sign * epsilon).to(one.dtype))
    return rounding(subject, shaken, [reading])


def _finite(value: float) -> float:
    return value if value < float("inf") else 0.0


class _Types(TorchDispatchMode):
    """The types of all results that pass by."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[torch.dtype] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        # A mask of a few values has no digits to lose.
        if isinstance(out, Tensor) and out.is_floating_point() and "full" not in str(func):
            self.seen.add(out.dtype)
        return out


def coarsest(subject: AdaptedModel, reading: Reading) -> tuple[Tensor, float]:
    """A result, and the epsilon of the coarsest numbers that it was computed with."""
    with _Types() as types:
        out = subject.run([reading])[0]
    return out, max((torch.finfo(one).eps for one in types.seen), default=torch.finfo(subject.dtype).eps)
