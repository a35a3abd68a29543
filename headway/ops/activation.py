"""The curves between two linear maps, by name.

GELU of many entries is computed by a compiled kernel where there is one: torch's takes 10 times as long forwards and 20
times backwards (docs/log.md), a tenth of a small model's training step.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import nearest
from headway.native import activation as kernels
from headway.ops.values import operations_are_followed
from headway.sizes import Number, Operation, other
from headway.steps import Each

Activation = Callable[[Tensor], Tensor]


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021, arXiv:2109.08668)."""
    return F.relu(x).square()


def gelu_sigmoid(x: Tensor) -> Tensor:
    """x · σ(1.702 x), the coarser of the two approximations of GELU (Hendrycks & Gimpel 2016, arXiv:1606.08415)."""
    return x * torch.sigmoid(1.702 * x)


Form = Literal["none", "tanh"]
NAMES: dict[Form, kernels.Kind] = {"none": "gelu", "tanh": "gelu_tanh"}
MANY = 2**14  # entries: below, torch's own takes as long as the call


def _gelu(x: Tensor, form: Form) -> Tensor:
    """By the compiled kernel where that is faster and nobody observes which operations run; by torch elsewhere."""
    if x.numel() < MANY or operations_are_followed(x) or not kernels.serves(x):
        return F.gelu(x, approximate=form)
    if x.requires_grad and torch.is_grad_enabled():
        return _CompiledGelu.apply(x, form)
    return kernels.activation(x, NAMES[form])


class _CompiledGelu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, form: Form) -> Tensor:
        ctx.save_for_backward(x)
        ctx.form = form
        return kernels.activation(x, NAMES[form])

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (x,) = ctx.saved_tensors
        if torch.is_grad_enabled() or not kernels.serves(gradient, x):  # gradients of gradients are torch's
            return torch.ops.aten.gelu_backward(gradient, x, approximate=ctx.form), None
        return kernels.gelu_backward(gradient, x, NAMES[ctx.form]), None


# x Φ(x), and x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, the finer of the two approximations, as GPT-2 has it
# (arXiv:1606.08415).
gelu: Activation = partial(_gelu, form="none")
gelu_tanh: Activation = partial(_gelu, form="tanh")


def identity(x: Tensor) -> Tensor:
    """x itself: with a gate it makes the bilinear layer of arXiv:2002.05202."""
    return x


ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "relu_squared": relu_squared,
    "gelu": gelu,
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
    if name not in FLOPS:
        raise ValueError(
            f"the cost of activation {name!r} is not known: known are {', '.join(FLOPS)}; headway.price of the module "
            "itself traces it"
        )
    flops = other(FLOPS[name] * entries)
    return Operation("activation", flops, flops + flops, steps=(Each(FLOPS[name]),), reads=entries, writes=entries)
