"""The first module that went wrong: what went into it agreed, what came out did not."""

from collections.abc import Callable
from math import sqrt
from typing import Any

import torch

from headway.adapt.model import AdaptedModel
from headway.audit.report import Layer
from headway.audit.search.compare import Results, apart, largest, sorted_results
from headway.audit.search.contrast import Contrast
from headway.audit.search.record import keyed, recorded
from headway.observe.hooks import hooked

INSIDE = 100.0


def layers(subject: AdaptedModel, contrast: Contrast, tolerance: float, found: float) -> list[Layer]:
    """Every module in the order of finishing, with its deviation, and whether what it was given agreed."""
    before = recorded(subject, contrast.before)
    after = recorded(contrast.other or subject, contrast.after, stepwise=contrast.stepwise)
    threshold = _threshold(tolerance, found)
    rows = []
    for key, entry in before.items():
        other = after.get(key)
        deviation = None if other is None else _deviation(entry.output, other.output)
        if other is not None and deviation is not None:
            agreed = all(
                (one := _deviation(entry.inputs[name], other.inputs[name])) is None or one <= threshold
                for name in entry.inputs.keys() & other.inputs.keys()
            )
            rows.append(Layer(key[0], entry.kind, deviation, agreed))
    return rows


def culprit(rows: list[Layer], tolerance: float, found: float) -> str:
    """The first module whose own doing it is; "" for the model itself."""
    threshold = _threshold(tolerance, found)
    return next((one.module for one in rows if one.agreed and one.deviation > threshold), "")


def _threshold(tolerance: float, found: float) -> float:
    """What counts as a deviation inside: above rounding (which may be larger than at the end), below what was found."""
    return min(sqrt(tolerance * max(found, tolerance)), INSIDE * tolerance)


def _deviation(before: list[Results], after: list[Results]) -> float | None:
    one, two = _joined(before), _joined(after)
    if one is None or two is None or one.values.shape[1] != two.values.shape[1]:
        return None
    found = apart(one, two) if _alike(one, two) else None
    return None if found is None or not len(found.labels) else found.largest


def _alike(one: Results, two: Results) -> bool:
    shared = [int(torch.isin(a.labels, b.labels).sum()) for a, b in ((one, two), (two, one))]
    return shared[0] == shared[1]


def _joined(pieces: list[Results]) -> Results | None:
    if not pieces or len({one.values.shape[1] for one in pieces}) > 1:
        return None
    return sorted_results(torch.cat([one.labels for one in pieces]), torch.cat([one.values for one in pieces]))


def gradient_culprit(subject: AdaptedModel, contrast: Contrast, tolerance: float) -> str:
    """The first module through which an input without a label reaches results that have one, by gradients alone."""
    reading = contrast.after[0]
    taken: list[tuple[str, torch.Tensor]] = []

    def hook(name: str) -> Callable[..., Any]:
        def keep(module: object, args: object, kwargs: object, output: object) -> None:
            if isinstance(output, torch.Tensor) and output.requires_grad:
                taken.append((name, output))

        return keep

    with hooked(subject.module, hook):
        _, leaf = subject.run_with_gradients(reading)
    return next((name for name, out in taken if _reaches(out, leaf, subject, contrast, name, tolerance)), "")


def _reaches(
    out: torch.Tensor, leaf: torch.Tensor, subject: AdaptedModel, contrast: Contrast, name: str, tolerance: float
) -> bool:
    reading = contrast.after[0]
    marks = torch.where(reading.labels >= 0, 1.0, 0.0)
    if out.shape[:2] != marks.shape or keyed(out, reading, name) is None:
        return False
    weight = torch.cos(torch.arange(out[0, 0].numel(), device=out.device) * 1.3 + 0.2).reshape(out.shape[2:])
    loss = (out * weight * marks.reshape(*marks.shape, *[1] * (out.ndim - 2)).to(out)).sum()
    (gradient,) = torch.autograd.grad(loss, leaf, retain_graph=True, allow_unused=True)
    if gradient is None:
        return False
    silent = gradient[reading.labels.to(gradient.device) < 0]
    return largest(silent) > tolerance * (largest(gradient) or 1.0) if silent.isfinite().all() else True
