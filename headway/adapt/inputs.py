"""Random inputs for a model, each a pure function of a seed: tokens, vectors or images of a length that it takes."""

from dataclasses import replace

import torch
from torch import Tensor

from headway.adapt.adapter import NOBODY, SPAN, Adapter, Reading


def draw_inputs(adapter: Adapter, seed: int, items: int, length: int, *, source: bool = False) -> Tensor:
    """Items of one length: B L tokens, B L D vectors, or B C Y X images (whatever the length).

    >>> draw_inputs(Adapter(vocabulary=7), 1, 2, 5).shape
    torch.Size([2, 5])
    """
    draw = torch.Generator().manual_seed(seed + 77_000 * source)
    if adapter.inputs == "images" and not source:
        assert adapter.image is not None
        return torch.randn(items, *adapter.image, generator=draw, dtype=torch.float64)
    if adapter.inputs == "vectors" and not source:
        assert adapter.width is not None
        return torch.randn(items, length, adapter.width, generator=draw, dtype=torch.float64)
    many = (adapter.source_vocabulary if source else None) or adapter.vocabulary
    assert many is not None
    return torch.randint(many, (items, length), generator=draw)


def other_inputs(adapter: Adapter, inputs: Tensor, seed: int) -> Tensor:
    """Inputs that differ from these everywhere."""
    draw = torch.Generator().manual_seed(seed + 991)
    if inputs.is_floating_point():
        return torch.randn(inputs.shape, generator=draw, dtype=inputs.dtype)
    assert adapter.vocabulary is not None
    step = torch.randint(1, max(2, adapter.vocabulary), inputs.shape, generator=draw)
    return (inputs + step) % adapter.vocabulary


def item_labels(items: int, length: int, *, first: int = 0) -> Tensor:
    """A label for each position of each item."""
    return (torch.arange(first, first + items)[:, None] * SPAN + torch.arange(length)).long()


def no_labels(*shape: int) -> Tensor:
    return torch.full(shape, NOBODY)


def draw_reading(adapter: Adapter, *, seed: int, length: int, items: int, source: int = 0) -> Reading:
    """A whole text for each item, nothing masked; with a source of that length where the model reads one.

    The source is one longer where it would be as long as the text: lengths tell whose positions a module's numbers
    belong to.
    """
    columns = 1 if adapter.inputs == "images" else length
    drawn = Reading(draw_inputs(adapter, seed, items, length), item_labels(items, columns))
    if not adapter.reads_source:
        return drawn
    many = fit_length(adapter, source)
    if many == drawn.inputs.shape[1]:
        many = many + 1 if adapter.longest is None or many < adapter.longest else many - 1
    tokens = draw_inputs(adapter, seed, items, many, source=True)
    return replace(drawn, source=tokens, source_labels=item_labels(items, many))


def probe(adapter: Adapter, steps: int) -> Reading:
    """A short text of two items, `steps` units beyond the shortest."""
    length = fit_length(adapter, adapter.shortest + steps * adapter.multiple)
    return draw_reading(adapter, seed=steps, length=length, items=2, source=length + 2)


def fit_length(adapter: Adapter, length: int) -> int:
    """The nearest length not above it that the model takes; the shortest where there is none."""
    least = -(-max(adapter.shortest, 1) // adapter.multiple) * adapter.multiple
    most = length if adapter.longest is None else min(length, adapter.longest)
    return max(least, most // adapter.multiple * adapter.multiple)
