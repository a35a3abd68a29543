"""Values and gradients stay finite under extreme inputs, in the model's own numbers.

Extremes are: inputs all equal, vectors all zero, vectors (or images) that are many times as large, the shortest text
and the longest that is tried. How many times: the ninth and the sixth root of the largest number that the type has
(2e4 and 2.6e6 in float32). A model that normalises takes any size whose square it can hold; one that does not
multiplies sizes with each layer, and may still do so six times. What overflows beyond that is a matter of range, not
of care.
"""

from dataclasses import dataclass, field, replace
from functools import partial
from math import inf
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.adapt.adapter import Overwrite, Reading
from headway.adapt.call import call, select_output
from headway.adapt.inputs import fit_length
from headway.adapt.model import AdaptedModel, embedding_changes
from headway.audit.report import BROKEN, HOLDS, Example, Finding, Strip
from headway.audit.search.case import Case
from headway.audit.search.compare import Comparison, Deviations, upstream
from headway.audit.search.find import token_rows
from headway.audit.search.search_context import LARGE, QUICK, SearchContext
from headway.models import parameters
from headway.observe.hooks import hooked


@dataclass(frozen=True)
class Fault:
    """What is not finite: "results", or the gradients of the inputs or of a parameter; and the first module."""

    what: str
    in_values: bool
    module: str


@dataclass(eq=False)
class TracedCall:
    """One call of a module: its tensors, in and out."""

    name: str
    given: list[Tensor]
    out: list[Tensor]
    own: list[nn.Parameter]


@dataclass(eq=False)
class CallTrace:
    """All calls in the order of finishing, the result, and the vectors that it was made from where they are seen."""

    calls: list[TracedCall] = field(default_factory=list)
    out: Tensor = field(default_factory=lambda: torch.zeros(0))
    leaf: Tensor | None = None


def find_fault(
    subject: AdaptedModel, reading: Reading, *, weights: bool, usual: frozenset[str] = frozenset()
) -> Fault | None:
    """What is wrong with this reading; None where all is finite. `usual` are modules whose results hold infinities
    with any text (those that make masks, or forbid words), "" for the model."""
    trace = trace_calls(subject, reading)
    if _overflowing(trace.out) if "" in usual else not trace.out.isfinite().all():
        return Fault("results", True, _forward(trace, usual))
    named = {name: one for name, one in subject.module.named_parameters() if one.requires_grad} if weights else {}
    inputs = {"the inputs": trace.leaf} if trace.leaf is not None else {}
    slopes = _slopes(trace, reading, subject.per_position, [*inputs.values(), *named.values()])
    bad = next((name for name, one in zip([*inputs, *named], slopes, strict=True) if not _finite([one])), None)
    return None if bad is None else Fault(f"gradients of {bad}", False, _backward(trace, reading, subject.per_position))


def trace_calls(subject: AdaptedModel, reading: Reading) -> CallTrace:
    """Read with gradients, and keep what passes every module."""
    trace = CallTrace()
    with hooked(subject.module, partial(_into, trace)):
        if subject.missing("vectors") is None:
            trace.out, trace.leaf = subject.run_with_gradients(reading)
        else:
            placed = subject.prepare(reading)
            with torch.enable_grad(), embedding_changes(placed, None):
                trace.out = select_output(call(subject.module, subject.adapter, placed), subject.adapter.output)
    return trace


def modules_with_infinities(trace: CallTrace) -> frozenset[str]:
    """Modules that gave something that is not finite; "" where the result holds −inf and nothing worse."""
    named = {one.name for one in trace.calls if one.name and not _finite(one.out)}
    below = bool((trace.out == -torch.inf).any()) and not _overflowing(trace.out)
    return frozenset({*named, ""} if below else named)


def _overflowing(out: Tensor) -> bool:
    """NaN or +inf; −inf may be meant, as the logarithm of what is forbidden."""
    return bool((out.isnan() | (out == torch.inf)).any())


def _into(trace: CallTrace, name: str) -> Any:
    def keep(part: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        own = list(part.parameters(recurse=False))
        trace.calls.append(TracedCall(name, tensors([args, kwargs]), tensors(output), own))

    return keep


def tensors(value: Any) -> list[Tensor]:
    """All tensors of numbers in whatever is passed."""
    if isinstance(value, Tensor):
        return [value] if value.is_floating_point() else []
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, tuple | list) else ()
    return [one for part in parts for one in tensors(part)]


def _finite(found: list[Any]) -> bool:
    return all(one is None or bool(one.isfinite().all()) for one in found)


def _forward(trace: CallTrace, usual: frozenset[str]) -> str:
    """The first that was given numbers and gave something else. A mask of −inf is no fault of who is given it."""
    for one in trace.calls:
        given = [x.masked_fill(x == -torch.inf, 0.0) for x in one.given]
        if one.name not in usual and not _finite(one.out) and _finite(given):
            return one.name
    return ""


