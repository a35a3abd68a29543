"""Tensors whose numbers can be read, and those that are shapes alone: on the meta device, or torch's fake tensors.

A model that runs on shapes (for its memory, for its parameters) must not ask what the numbers are. Whoever wants to
check them asks here first; whoever plans by positions works on real ones.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor
from torch.compiler import is_compiling

_FAKE = "torch._subclasses.fake_tensor"  # imported by those who use it; where it is not, there is no fake tensor


def readable(x: Tensor) -> bool:
    """Whether a tensor has numbers to look at: not a shape alone, and not inside of what torch.compile traces.

    >>> import torch
    >>> readable(torch.zeros(2)), readable(torch.zeros(2, device="meta"))
    (True, False)
    """
    fake = sys.modules.get(_FAKE)
    return not (x.is_meta or is_compiling()) and (fake is None or not isinstance(x, fake.FakeTensor))


@contextmanager
def real_numbers() -> Iterator[None]:
    """While it is entered, new tensors have numbers, also where a model runs on fake ones."""
    fake = sys.modules.get(_FAKE)
    if fake is None:
        yield
        return
    with fake.unset_fake_temporarily():
        yield
