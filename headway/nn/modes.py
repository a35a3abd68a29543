"""Training or use, for a while: what all who run somebody's model need."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def modes_kept(module: nn.Module) -> Iterator[None]:
    """Training or use: each part is afterwards as it was."""
    modes = {one: one.training for one in module.modules()}
    try:
        yield
    finally:
        for one, mode in modes.items():
            one.training = mode


@contextmanager
def evaluating(module: Any) -> Iterator[None]:
    """In eval mode inside, and afterwards each part as it was; nothing is done for one that is in eval mode."""
    if not getattr(module, "training", False):
        yield
        return
    with modes_kept(module):
        module.eval()
        yield
