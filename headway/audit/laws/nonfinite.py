"""Where a NaN or an inf comes from: in values going forward, in gradients coming back."""

from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.adapter import Reading
from headway.adapt.call import call, select_output
from headway.adapt.model import AdaptedModel, embedding_changes
from headway.audit.search.contrast import upstream
from headway.observe.hooks import hooked


@dataclass(frozen=True)
class Fault:
    """What is not finite: "results", or the gradients of the inputs or of a parameter; and the first module."""

    what: str
    in_values: bool
    module: str


@dataclass(eq=False)
class Passed:
    """One call of a module: its tensors, in and out."""

    name: str
    given: list[Tensor]
    out: list[Tensor]
    own: list[nn.Parameter]


@dataclass(eq=False)
class Trace:
    """All calls in the order of finishing, the result, and the vectors that it was made from where they are seen."""

    calls: list[Passed] = field(default_factory=list)
    out: Tensor = field(default_factory=lambda: torch.zeros(0))
    leaf: Tensor | None = None


def fault_of(
    subject: AdaptedModel, reading: Reading, *, weights: bool, usual: frozenset[str] = frozenset()
) -> Fault | None:
    """What is wrong with this reading; None where all is finite. `usual` are modules whose results hold infinities
    with any text (those that make masks, or forbid words), "" for the model."""
    trace = traced(subject, reading)
    if _overflowing(trace.out) if "" in usual else not trace.out.isfinite().all():
        return Fault("results", True, _forward(trace, usual))
    named = {name: one for name, one in subject.module.named_parameters() if one.requires_grad} if weights else {}
    inputs = {"the inputs": trace.leaf} if trace.leaf is not None else {}
    slopes = _slopes(trace, reading, subject.per_position, [*inputs.values(), *named.values()])
    bad = next((name for name, one in zip([*inputs, *named], slopes, strict=True) if not _finite([one])), None)
    return None if bad is None else Fault(f"gradients of {bad}", False, _backward(trace, reading, subject.per_position))


def traced(subject: AdaptedModel, reading: Reading) -> Trace:
    """Read with gradients, and keep what passes every module."""
    trace = Trace()
    with hooked(subject.module, partial(_into, trace)):
        if subject.missing("vectors") is None:
            trace.out, trace.leaf = subject.run_with_gradients(reading)
        else:
            placed = subject.prepare(reading)
            with torch.enable_grad(), embedding_changes(placed, None):
                trace.out = select_output(call(subject.module, subject.adapter, placed), subject.adapter.output)
    return trace


def infinite(trace: Trace) -> frozenset[str]:
    """Modules that gave something that is not finite; "" where the result holds −inf and nothing worse."""
    named = {one.name for one in trace.calls if one.name and not _finite(one.out)}
    below = bool((trace.out == -torch.inf).any()) and not _overflowing(trace.out)
    return frozenset({*named, ""} if below else named)


def _overflowing(out: Tensor) -> bool:
    """NaN or +inf; −inf may be meant, as the logarithm of what is forbidden."""
    return bool((out.isnan() | (out == torch.inf)).any())


def _into(trace: Trace, name: str) -> Any:
    def keep(part: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        own = list(part.parameters(recurse=False))
        trace.calls.append(Passed(name, tensors([args, kwargs]), tensors(output), own))

    return keep


def tensors(value: Any) -> list[Tensor]:
    """All tensors of numbers in whatever is passed."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return [one for part in parts for one in tensors(part)]


def _finite(found: list[Any]) -> bool:
    return all(one is None or bool(one.isfinite().all()) for one in found)


def _forward(trace: Trace, usual: frozenset[str]) -> str:
    """The first that was given numbers and gave something else. A mask of −inf is no fault of who is given it."""
    for one in trace.calls:
        given = [x.masked_fill(x == -torch.inf, 0.0) for x in one.given]
        if one.name not in usual and not _finite(one.out) and _finite(given):
            return one.name
    return ""


def _slopes(trace: Trace, reading: Reading, per_position: bool, wanted: list[Tensor]) -> list[Tensor | None]:
    """Gradients of a sum over all results, those of nobody too: what is finite has finite slopes."""
    everybody = torch.arange(reading.labels.numel()).reshape(reading.labels.shape)
    weight = upstream(trace.out, Reading(reading.inputs, everybody), per_position)
    loss = (trace.out * weight).nansum() if not trace.out.isfinite().all() else (trace.out * weight).sum()
    wanted = [one if one.requires_grad else one.detach().requires_grad_() for one in wanted]
    return list(torch.autograd.grad(loss, wanted, retain_graph=True, allow_unused=True)) if wanted else []


def _backward(trace: Trace, reading: Reading, per_position: bool) -> str:
    """The first that got finite gradients from behind and handed on something else, the innermost first."""
    calls = [one for one in trace.calls if one.out and one.out[0].requires_grad]
    arriving = _slopes(trace, reading, per_position, [one.out[0] for one in calls])
    for one, slope in zip(calls, arriving, strict=True):
        wanted = [x for x in [*one.given, *one.own] if x.requires_grad]
        if slope is None or not wanted or not _finite([slope]):
            continue
        handed = torch.autograd.grad(one.out[0], wanted, slope, retain_graph=True, allow_unused=True)
        if not _finite(list(handed)):
            return one.name
    return ""
