"""A model is looked at, not changed: whatever an audit does, everything is as it was afterwards."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def untouched(model: nn.Module) -> Iterator[None]:
    """In use (eval), with gradients wherever they are asked for; modes and buffers come back."""
    modes = {module: module.training for module in model.modules()}
    buffers = [
        (module, name, one, one.detach().clone())
        for module in model.modules()
        for name, one in module._buffers.items()
        if one is not None
    ]
    model.eval()
    try:
        with torch.inference_mode(False), torch.enable_grad():
            yield
    finally:
        for module, mode in modes.items():
            module.training = mode
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