def _slopes(trace: CallTrace, reading: Reading, per_position: bool, wanted: list[Tensor]) -> list[Tensor | None]:
    """Gradients of a sum over all results, those of nobody too: what is finite has finite slopes."""
    everybody = torch.arange(reading.labels.numel()).reshape(reading.labels.shape)
    weight = upstream(trace.out, Reading(reading.inputs, everybody), per_position)
    loss = (trace.out * weight).nansum() if not trace.out.isfinite().all() else (trace.out * weight).sum()
    wanted = [one if one.requires_grad else one.detach().requires_grad_() for one in wanted]
    return list(torch.autograd.grad(loss, wanted, retain_graph=True, allow_unused=True)) if wanted else []


def _backward(trace: CallTrace, reading: Reading, per_position: bool) -> str:
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


LENGTHS = {"shortest": 1, "longest": None}  # None: as long as is tried; others are of 4
SAYINGS = {
    "ordinary": "a text like any other",
    "zero": "vectors that are all zero",
    "equal": "inputs that are all equal",
    "large": "vectors {} times as large",
    "huge": "vectors {} times as large",
    "shortest": "the shortest text",
    "longest": "a long text",
}


@dataclass(frozen=True, eq=False)
class Scale(Overwrite):
    """The vectors as they are, so many times as large."""

    def applied(self, vectors: Float[Tensor, "B L D"]) -> Float[Tensor, "B L D"]:
        return vectors * self.value


def finite(context: SearchContext) -> Finding:
    """Each extreme in turn; what is found is tried with the shortest text too."""
    model = context.original.with_probes_of(context.subject)
    usual, tried = modules_with_infinities(trace_calls(model, _text(model, 4, context))), 0
    for name in SAYINGS:
        if model.missing("vectors") is not None and size_of(model, name) is not None:
            continue
        tried += 1
        length, weights = LENGTHS.get(name, 4), _weights(context, name)
        text = _text(model, context.effort.longest * 3 if length is None else length, context)
        fault = find_fault(model, extreme(model, text, name), weights=weights, usual=usual)
        if fault is not None:
            return _smallest(context, model, name, (text, fault), usual, tried)
    seen = model.missing("vectors")
    return Finding("finite", HOLDS, tried, 0.0, 0.0, why="" if seen is None else f"sizes were not tried: {seen}")


def _smallest(
    context: SearchContext,
    model: AdaptedModel,
    name: str,
    known: tuple[Reading, Fault],
    usual: frozenset[str],
    tried: int,
) -> Finding:
    """A shorter text serves where the same module is the first to fail."""
    for length in (1, 2):
        text = extreme(model, _text(model, length, context), name)
        fault = find_fault(model, text, weights=True, usual=usual)
        if fault is not None and fault.module == known[1].module:
            return _finding_of(model, text, name, fault, tried)
    return _finding_of(model, extreme(model, known[0], name), name, known[1], tried)


def _weights(context: SearchContext, name: str) -> bool:
    many = parameters(context.original.module)
    return name == "zero" or many < LARGE or context.effort.longest > QUICK.longest


def _text(model: AdaptedModel, length: int, context: SearchContext) -> Reading:
    size = fit_length(model.adapter, length)
    return Case(context.seed + 11, size, source=size).reading(model.adapter)


def extreme(model: AdaptedModel, text: Reading, name: str) -> Reading:
    """The text, made extreme."""
    where, size = torch.ones_like(text.labels, dtype=torch.bool), size_of(model, name)
    if name == "equal":
        first = text.inputs.flatten(1)[:, :1].reshape(-1, *[1] * (text.inputs.ndim - 1))
        source = None if text.source is None else text.source[:, :1].expand_as(text.source).clone()
        return replace(text, inputs=first.expand_as(text.inputs).clone(), source=source)
    if size is None:
        return text
    if text.inputs.is_floating_point():
        return replace(text, inputs=text.inputs * size)
    there = None if text.source is None else torch.ones_like(text.source, dtype=torch.bool)
    return replace(text, overwrite=Scale(where, size), source_overwrite=None if there is None else Scale(there, size))


def size_of(model: AdaptedModel, name: str) -> float | None:
    """How many times as large; None where the size is left alone."""
    most = torch.finfo(model.dtype).max
    return {"zero": 0.0, "large": most ** (1 / 9), "huge": most ** (1 / 6)}.get(name)


def _finding_of(model: AdaptedModel, text: Reading, name: str, fault: Fault, tried: int) -> Finding:
    size = size_of(model, name)
    sentence = f"with {SAYINGS[name].format('' if size is None else f'{size:.0e}')}, {fault.what} are not finite"
    example = Example(
        sentence, rows_of(model, text, sentence, fault), {"extreme": name, "length": text.labels.shape[1]}
    )
    return Finding("finite", BROKEN, tried, inf, 0.0, fault.module, example=example)


def rows_of(model: AdaptedModel, text: Reading, sentence: str, fault: Fault) -> list[Strip]:
    """The text, its results marked where they are not finite."""
    labels = (text.labels if model.per_position else text.labels[:, :1]).reshape(-1)
    amounts = torch.zeros(len(labels), dtype=torch.float64)
    if fault.in_values:
        out = model.run([text])[0]
        bad = ~out.detach().reshape(len(labels), -1).isfinite().all(1).cpu()
        amounts[bad] = inf
    return token_rows(model, Comparison((), (text,), sentence), Deviations(labels, amounts, 1.0), 0.0)
