"""Values and gradients stay finite under extreme inputs, in the model's own numbers.

Extremes are: inputs all equal, vectors all zero, vectors (or images) that are many times as large, the shortest text
and the longest that is tried. How many times: the ninth and the sixth root of the largest number that the type has
(2e4 and 2.6e6 in float32). A model that normalises takes any size whose square it can hold; one that does not
multiplies sizes with each layer, and may still do so six times. What overflows beyond that is a matter of range, not
of care.
"""

from dataclasses import dataclass, replace
from math import inf

import torch
from jaxtyping import Float
from torch import Tensor

from headway.adapt.adapter import Overwrite, Reading
from headway.adapt.inputs import fit_length
from headway.adapt.model import AdaptedModel
from headway.audit.laws.nonfinite import Fault, fault_of, infinite, traced
from headway.audit.laws.stage import as_known
from headway.audit.report import BROKEN, HOLDS, Example, Finding, Strip
from headway.audit.search.case import Case
from headway.audit.search.compare import Apart
from headway.audit.search.contrast import Contrast
from headway.audit.search.example import strips
from headway.audit.search.scene import LARGE, QUICK, Scene
from headway.models import parameters

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


def finite(scene: Scene) -> Finding:
    """Each extreme in turn; what is found is tried with the shortest text too."""
    model = as_known(scene.original, scene.subject)
    usual, tried = infinite(traced(model, _text(model, 4, scene))), 0
    for name in SAYINGS:
        if model.missing("vectors") is not None and size_of(model, name) is not None:
            continue
        tried += 1
        length, weights = LENGTHS.get(name, 4), _weights(scene, name)
        text = _text(model, scene.effort.longest * 3 if length is None else length, scene)
        fault = fault_of(model, extreme(model, text, name), weights=weights, usual=usual)
        if fault is not None:
            return _smallest(scene, model, name, (text, fault), usual, tried)
    seen = model.missing("vectors")
    return Finding("finite", HOLDS, tried, 0.0, 0.0, why="" if seen is None else f"sizes were not tried: {seen}")


def _smallest(
    scene: Scene, model: AdaptedModel, name: str, known: tuple[Reading, Fault], usual: frozenset[str], tried: int
) -> Finding:
    """A shorter text serves where the same module is the first to fail."""
    for length in (1, 2):
        text = extreme(model, _text(model, length, scene), name)
        fault = fault_of(model, text, weights=True, usual=usual)
        if fault is not None and fault.module == known[1].module:
            return _told(model, text, name, fault, tried)
    return _told(model, extreme(model, known[0], name), name, known[1], tried)


def _weights(scene: Scene, name: str) -> bool:
    many = parameters(scene.original.module)
    return name == "zero" or many < LARGE or scene.effort.longest > QUICK.longest


def _text(model: AdaptedModel, length: int, scene: Scene) -> Reading:
    size = fit_length(model.adapter, length)
    return Case(scene.seed + 11, size, source=size).reading(model.adapter)


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


def _told(model: AdaptedModel, text: Reading, name: str, fault: Fault, tried: int) -> Finding:
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
    return strips(model, Contrast((), (text,), sentence), Apart(labels, amounts, 1.0), 0.0)
