"""From measures to symptoms: what is wrong in which heads, why, and what to change."""

import math
from collections.abc import Callable, Iterator
from itertools import groupby

import torch

from headway.audit.health.depth import depth_symptoms, logits_symptoms
from headway.audit.health.record import Depth, Head, Logits, Symptom

# Standard deviations of scores. Of rows of 64 normal scores hardly one is saturated at 2, 2 % are at 4, a fifth at 8,
# half at 16; up to 2, a scale that is not the usual one does no harm (T5 has none, and draws W_q smaller instead).
WIDE, VERY_WIDE = 2.0, 4.0
# A scale is called wrong if it is twice the usual one or more; powers of √2 are in use.
TWICE = 2.0
HALF_THE_ROWS = 0.5

SATURATION = (
    "scores that spread so far saturate the softmax, the more often the further they spread: one weight is almost 1, "
    "the output is insensitive to the scores, and the gradient that should teach q and k vanishes. It happens in "
    "probability, not in every row: it takes one score well above all others"
)

ON_PURPOSE = "A trained head may look at one key on purpose; a fresh one should not"


def symptoms(heads: list[Head], depth: list[Depth], logits: Logits | None) -> list[Symptom]:
    """All that is wrong, the causes first."""
    found: list[Symptom] = []
    first_over_limit: set[str] = set()
    for rule in (_scale, _twice, _large, _saturated):
        one = rule([head for head in heads if head.place not in first_over_limit])
        found += one
        first_over_limit |= {place for symptom in one for place in symptom.where}
    layers = [list(layer) for _, layer in groupby(heads, key=lambda head: head.module)]
    rest: list[Callable[[list[list[Head]]], Iterator[Symptom]]] = [stuck, dead, twins, scores_range, precision]
    found += [symptom for rule in rest for symptom in rule(layers)]
    return [*found, *depth_symptoms(depth), *logits_symptoms(logits)]


def _known(heads: list[Head]) -> list[tuple[Head, float, float]]:
    """Heads whose q and k were seen, with how often their scale is the usual one, and the spread of q·k · scale."""
    return [
        (head, head.scale / head.usual_scale, abs(head.scale) * math.sqrt(head.variance))
        for head in heads
        if head.scale is not None and head.usual_scale and head.variance is not None and math.isfinite(head.variance)
    ]


def _scale(heads: list[Head]) -> list[Symptom]:
    sick = [(head, times, wide) for head, times, wide in _known(heads) if times >= TWICE and wide > WIDE]
    if not sick:
        return []
    worst, times, wide = max(sick, key=lambda one: one[2])
    assert worst.usual_scale is not None and worst.variance is not None and worst.predicted is not None
    right = worst.usual_scale
    return [
        Symptom(
            "scale",
            [head.place for head, _, _ in sick],
            f"q·k is multiplied by {worst.scale:.4g}, {times:.3g} times 1/√{worst.width}; scores spread by {wide:.3g}, "
            f"{_share(worst)}",
            f"a scale of 1/√{worst.width} = {right:.4g}, with which they would spread by {wide / times:.3g}",
            f"q·k is a sum of {worst.width} products: its variance is {worst.variance:.3g} (independent entries: "
            f"{worst.width} x q² x variance of k = {worst.predicted:.3g}), and 1/√{worst.width} takes the width out; "
            f"{SATURATION}",
            f"set the scale to 1/√(head width) = {right:.4g}",
            {"scale": right},
        )
    ]


def _twice(heads: list[Head]) -> list[Symptom]:
    sick = [head for head, times, _ in _known(heads) if head.width and head.width >= 4 and _is_squared(times, head)]
    if not sick:
        return []
    head = sick[0]
    assert head.usual_scale is not None
    return [
        Symptom(
            "scale applied twice",
            [one.place for one in sick],
            f"q·k is multiplied by {head.scale:.4g} = 1/{head.width}",
            f"1/√{head.width} = {head.usual_scale:.4g}",
            "the scale is the square of the usual one, as if q were scaled by hand and the kernel scaled again; scores "
            "stay near 0 and weights near uniform, whatever q and k say",
            f"scale once: 1/√(head width) = {head.usual_scale:.4g} (1/{head.width} is right only in models that are "
            "tuned for it, muP for one)",
            {"scale": head.usual_scale},
        )
    ]


def _is_squared(times: float, head: Head) -> bool:
    return head.width is not None and abs(times * math.sqrt(head.width) - 1) < 0.01


def _large(heads: list[Head]) -> list[Symptom]:
    sick = [(head, _expected_spread(head)) for head, _, _ in _known(heads) if _expected_spread(head) > VERY_WIDE]
    if not sick:
        return []
    worst, wide = max(sick, key=lambda one: one[1])
    smaller = 1 / math.sqrt(wide)
    return [
        Symptom(
            "q and k too large",
            [head.place for head, _ in sick],
            f"entries of q have size {worst.q_rms:.3g}, those of k {worst.k_rms:.3g}: scores spread by "
            f"{worst.spread:.3g}, {_share(worst)}",
            f"sizes near 1, and so a spread near 1; independent entries of these sizes give {wide:.3g}",
            f"the scale is right, but it counts on entries of variance 1; {SATURATION}. {ON_PURPOSE}",
            f"draw W_q and W_k smaller, or multiply both (and their biases) by {smaller:.3g}; a standard deviation of "
            "1/√(model width) gives entries of size 1 from normalised inputs. Or normalise q and k in each head",
            {"multiply": smaller},
        )
    ]


def _expected_spread(head: Head) -> float:
    found = abs(head.scale or 0.0) * math.sqrt(head.predicted or 0.0)
    return found if math.isfinite(found) else 0.0


