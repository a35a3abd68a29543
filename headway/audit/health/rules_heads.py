"""Symptoms of single heads: stuck, dead, doubled, out of range."""

import math
from collections.abc import Iterator

import torch

from headway.audit.health.record import Head, Symptom

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
