"""A twin: one model twice, with a bug and without, and the law that tells them apart."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from headway.adapt.adapter import Adapter

Build = Callable[[], tuple[nn.Module, Adapter]]


@dataclass(frozen=True)
class Twin:
    """`thread` is the public report that the bug is named after, "" where it is only common knowledge; `module` the
    first one that is wrong, as named_modules() says ("" is the model itself); `also` are other laws that the same bug
    cannot but break."""

    name: str
    thread: str
    law: str
    module: str
    build: Build
    sound: Build
    also: frozenset[str] = frozenset()


def made(model: Callable[[], nn.Module], seed: int = 5, **adapter: Any) -> Build:
    """A function that makes the model with the same weights each time, ready for use, and leaves torch's own draws
    where they were."""

    def build() -> tuple[nn.Module, Adapter]:
        return seeded(model, seed), Adapter(**adapter)

    return build


def seeded(model: Callable[[], nn.Module], seed: int = 5) -> nn.Module:
    """The model with the weights of that seed, ready for use."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return model().eval()
