"""Fewer digits cost no more than their epsilon says: bfloat16 and float32 against float64, module by module.

A drift is the root mean square of an error, relative to that of the numbers; divided by the epsilon of the type it says
how much a model amplifies rounding, which is a matter of its weights and its equations, not of the type. So the two
types have to agree on it. Over 70 sound models (all of headway's kinds with weights of three sizes, and GPT-2, BERT,
T5, Llama and ViT of another library), in every module and every eighth of the text:

    bfloat16 amplifies at most  2.1 times what float32 does
    float32 amplifies at most  11 times what bfloat16 does      (its sums are rounded; those of bfloat16 hardly are)

while a float16 inside a float32 model shows as some 1,000, a bfloat16 as some 10,000, and a position that is counted
in bfloat16 fills all that there is, up to 128. The limits, 4 and 64, lie between.
"""

import torch
from torch import nn

from headway.adapt.adapter import Reading
from headway.adapt.inputs import fit_length
from headway.adapt.model import AdaptedModel
from headway.audit.laws.drift import (
    LIMITS,
    Amplified,
    Excess,
    ForceFloat64,
    ModuleCall,
    Spot,
    amplification,
    excesses,
    first_over_limit,
    layers,
    table,
    threshold_inside,
    watch_calls,
)
from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, Example, Finding
from headway.audit.search.case import Case
from headway.audit.search.localise import Key
from headway.audit.search.noise import MARGIN
from headway.audit.search.search_context import LARGE, NOISY, QUICK, UNCLEAR, SearchContext
from headway.models import parameters
from headway.nn.quantized import QuantizedLinear, rounding_error

NOTHING = Excess(0.0, 0.0, 0.0)
NAMED = 3  # quantised maps that are named
LONG, SHORT = 300, 64  # bfloat16 counts no further than 256
OTHER = {torch.float32: torch.bfloat16, torch.bfloat16: torch.float32}
CAUSES = {
    torch.float32: "something in it works in fewer digits than float32 has",
    torch.bfloat16: "a position, a sum or a decision in it needs more digits than bfloat16 has",
}

ModuleCalls = dict[Key, ModuleCall]


def dtype(context: SearchContext) -> Finding:
    """One long text in three types."""
    if context.why_not_float64:
        return Finding("dtype", NOT_APPLICABLE, why=f"there is nothing to compare with: {context.why_not_float64}")
    if MARGIN * context.noise.repeated > UNCLEAR:
        return Finding("dtype", NOT_APPLICABLE, why=NOISY.format(context.noise.repeated))
    case = Case(context.seed + 7, fit_length(context.subject.adapter, _length(context)), source=30)
    text, runs, notes = case.reading(context.subject.adapter), {}, []
    exact = _exact(context.subject, text)
    for kind in LIMITS:
        try:
            runs[kind] = _run(context, kind, text)
        except Exception as error:  # a model need not know every type
            notes.append(f"{_name(kind)} is left out: {type(error).__name__}: {str(error)[:80]}")
    if not runs:
        return Finding("dtype", NOT_APPLICABLE, why="; ".join(notes))
    notes += _most_rounded(context.original.module)
    if _length(context) != LONG:
        notes.append(f"{case.length} places were read; a full search reads {LONG}")
    return _judged(context, case, exact, runs, "; ".join(notes))


def _most_rounded(module: nn.Module) -> list[str]:
    """Of quantised weights: the maps whose weights lose most by rounding."""
    stored = {name: part for name, part in module.named_modules() if isinstance(part, QuantizedLinear)}
    lost = {name: rounding_error(part) for name, part in stored.items()}
    most = sorted(lost, key=lambda name: -lost[name])[:NAMED]
    if not most:
        return []
    listed = ", ".join(f"{name} ({100 * lost[name]:.2g} %, {stored[name].bits} bits)" for name in most)
    return [f"quantised weights lose most by rounding, relative to their size, in {listed}"]


def _length(context: SearchContext) -> int:
    large = parameters(context.original.module) > LARGE
    return SHORT if large and context.effort.longest < QUICK.longest else LONG


def _exact(subject: AdaptedModel, text: Reading) -> ModuleCalls:
    """In float64 throughout; where a model does not survive that, as far as it goes by itself."""
    try:
        with ForceFloat64():
            return watch_calls(subject, text)
    except Exception:
        return watch_calls(subject, text)


def _run(context: SearchContext, kind: torch.dtype, text: Reading) -> ModuleCalls:
    original = context.original
    subject = original if original.dtype == kind else original.copy(kind)
    return watch_calls(subject.with_probes_of(context.subject), text)


def _judged(
    context: SearchContext, case: Case, exact: ModuleCalls, runs: dict[torch.dtype, ModuleCalls], why: str
) -> Finding:
    """Broken by the type that is furthest over its limit, at the first module whose own doing it is."""
    sizes = {kind: amplification(exact, calls, kind) for kind, calls in runs.items()}
    found = {kind: excesses(sizes[kind], sizes.get(OTHER[kind]), kind) for kind in runs}
    kind = max(found, key=lambda one: _worst(found[one]).over)
    worst, kinds = (
        _worst(found[kind]),
        {name: type(one).__name__ for name, one in context.subject.module.named_modules()},
    )
    if worst.over <= 1.0:
        rows = table(kinds, sizes, None)
        return Finding("dtype", HOLDS, len(runs), worst.drift, worst.limit, why=why, details=rows)
    return _finding_of(found[kind], kind, case, exact, runs[kind], sizes, kinds, why)


def _finding_of(
    found: dict[Spot, Excess], kind: torch.dtype, case: Case, exact: ModuleCalls, calls: ModuleCalls,
    sizes: dict[torch.dtype, Amplified], kinds: dict[str, str], why: str,
) -> Finding:  # fmt: skip
    threshold = threshold_inside(_worst(found).over, kind)
    rows = layers(exact, found, kinds, threshold)
    module = first_over_limit(found, rows, calls, threshold)
    at = _worst(found)
    sentence = (
        f"in {_name(kind)} it drifts up to {at.drift:.1e} away from float64, where the digits explain {at.limit:.1e}: "
        f"{CAUSES[kind]}"
    )
    return Finding(
        "dtype", BROKEN, len(sizes), at.drift, at.limit, module, why, Example(sentence, [], case.as_json()), rows,
        table(kinds, sizes, module),
    )  # fmt: skip


def _worst(found: dict[Spot, Excess]) -> Excess:
    """Of results: an argument is somebody's result, or nobody's to answer for."""
    return max((one for (_, name), one in found.items() if not name), key=lambda one: one.over, default=NOTHING)


def _name(kind: torch.dtype) -> str:
    return str(kind).removeprefix("torch.")
