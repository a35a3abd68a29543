"""Training or use, for a while: what all who run somebody's model need."""

from collections.abc import Iterator
from contextlib import contextmanager

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
