"""Two ways to compute the same results, and how far they are apart in values and in gradients, label by label."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.adapt.adapter import Reading
from headway.adapt.model import AdaptedModel


@dataclass(frozen=True, eq=False)
class Results:
    """One row of numbers for each label; labels rise."""

    labels: Tensor
    values: Tensor


@dataclass(frozen=True, eq=False)
class Deviations:
    """How far results are from one another at each label, relative to the largest number of all (`scale`)."""

    labels: Tensor
    amounts: Tensor
    scale: float

    @property
    def largest(self) -> float:
        return float(self.amounts.max()) if len(self.amounts) else 0.0


def results_by_label(outs: Sequence[Tensor], readings: Sequence[Reading], *, per_position: bool) -> Results:
    """What came out of several calls, by label."""
    marks, rows = [], []
    for out, reading in zip(outs, readings, strict=True):
        labels = reading.labels if per_position else reading.items[:, None]
        flat = labels.reshape(-1).cpu()
        values = out.detach().reshape(len(flat), -1).to("cpu", torch.float64)
        marks.append(flat[flat >= 0])
        rows.append(values[flat >= 0])
    return sort_results(torch.cat(marks), torch.cat(rows))


def sort_results(labels: Tensor, values: Tensor) -> Results:
    order = labels.argsort(stable=True)
    return Results(labels[order], values[order])


def apart(before: Results, after: Results) -> Deviations:
    """At labels that both have; NaN is far from everything but NaN."""
    mine, theirs = (torch.isin(one.labels, other.labels) for one, other in ((before, after), (after, before)))
    one, two = before.values[mine], after.values[theirs]
    if one.shape != two.shape:
        raise ValueError(f"results of shapes {tuple(one.shape)} and {tuple(two.shape)} cannot be compared")
    scale = largest(one)
    amounts = distances(one, two).amax(1) if one.numel() else one.new_zeros(len(one))
    return Deviations(before.labels[mine], amounts / (scale or 1.0), scale)


def distances(one: Tensor, two: Tensor) -> Tensor:
    """|one − two|; 0 where both are the same inf or both NaN, inf where just one is a number."""
    same = (one == two) | (one.isnan() & two.isnan())
    return torch.where(same, 0.0, (one - two).abs()).nan_to_num(nan=float("inf"), posinf=float("inf"))


def largest(values: Tensor) -> float:
    """The largest finite size of a number."""
    finite = values[values.isfinite()]
    return float(finite.abs().max()) if finite.numel() else 0.0


@dataclass(frozen=True, eq=False)
class Comparison:
    """Results of equal labels in `before` and `after` are equal, and no input without a label moves them.

    `stepwise`: the readings of `after` are pieces that a cache joins. `other` reads `after`, where it is not the same
    model. `gradients`: those of the inputs are compared too; `weights`: those of the parameters.
    """

    before: tuple[Reading, ...]
    after: tuple[Reading, ...]
    sentence: str
    stepwise: bool = False
    other: AdaptedModel | None = None
    gradients: bool = True
    weights: bool = False


def value_deviations(subject: AdaptedModel, comparison: Comparison) -> Deviations:
    """How far the results are apart."""
    other = comparison.other or subject
    one = subject.run(comparison.before)
    two = other.run(comparison.after, stepwise=comparison.stepwise)
    place = subject.per_position
    return apart(
        results_by_label(one, comparison.before, per_position=place),
        results_by_label(two, comparison.after, per_position=place),
    )


def gradient_deviations(subject: AdaptedModel, comparison: Comparison) -> Deviations:
    """How far the gradients are apart, and from 0 where an input has no label (at label -1)."""
    before, _, weights = _gradients(subject, comparison.before, comparison.weights)
    after, silent, others = _gradients(comparison.other or subject, comparison.after, comparison.weights)
    found = apart(before, after)
    # One scale for all parameters: some gradients are nothing but rounding (those of scores with a single key).
    scale = max(map(largest, weights.values()), default=0.0) or 1.0
    moved = [_size(distances(gradient, others[name])) / scale for name, gradient in weights.items()]
    worst = max([silent / (found.scale or 1.0), *moved])
    return Deviations(
        torch.cat([found.labels, torch.tensor([-1])]),
        torch.cat([found.amounts, torch.tensor([worst], dtype=torch.float64)]),
        found.scale,
    )


def _gradients(
    subject: AdaptedModel, readings: Sequence[Reading], weights: bool
) -> tuple[Results, float, dict[str, Tensor]]:
    """Of the inputs by label; the largest at an input without a label; those of the parameters, over all readings."""
    marks, rows, silent = [], [], 0.0
    named = {name: one for name, one in subject.module.named_parameters() if one.requires_grad} if weights else {}
    total = {name: torch.zeros_like(one, device="cpu", dtype=torch.float64) for name, one in named.items()}
    for reading in readings:
        out, leaf = subject.run_with_gradients(reading)
        loss = (out * upstream(out, reading, subject.per_position)).sum()
        found, *others = torch.autograd.grad(loss, [leaf, *named.values()], allow_unused=True)
        found = torch.zeros_like(leaf) if found is None else found
        labels = reading.labels.reshape(-1)
        flat = found.detach().reshape(len(labels), -1).to("cpu", torch.float64)
        marks.append(labels[labels >= 0])
        rows.append(flat[labels >= 0])
        silent = max(silent, _size(flat[labels < 0]))
        for name, one in zip(named, others, strict=True):
            total[name] += 0.0 if one is None else one.to("cpu", torch.float64)
    return sort_results(torch.cat(marks), torch.cat(rows)), silent, total


def upstream(out: Tensor, reading: Reading, per_position: bool) -> Tensor:
    """A weight for each number of a result, from its label alone; 0 where nobody's."""
    labels = (reading.labels if per_position else reading.items[:, None]).reshape(-1, 1).to(out.device)
    count = out.numel() // len(labels)
    wave = torch.cos(labels.double() * 0.7 + torch.arange(count, device=out.device) * 1.3 + 0.2)
    return torch.where(labels >= 0, wave, 0.0).to(out.dtype).reshape(out.shape)


def _size(values: Tensor) -> float:
    """The largest absolute number; NaN counts as inf."""
    return float(values.abs().nan_to_num(nan=float("inf")).max()) if values.numel() else 0.0
