"""Tensors whose numbers can be read, and those that are shapes alone: on the meta device, or torch's fake tensors.

A model that runs on shapes (for its memory, for its parameters) must not ask what the numbers are. Whoever wants to
check them asks here first; whoever plans by positions works on real ones.
"""

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import lru_cache, wraps
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.compiler import is_compiling
from torch.compiler import is_dynamo_compiling as tracing  # while torch.compile reads the Python code

__all__ = ["constant", "operations_are_followed", "readable", "real_numbers", "tracing", "untraced"]

P = ParamSpec("P")
T = TypeVar("T")

_FAKE = "torch._subclasses.fake_tensor"  # imported by those who use it; where it is not, there is no fake tensor


def readable(x: Tensor) -> bool:
    """Whether a tensor has numbers to look at: not a shape alone, and not inside of what torch.compile traces.

    >>> import torch
    >>> readable(torch.zeros(2)), readable(torch.zeros(2, device="meta"))
    (True, False)
    """
    fake = sys.modules.get(_FAKE)
    return not (x.is_meta or is_compiling()) and (fake is None or not isinstance(x, fake.FakeTensor))


def operations_are_followed(*tensors: Tensor) -> bool:
    """Whether somebody follows the operations: a compiler, a counter, torch.func, forward mode, a tensor of another
    kind. They know torch's own operations and no others, so they get those."""
    return (
        is_compiling()
        or torch._C._len_torch_dispatch_stack() > 0
        or torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]
        or forward_ad._current_level >= 0
        or not _PLAIN.issuperset(map(type, tensors))
    )


_PLAIN = frozenset({Tensor, torch.nn.Parameter})


def real_numbers() -> AbstractContextManager[Any]:
    """While it is entered, new tensors have numbers, also where a model runs on fake ones."""
    # torch.compile cannot enter this one. What it traces there are operations: it must not read their numbers.
    fake = None if tracing() else sys.modules.get(_FAKE)
    return nullcontext() if fake is None else fake.unset_fake_temporarily()


def untraced(compute: Callable[P, T]) -> Callable[P, T]:
    """A function of plain values that torch.compile calls while it traces, instead of reading its code."""
    # What torch.compiler.assume_constant_result does, which would import the compiler (5 s).
    vars(compute)["_dynamo_marked_constant"] = True
    return compute


def constant(compute: Callable[P, T]) -> Callable[P, T]:
    """An untraced function that is computed once for each of its values."""
    cached = lru_cache(compute)

    @wraps(compute)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        return cached(*args, **kwargs)

    vars(call)["cache_clear"] = cached.cache_clear
    return untraced(call)
