"""Rows that are not finite, kept apart from others: what a careful pass does where a fast one would spread them.

A fast kernel multiplies a hidden key by 0 or adds -inf to its score, and 0 x NaN is NaN; so does the gradient of a
weight with a row that got no gradient. `nn.context` says when a pass has to be careful.
"""

import math
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Care:
    """How many careful passes run now, in all threads: with care every map is as right, and slower."""

    passes = 0
    _lock = threading.Lock()

    def add(self, count: int) -> None:
        with self._lock:
            self.passes += count


CARE = Care()


@contextmanager
def careful() -> Iterator[None]:
    """While it is entered, maps of rows keep rows that are not finite apart."""
    CARE.add(1)
    try:
        yield
    finally:
        CARE.add(-1)


def by_rows(compute: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """compute(x), a map of each row by itself, so that a row that is not finite reaches no gradient but its own.

    Such rows are computed as zeros and filled with NaN afterwards; in the backward pass they bring NaN where a gradient
    comes to them, and nothing where none does.
    """
    bad = ~x.detach().isfinite().all(-1, keepdim=True)
    return _Spoilt.apply(compute(_Cleaned.apply(x, bad)), bad)


class _Cleaned(torch.autograd.Function):
    """Rows that are not finite as zeros; their gradients go back as they come."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bad: Tensor) -> Tensor:
        return x.masked_fill(bad, 0)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient, None


class _Spoilt(torch.autograd.Function):
    """NaN in the rows that were not finite; a gradient that comes to one of them is NaN, none stays none."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, bad: Tensor) -> Tensor:
        ctx.save_for_backward(bad)
        return x.masked_fill(bad, math.nan)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (bad,) = ctx.saved_tensors
        asked = (gradient != 0).any(-1, keepdim=True)
        return gradient.masked_fill(bad, 0).masked_fill(bad & asked, math.nan), None


def finite(x: Tensor) -> bool:
    """Whether there is no NaN and no inf; a sum that overflows counts as not finite, which errs on the safe side."""
    return math.isfinite(x.detach().sum().item())


def at_least_float32(dtype: torch.dtype) -> torch.dtype:
    return torch.promote_types(dtype, torch.float32)
