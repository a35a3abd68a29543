"""A module and its inputs without their numbers: on the meta device, as fake tensors of the CPU, or as they are.

The copy has its parameters, buffers and stray tensors replaced while it is copied, so that nothing is allocated and
the original is neither touched nor given gradients. Tied parameters stay tied. A module that cannot be copied lends
itself for the time of the run, with its parameters replaced.
"""

import copy
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map

from headway.cost.trace.call import tensors_in

DEVICES = ("meta", "fake", "cpu")


@dataclass(frozen=True)
class Copied:
    """What runs: how to call it, the modules that run, and their parameters and buffers by name."""

    call: Callable[..., Any]
    module: nn.Module
    tensors: dict[str, Tensor]


class Ground:
    """Where a trace runs. meta: shapes alone; fake: shapes, and the CPU's choice of kernels; cpu: real numbers."""

    def __init__(self, device: str) -> None:
        if device not in DEVICES:
            raise ValueError(f"a trace runs on {', '.join(DEVICES)}, not on {device!r}")
        self.device = device
        self.mode: AbstractContextManager[Any] = nullcontext()
        if device == "fake":
            from torch._subclasses.fake_tensor import FakeTensorMode

            self.mode = FakeTensorMode(allow_non_fake_inputs=True)

    @property
    def default(self) -> torch.device:
        """Where the module makes new tensors."""
        return torch.device("meta" if self.device == "meta" else "cpu")

    def tensor(self, tensor: Tensor) -> Tensor:
        """The same shape, strides, type and wish for gradients here; real numbers are shared, not copied."""
        if self.device == "cpu":
            placed = _drawn(tensor) if tensor.is_meta else tensor.detach()
        else:
            with self.mode:
                placed = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self.default)
        if isinstance(tensor, nn.Parameter):
            return nn.Parameter(placed, requires_grad=tensor.requires_grad)
        return placed.requires_grad_(tensor.requires_grad)

    def inputs(self, tree: Any) -> Any:
        return tree_map(lambda leaf: self.tensor(leaf) if isinstance(leaf, Tensor) else leaf, tree)

    def module(self, module: nn.Module) -> Copied:
        """The copy; buffers get memory of their own, since a module may write into them."""
        self._check(module)
        own = {id(buffer) for buffer in module.buffers()} if self.device == "cpu" else set()
        placed = {
            id(tensor): tensor.clone() if id(tensor) in own else self.tensor(tensor) for tensor in _all_tensors(module)
        }
        try:
            copied = copy.deepcopy(module, dict(placed))
        except Exception:  # whatever an object's own way of copying itself may raise
            named = {name: placed[id(tensor)] for name, tensor in _named(module).items()}
            return Copied(partial(_lent, module, named), module, named)
        return Copied(copied, copied, _named(copied))

    def _check(self, module: nn.Module) -> None:
        for name, parameter in module.named_parameters():
            if is_lazy(parameter):
                raise ValueError(f"{name} has no shape yet: run the module once, then trace it")
            if self.device == "cpu" and parameter.is_meta:
                raise ValueError(f"{name} is on the meta device; a trace with device='cpu' needs real parameters")


def _lent(module: nn.Module, tensors: dict[str, Tensor], *inputs: Any, **keywords: Any) -> Any:
    return torch.func.functional_call(module, tensors, inputs, keywords)


def _drawn(tensor: Tensor) -> Tensor:
    """Numbers for an input given as a shape: noise, or zeros where they are whole (an index that always exists)."""
    if tensor.is_floating_point():
        return torch.randn(tensor.shape, dtype=tensor.dtype)
    return torch.zeros(tensor.shape, dtype=tensor.dtype)


def _named(module: nn.Module) -> dict[str, Tensor]:
    return dict((*module.named_parameters(), *module.named_buffers()))


def _all_tensors(module: nn.Module) -> Iterator[Tensor]:
    """Parameters, buffers, and tensors kept as plain attributes."""
    yield from _named(module).values()
    internal = vars(nn.Module())
    for inner in module.modules():
        yield from tensors_in([value for key, value in vars(inner).items() if key not in internal])