def _saturated(heads: list[Head]) -> list[Symptom]:
    sick = [head for head in heads if (head.saturated or 0.0) > HALF_THE_ROWS]
    if not sick:
        return []
    worst = max(sick, key=lambda head: head.spread or 0.0)
    smaller = 1 / max(worst.spread or 1.0, 1.0)
    return [
        Symptom(
            "saturated",
            [head.place for head in sick],
            f"{_share(worst)}; scores spread by {worst.spread:.3g}, entropy {worst.entropy:.2g} of the possible, "
            f"softmax Jacobian {worst.jacobian or 0:.2g} (uniform weights: {worst.jacobian_uniform:.2g})",
            "saturated rows in less than half of all rows",
            f"{SATURATION}. Neither the scale nor the sizes of q and k explain it: they are aligned (q·k has "
            f"variance {_number(worst.variance)}, independent entries give {_number(worst.predicted)}), or a bias "
            f"decides. {ON_PURPOSE}",
            f"draw W_q and W_k independently of one another, or multiply the scores by {smaller:.3g}; a score cap "
            "keeps them in range while training",
            {"multiply": smaller},
        )
    ]


def _share(head: Head) -> str:
    return f"{100 * (head.saturated or 0):.0f} % of rows saturated"


def _number(value: float | None) -> str:
    return "unknown" if value is None else f"{value:.3g}"


STUCK = 0.95
# Of the liveliest head of the layer, in the output's movement and in the gradient that reaches it.
DEAD, UNHEARD = 1e-3, 1e-4
FLOAT16 = torch.finfo(torch.float16).max
# A score that is off by this much makes a weight wrong by 5 %.
ROUNDING = 0.05


def stuck(layers: list[list[Head]]) -> Iterator[Symptom]:
    sick = [head for layer in layers for head in layer if _is_stuck(head)]
    if sick:
        share = max(head.stuck or 0.0 for head in sick)
        yield Symptom(
            "stuck head",
            [head.place for head in sick],
            f"{100 * share:.0f} % of rows put more than 0.99 on one and the same key",
            "rows that look at different keys",
            "what the head gives is the value of one key wherever it is asked, so it adds a constant; its weights are "
            "saturated and insensitive to its scores, so no gradient frees it",
            "draw W_q and W_k of the head anew with a query bias of 0, or drop the head. In a trained model a head may "
            "rest on the first token when it has nothing to say",
        )


def _is_stuck(head: Head) -> bool:
    return head.stuck is not None and head.stuck > STUCK and (head.keys or 0) > 2


def dead(layers: list[list[Head]]) -> Iterator[Symptom]:
    sick = [head for layer in layers for head in layer if _is_dead(head)]
    if sick:
        worst = min(sick, key=lambda head: min(_or(head.variation), _or(head.heard)))
        yield Symptom(
            "dead head",
            [head.place for head in sick],
            f"its output moves over positions by {_or(worst.variation):.2g} of the layer's liveliest head, and "
            f"{_or(worst.heard):.2g} of the loudest head's gradient reaches it",
            f"at least {DEAD:g} and {UNHEARD:g}",
            "a head whose output is nearly the same at every position, or that nobody reads, does nothing",
            "draw its part of the value and output projections anew (a part that is 0 may stay 0), or drop the head",
        )


def _is_dead(head: Head) -> bool:
    return not _is_stuck(head) and (_or(head.variation) < DEAD or _or(head.heard) < UNHEARD)


def _or(value: float | None) -> float:
    return 1.0 if value is None or math.isnan(value) else value


def twins(layers: list[list[Head]]) -> Iterator[Symptom]:
    sick = [head for layer in layers for head in layer if head.twin is not None]
    if sick:
        pairs = [f"{head.module or 'the model'} heads {head.twin} and {head.head}" for head in sick]
        yield Symptom(
            "duplicate heads",
            pairs,
            "their scores differ by less than 1 % of themselves",
            "about 70 % between heads that were drawn independently",
            "heads that begin alike get alike gradients and stay alike: they cost as much as two and see as one does",
            "draw the W_q and W_k of each head independently (a copied or constant initialisation is symmetric), or "
            "drop one of the two",
        )


def scores_range(layers: list[list[Head]]) -> Iterator[Symptom]:
    sick = [head for layer in layers for head in layer if head.largest is not None and not head.largest <= FLOAT16]
    if sick:
        largest = max((head.largest or 0.0 for head in sick), key=lambda one: math.inf if math.isnan(one) else one)
        yield Symptom(
            "scores out of range",
            [head.place for head in sick],
            f"|q·k| reaches {largest:.4g} before the scale",
            f"below {FLOAT16:g}, the largest number of float16",
            "in float16 such a product is inf, and inf − inf in the softmax is NaN",
            "normalise q and k in each head, multiply q by the scale before the product, cap the scores, or compute in "
            "bfloat16, which reaches as far as float32",
            {"multiply": math.sqrt(FLOAT16 / 4 / largest)} if math.isfinite(largest) else {},
        )


def precision(layers: list[list[Head]]) -> Iterator[Symptom]:
    sick = [head for layer in layers for head in layer if head.rounding is not None and head.rounding > ROUNDING]
    if sick:
        worst = max(head.rounding or 0.0 for head in sick)
        yield Symptom(
            "low precision",
            [head.place for head in sick],
            f"the dtype that holds the scores rounds the largest by up to {worst:.2g}",
            f"at most {ROUNDING:g}",
            "a score that is off by e makes its weight wrong by the factor exp(e); large scores in a dtype of few "
            "digits carry errors that no softmax in float32 takes back",
            "compute scores in float32 (a fused kernel does), or make them smaller: normalise q and k, or cap them",
        )
