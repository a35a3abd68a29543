"""Inputs of a trial: tokens, vectors or images, each a pure function of a seed."""

from dataclasses import replace
from random import Random

import torch
from torch import Tensor

from headway.audit.search.case import Case
from headway.audit.subject.adapter import Adapter
from headway.audit.subject.reading import NOBODY, SPAN, Reading
from headway.audit.subject.subject import Subject


def texts(adapter: Adapter, seed: int, items: int, length: int, *, source: bool = False) -> Tensor:
    """Items of one length: B L tokens, B L D vectors, or B C Y X images (whatever the length).

    >>> texts(Adapter(vocabulary=7), 1, 2, 5).shape
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


def other_texts(adapter: Adapter, inputs: Tensor, seed: int) -> Tensor:
    """Inputs that differ from these everywhere."""
    draw = torch.Generator().manual_seed(seed + 991)
    if inputs.is_floating_point():
        return torch.randn(inputs.shape, generator=draw, dtype=inputs.dtype)
    assert adapter.vocabulary is not None
    step = torch.randint(1, max(2, adapter.vocabulary), inputs.shape, generator=draw)
    return (inputs + step) % adapter.vocabulary


def labels(items: int, length: int, *, first: int = 0) -> Tensor:
    """A label for each place of each item."""
    return (torch.arange(first, first + items)[:, None] * SPAN + torch.arange(length)).long()


def nobody(*shape: int) -> Tensor:
    return torch.full(shape, NOBODY)


def reading(subject: Subject, case: Case, *, items: int | None = None) -> Reading:
    """A whole text for each item, nothing hidden; with a source where the model reads one."""
    a, count = subject.adapter, case.items if items is None else items
    inputs = texts(a, case.seed, count, case.length)
    columns = 1 if a.inputs == "images" else case.length
    found = Reading(inputs, labels(count, columns))
    return with_source(subject, found, case.seed, case.source)


def with_source(subject: Subject, found: Reading, seed: int, length: int) -> Reading:
    """The same with a source of that length for each item, where the model reads one.

    It is one longer where it would be as long as the text: lengths tell whose places a module's numbers belong to.
    """
    if not takes_source(subject):
        return found
    count, length = len(found.inputs), bounded(subject, length)
    if length == found.inputs.shape[1]:
        length = length + 1 if subject.adapter.longest is None or length < subject.adapter.longest else length - 1
    source = texts(subject.adapter, seed, count, length, source=True)
    return replace(found, source=source, source_labels=labels(count, length))


def takes_source(subject: Subject) -> bool:
    a = subject.adapter
    return "source" in a.takes if a.call is not None else a.source is not None


def probe(subject: Subject, steps: int) -> Reading:
    """A short text of two items, `steps` units beyond the shortest."""
    a = subject.adapter
    length = bounded(subject, a.shortest + steps * a.multiple)
    return reading(subject, Case(seed=steps, length=length, items=2, source=length + 2))


def bounded(subject: Subject, length: int) -> int:
    """The length, within what the model takes."""
    a = subject.adapter
    least = -(-max(a.shortest, 1) // a.multiple) * a.multiple
    most = length if a.longest is None else min(length, a.longest)
    return max(least, most // a.multiple * a.multiple)


def some_length(subject: Subject, random: Random, *, least: int, most: int) -> int:
    """A length between two, as the model takes it."""
    return bounded(subject, random.randint(least, most))
