"""Reach: how many of its inputs a model's output can depend on, layer by layer.

Three answers. `argmax_bound`: what is possible at most if each head looks at one position alone. `reach`: what the
masks of a model allow, exactly. `measured`: what gradients find in a model that runs.

>>> from headway.presets import preset
>>> found = reach(preset("mistral-7b"), length=16384)
>>> [(layer.number, layer.largest, layer.full) for layer in found.layers[2:5]]
[(3, 12286, False), (4, 16381, False), (5, 16384, True)]
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch

from headway.config import (
    Frozen,
    MaskedConfig,
    SentenceConfig,
    Seq2SeqConfig,
    VectorsConfig,
    VisionConfig,
)
from headway.config.model import ModelConfig
from headway.config.text import DecoderConfig, ModuleConfig
from headway.cost.reach.argmax import argmax_bound, bound_of
from headway.cost.reach.models import Texts, layers_of
from headway.cost.reach.sets import LayerSets, TooLong
from headway.ops.mask import Mask
from headway.steps import Number

__all__ = ["LayerReach", "Reach", "argmax_bound", "reach", "summary"]

_PLURALS = {"token": "tokens", "patch": "patches", "pixel": "pixels", "vector": "vectors"}


@dataclass(frozen=True)
class LayerReach:
    """Of how many inputs the positions of a layer know: the fewest, the most, the mean.

    full: each sees all inputs, or under causality all that come before it and itself.
    """

    part: str
    number: int
    smallest: int
    largest: int
    mean: float
    inputs: int
    full: bool


@dataclass(frozen=True)
class Reach:
    """Every layer's reach; the argmax bound; the first layer from which on all see everything.

    In an encoder-decoder that is a layer of the decoder, which sees all of the source and of the target before it.
    """

    layers: tuple[LayerReach, ...]
    bound: int | None
    full_from: int | None
    unit: str = "token"
    notes: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        found = asdict(self)
        return {**found, "layers": [asdict(layer) for layer in self.layers], "notes": list(self.notes)}

    def sentence(self) -> str:
        """The last layer, and from where on everything is seen, in one line."""
        if not self.layers:
            return "; ".join(self.notes)
        things, last = _PLURALS[self.unit], self.layers[-1].number
        parts = [_phrase(layer, things) for layer in self.layers if layer.number == last and layer.part != "encoder"]
        full = "never everything" if self.full_from is None else f"everything it may from layer {self.full_from} on"
        bound = "" if self.bound is None else f"; at most {self.bound:,} if each head looked at one position alone"
        return f"after {last} {'layer' if last == 1 else 'layers'} a position sees {' and '.join(parts)}, {full}{bound}"


def _phrase(layer: LayerReach, things: str) -> str:
    span = f"{layer.largest:,}" if layer.smallest == layer.largest else f"{layer.smallest:,} to {layer.largest:,}"
    side = {"decoder": " of the target", "source": " of the source"}.get(layer.part, "")
    return f"{span} of {layer.inputs:,} {things}{side}"


def reach(
    config: Frozen, length: Number | None = None, *, source: Number | None = None, mask: Mask | None = None
) -> Reach:
    """The exact reach of a configured model; a picture has its own size, a source is as long as the text by default.

    Ranges (causality, windows, dilation, tiles of a grid) and selected positions are exact at any length in O(L) a
    layer; other patterns (a table of one's own, a causal grid) up to 2,048 positions, and beyond that a note says so.
    """
    texts = texts_of(config, length, source, mask)
    bound = bound_of(config, texts.real, texts.source)
    try:
        return summary(config, layers_of(config, texts), bound)
    except TooLong as error:
        return Reach((), bound, None, _unit(config), (str(error),))


def texts_of(config: Frozen, length: Number | None, source: Number | None, mask: Mask | None) -> Texts:
    """What is asked about, or a refusal of models that are not known and sizes that cannot be counted."""
    if not isinstance(config, ModelConfig) or isinstance(config, ModuleConfig):
        raise ValueError(f"{config.kind_or_name()} configures no model whose reach is known")
    size = _length(config, length)
    other = size if source is None else source
    for name, value in (("length", size), ("source", other)):
        if not isinstance(value, int) or value < 1:
            raise ValueError(f"a reach is counted position by position: {name} is a whole number from 1, not {value}")
    return Texts(size, other, mask)


def _length(config: Frozen, length: Number | None) -> Number:
    """Of the text: as given, or as many positions as the model was made for."""
    if isinstance(config, VisionConfig):
        return config.grid[0] * config.grid[1]
    if length is not None:
        return length
    if isinstance(config, SentenceConfig):
        return config.limit
    made = config.length if isinstance(config, DecoderConfig | MaskedConfig | VectorsConfig | Seq2SeqConfig) else None
    return 128 if made is None else made


def summary(config: Frozen, layers: Sequence[LayerSets], bound: int | None) -> Reach:
    """The numbers of sets, however they were found."""
    found = tuple(_summed(layer) for layer in layers)
    return Reach(found, bound, _full_from(found), _unit(config))


def _unit(config: Frozen) -> str:
    assert isinstance(config, ModelConfig)
    return config.unit


def _summed(layer: LayerSets) -> LayerReach:
    counts, inputs = layer.sets.counts, layer.sets.inputs
    most = torch.arange(1, len(counts) + 1) if layer.causal else torch.full_like(counts, inputs)
    return LayerReach(
        layer.part, layer.number, int(counts.min()), int(counts.max()), int(counts.sum()) / len(counts), inputs,
        bool((counts >= most).all()),
    )  # fmt: skip


def _full_from(layers: Sequence[LayerReach]) -> int | None:
    """The layer after the last one that does not see everything; an encoder's layers count in the decoder's."""
    counted = [layer for layer in layers if layer.part != "encoder"]
    last = max((layer.number for layer in counted if not layer.full), default=counted[0].number - 1)
    return None if last == counted[-1].number else last + 1
