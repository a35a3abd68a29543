"""The curves between two linear maps, by name."""

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config import nearest

Activation = Callable[[Tensor], Tensor]


def relu_squared(x: Tensor) -> Tensor:
    """max(x, 0)² (So et al. 2021, arXiv:2109.08668)."""
    return F.relu(x).square()


def gelu_sigmoid(x: Tensor) -> Tensor:
    """x · σ(1.702 x), the coarser of the two approximations of GELU (Hendrycks & Gimpel 2016, arXiv:1606.08415)."""
    return x * torch.sigmoid(1.702 * x)


def identity(x: Tensor) -> Tensor:
    """x itself: with a gate it makes the bilinear layer of arXiv:2002.05202."""
    return x


ACTIVATIONS: dict[str, Activation] = {
    "relu": F.relu,
    "relu_squared": relu_squared,
    "gelu": F.gelu,
    "gelu_tanh": partial(F.gelu, approximate="tanh"),
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
