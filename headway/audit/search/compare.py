"""Results by label: two ways of computing the same thing, and how far apart they are."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.adapt.adapter import Reading


@dataclass(frozen=True, eq=False)
class Results:
    """One row of numbers for each label; labels rise."""

    labels: Tensor
    values: Tensor


@dataclass(frozen=True, eq=False)
class Apart:
    """How far results are from one another at each label, relative to the largest number of all (`scale`)."""

    labels: Tensor
    amounts: Tensor
    scale: float

    @property
    def largest(self) -> float:
        return float(self.amounts.max()) if len(self.amounts) else 0.0


def gathered(outs: Sequence[Tensor], readings: Sequence[Reading], *, per_position: bool) -> Results:
    """What came out of several calls, by label."""
    marks, rows = [], []
    for out, reading in zip(outs, readings, strict=True):
        labels = reading.labels if per_position else reading.items[:, None]
        flat = labels.reshape(-1).cpu()
        values = out.detach().reshape(len(flat), -1).to("cpu", torch.float64)
        marks.append(flat[flat >= 0])
        rows.append(values[flat >= 0])
    return sorted_results(torch.cat(marks), torch.cat(rows))


def sorted_results(labels: Tensor, values: Tensor) -> Results:
    order = labels.argsort(stable=True)
    return Results(labels[order], values[order])


def apart(before: Results, after: Results) -> Apart:
    """At labels that both have; NaN is far from everything but NaN."""
    mine, theirs = (torch.isin(one.labels, other.labels) for one, other in ((before, after), (after, before)))
    one, two = before.values[mine], after.values[theirs]
    if one.shape != two.shape:
        raise ValueError(f"results of shapes {tuple(one.shape)} and {tuple(two.shape)} cannot be compared")
    scale = largest(one)
    amounts = distances(one, two).amax(1) if one.numel() else one.new_zeros(len(one))
    return Apart(before.labels[mine], amounts / (scale or 1.0), scale)


def distances(one: Tensor, two: Tensor) -> Tensor:
    """|one − two|; 0 where both are the same inf or both NaN, inf where just one is a number."""
    same = (one == two) | (one.isnan() & two.isnan())
    return torch.where(same, 0.0, (one - two).abs()).nan_to_num(nan=float("inf"), posinf=float("inf"))


def largest(values: Tensor) -> float:
    """The largest finite size of a number."""
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0
