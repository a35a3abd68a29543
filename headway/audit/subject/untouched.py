"""A model is looked at, not changed: whatever an audit does, everything is as it was afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from headway.nn.modes import modes_kept


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """In use (eval), with gradients wherever they are asked for; modes and buffers come back."""
    buffers = [
        (module, name, one, one.detach().clone())
        for module in model.modules()
        for name, one in module._buffers.items()
        if one is not None
    ]
    try:
        with modes_kept(model), torch.inference_mode(False), torch.enable_grad():
            model.eval()
            yield
    finally:
        with torch.no_grad():
            for module, name, one, was in buffers:
                one.copy_(was)
                module._buffers[name] = one


def plain_module(model: nn.Module) -> tuple[nn.Module, tuple[str, ...]]:
    """What torch.compile was given, since hooks and copies do not go through what it made; and a note of that."""
    inner = getattr(model, "_orig_mod", None)
    if not isinstance(inner, nn.Module):
        return model, ()
    return inner, ("It was compiled; the module that was given to torch.compile is examined.",)
