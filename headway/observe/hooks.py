"""Hooks on every module of a model for a while: what all who watch need."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn


@contextmanager
def hooked(module: nn.Module, make: Callable[[str], Callable[..., Any]]) -> Iterator[None]:
    """`make(name)` is called after each call of the module of that name: with it, arguments, keywords and result."""
    handles = [one.register_forward_hook(make(name), with_kwargs=True) for name, one in module.named_modules()]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
