"""Hooks on modules for as long as a context lasts."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.utils.hooks import RemovableHandle

Hook = Callable[..., Any]


@contextmanager
def removed_after(*handles: RemovableHandle) -> Iterator[None]:
    """Removes these hooks when the context ends."""
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def hooked(module: nn.Module, make: Callable[[str], Hook]) -> Iterator[None]:
    """`make(name)` is called after each call of the module of that name: with it, arguments, keywords and result."""
    handles = [one.register_forward_hook(make(name), with_kwargs=True) for name, one in module.named_modules()]
    with removed_after(*handles):
        yield


@contextmanager
def every_module(before: Hook, after: Hook, *, with_kwargs: bool = False) -> Iterator[None]:
    """`before(module, args)` and `after(module, args, result)` around each call of any module.

    The hooks are global: a layer of torch that has a hook of its own leaves its fused path. A call that raises ends
    with the result None; with `with_kwargs` it is `after(module, args, kwargs, result)`, and of such a call nothing.
    """
    with removed_after(
        register_module_forward_pre_hook(before),
        register_module_forward_hook(after, with_kwargs=with_kwargs, always_call=not with_kwargs),
    ):
        yield


def is_block(module: nn.Module) -> bool:
    """Whether a module can be a block of a stack: a linear layer or a norm is a part of one, a list is never called."""
    inner = not isinstance(module, nn.ModuleList | nn.ModuleDict) and next(module.children(), None) is not None
    return inner and next(module.parameters(), None) is not None


def first_tensor(given: Any) -> Tensor | None:
    """The first floating-point tensor in what a module reads or gives."""
    if isinstance(given, Tensor):
        return given if given.is_floating_point() else None
    if isinstance(given, dict):
        given = list(given.values())
    parts = given if isinstance(given, list | tuple) else []
    return next((one for part in parts if (one := first_tensor(part)) is not None), None)
