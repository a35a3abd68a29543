"""Two ways to compute the same results, and how far they are apart in values and in gradients."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.adapt.adapter import Reading
from headway.adapt.model import AdaptedModel
from headway.audit.search.compare import Apart, Results, apart, distances, gathered, largest, sorted_results


@dataclass(frozen=True, eq=False)
class Contrast:
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


def values_apart(subject: AdaptedModel, contrast: Contrast) -> Apart:
    """How far the results are apart."""
    other = contrast.other or subject
    one = subject.run(contrast.before)
    two = other.run(contrast.after, stepwise=contrast.stepwise)
    place = subject.per_position
    return apart(gathered(one, contrast.before, per_position=place), gathered(two, contrast.after, per_position=place))


def gradients_apart(subject: AdaptedModel, contrast: Contrast) -> Apart:
    """How far the gradients are apart, and from 0 where an input has no label (at label -1)."""
    before, _, weights = _gradients(subject, contrast.before, contrast.weights)
    after, silent, others = _gradients(contrast.other or subject, contrast.after, contrast.weights)
    found = apart(before, after)
    # One scale for all parameters: some gradients are nothing but rounding (those of scores with a single key).
    scale = max(map(largest, weights.values()), default=0.0) or 1.0
    moved = [_size(distances(gradient, others[name])) / scale for name, gradient in weights.items()]
    worst = max([silent / (found.scale or 1.0), *moved])
    return Apart(
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
    return sorted_results(torch.cat(marks), torch.cat(rows)), silent, total


def upstream(out: Tensor, reading: Reading, per_position: bool) -> Tensor:
    """A weight for each number of a result, from its label alone; 0 where nobody's."""
    labels = (reading.labels if per_position else reading.items[:, None]).reshape(-1, 1).to(out.device)
    count = out.numel() // len(labels)
    wave = torch.cos(labels.double() * 0.7 + torch.arange(count, device=out.device) * 1.3 + 0.2)
    return torch.where(labels >= 0, wave, 0.0).to(out.dtype).reshape(out.shape)


def _size(values: Tensor) -> float:
    """The largest absolute number; NaN counts as inf."""
    return float(values.abs().nan_to_num(nan=float("inf")).max()) if values.numel() else 0.0
