"""The curves between two linear maps, by name."""

from collections.abc import Callable
from math import pi, sqrt
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import nearest
from headway.sizes import Number, Operation, other
from headway.steps import Each

Activation = Callable[[Tensor], Tensor]


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021, arXiv:2109.08668)."""
    return F.relu(x).square()


def gelu_sigmoid(x: Tensor) -> Tensor:
    """x · σ(1.702 x), the coarser of the two approximations of GELU (Hendrycks & Gimpel 2016, arXiv:1606.08415)."""
    return x * torch.sigmoid(1.702 * x)


def gelu_tanh(x: Tensor) -> Tensor:
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, the finer of the two, as GPT-2 has it (arXiv:1606.08415).

    (1 + tanh u) / 2 = σ(2u), and torch's kernels take a third of the time for σ that they take for tanh.

    >>> round(gelu_tanh(torch.tensor(1.0)).item(), 4)
    0.8412
    """
    if x.numel() < SMALL or x.device.type != "cpu" or torch.compiler.is_compiling() or not _plain(x):
        return F.gelu(x, approximate="tanh")
    return _GeluTanh.apply(x) if torch.is_grad_enabled() and x.requires_grad else _gelu_tanh(x)[0]


SMALL = 2**14  # entries: with fewer, several calls cost more than one slow kernel
SLOPE = 2 * sqrt(2 / pi)
CUBIC = 0.044715 * SLOPE


def _plain(x: Tensor) -> bool:
    """Whether x is a plain tensor: what torch.func wraps goes to torch, whose own function has all of its rules."""
    return type(x) is Tensor and not torch._C._functorch.is_functorch_wrapped_tensor(x)  # pyright: ignore


def _gelu_tanh(x: Tensor) -> tuple[Tensor, Tensor]:
    """x σ(u) and σ(u), u = x (slope + cubic x²), in at least float32."""
    wide = x.to(torch.promote_types(x.dtype, torch.float32))
    share = torch.addcmul(wide.new_tensor(SLOPE), wide, wide, value=CUBIC).mul_(wide).sigmoid_()
    return (wide * share).to(x.dtype), share


class _GeluTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y, share = _gelu_tanh(x)
        # Half precision would spoil the share, and float32 double what is kept: it is made again there.
        ctx.save_for_backward(x, share if share.dtype == x.dtype else None)
        return y

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> Tensor:
        """σ + x σ (1 - σ) u', u' = slope + 3 cubic x²."""
        x, share = ctx.saved_tensors
        if torch.is_grad_enabled():  # somebody wants the gradient's gradient
            return torch.ops.aten.gelu_backward(gradient, x, approximate="tanh")
        share = _gelu_tanh(x)[1] if share is None else share
        x, slope = x.to(share.dtype), gradient.to(share.dtype)
        found = torch.addcmul(x.new_tensor(SLOPE), x, x, value=3 * CUBIC).mul_(x)
        found = torch.ops.aten.sigmoid_backward(found, share)  # found · (1 - σ) · σ, in one pass
        return found.add_(share).mul_(slope).to(gradient.dtype)


def identity(x: Tensor) -> Tensor:
    """x itself: with a gate it makes the bilinear layer of arXiv:2002.05202."""
    return x


ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "relu_squared": relu_squared,
    "gelu": F.gelu,
    "gelu_tanh": gelu_tanh,
    "gelu_sigmoid": gelu_sigmoid,
    "silu": F.silu,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "identity": identity,
}


def find_activation(name: str) -> Activation:
    """The activation of that name; a name that does not exist is refused with the nearest that does.

    >>> find_activation("relu")(torch.tensor([-1.0, 2.0])).tolist()
    [0.0, 2.0]
    """
    if name not in ACTIVATIONS:
        raise ValueError(
            f"there is no activation {name!r}{nearest(name, ACTIVATIONS)}; there are {', '.join(ACTIVATIONS)}"
        )
    return ACTIVATIONS[name]


# FLOPs an entry, one for each + - × ÷ exp tanh erf max in the formula, one after the other.
FLOPS = {
    "relu": 1,
    "relu_squared": 2,
    "gelu": 5,
    "gelu_tanh": 9,
    "gelu_sigmoid": 6,
    "silu": 5,
    "sigmoid": 4,
    "tanh": 1,
    "identity": 0,
}


def activation_price(name: str, entries: Number) -> Operation:
    """The curve of that name over so many entries.

    >>> activation_price("gelu", 10).forward.other
    50
    """
    find_activation(name)
    flops = other(FLOPS[name] * entries)
    return Operation("activation", flops, flops + flops, steps=(Each(FLOPS[name]),), reads=entries, writes=entries)
