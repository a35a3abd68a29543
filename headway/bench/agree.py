"""Outputs before times: contenders that do not compute the same are not worth a race.

    deviation(a, b) = max |a - b| / max |b|        per output, the largest one counts

A NaN where the other has a number, or another shape, is an infinite deviation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf

import torch
from torch import Tensor

Outputs = Tensor | Sequence[Tensor]

# Two right kernels stay well below, a wrong mask or scale never does.
TOLERANCE = {torch.float64: 1e-10, torch.float32: 5e-5, torch.bfloat16: 3e-2, torch.float16: 5e-3}


class Disagreement(Exception):
    """Two contenders gave different outputs; the message names them and the largest deviation."""


@dataclass(frozen=True)
class Agreement:
    """The largest deviation found, and the tolerance it was held to."""

    deviation: float
    tolerance: float


def deviation(ours: Tensor, theirs: Tensor) -> float:
    """max |ours - theirs| / max |theirs|.

    >>> deviation(torch.tensor([1.0, 2.5]), torch.tensor([1.0, 2.0]))
    0.25
    """
    if ours.shape != theirs.shape:
        return inf
    if ours.numel() == 0:
        return 0.0
    a, b = ours.detach().double(), theirs.detach().double()
    same = (a == b) | (a.isnan() & b.isnan())  # inf - inf is NaN, yet equal
    gap = float(torch.where(same, 0.0, (a - b).abs()).max())
    peak = float(b.abs().max())
    if gap == 0.0:
        return 0.0
    return gap / peak if gap < inf and 0.0 < peak < inf else inf


def agree(outputs: Mapping[str, Outputs], *, tolerance: float | None = None) -> Agreement:
    """Compares every contender with the first one named; raises Disagreement beyond the coarser dtype's tolerance.

    >>> agree({"torch": torch.ones(3), "headway": torch.ones(3)}).deviation
    0.0
    """
    (first, expected), *others = ((name, _listed(value)) for name, value in outputs.items())
    worst = 0.0
    allowed = tolerance or 0.0
    for name, values in others:
        limit = tolerance or max(TOLERANCE.get(tensor.dtype, 0.0) for tensor in [*expected, *values])
        gap = _gap(values, expected)
        if not gap <= limit:
            found = f"largest deviation {gap:.2g}, at most {limit:.2g} allowed"
            raise Disagreement(f"{name} and {first} disagree: {found}{_shapes(values, expected)}")
        worst, allowed = max(worst, gap), max(allowed, limit)
    return Agreement(worst, allowed)


def _listed(value: Outputs) -> list[Tensor]:
    return [value] if isinstance(value, Tensor) else list(value)


def _gap(values: list[Tensor], expected: list[Tensor]) -> float:
    if len(values) != len(expected):
        return inf
    return max((deviation(ours, theirs) for ours, theirs in zip(values, expected, strict=True)), default=0.0)


def _shapes(values: list[Tensor], expected: list[Tensor]) -> str:
    ours, theirs = ([tuple(tensor.shape) for tensor in tensors] for tensors in (values, expected))
    return "" if ours == theirs else f" (shapes {ours} and {theirs})"
