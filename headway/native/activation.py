"""GELU and its gradient by the compiled kernels: each in one pass over the elements."""

import ctypes
from typing import Literal

import torch
from torch import Tensor

from headway.native.build import library, threads

Kind = Literal["none", "gelu", "gelu_tanh", "silu", "relu"]
KINDS: dict[str, int] = {"none": 0, "gelu": 1, "gelu_tanh": 2, "silu": 3, "relu": 4}


def serves(*tensors: Tensor) -> bool:
    """Whether a kernel may take these: float32 in one piece on the CPU, and kernels that could be built."""
    return all(_plain(x) for x in tensors) and library() is not None


def _plain(x: Tensor) -> bool:
    return type(x) in (Tensor, torch.nn.Parameter) and x.dtype == torch.float32 and x.is_cpu and x.is_contiguous()


def activation(x: Tensor, kind: Kind, *, out: Tensor | None = None) -> Tensor:
    """The activation of each element; `serves(x)` must hold. `out` may be x itself.

    gelu: x Φ(x); gelu_tanh: x σ(2 √(2/π) (x + 0.044715 x³)); silu: x σ(x); relu: max(x, 0)
    """
    made = torch.empty_like(x) if out is None else out
    kernels = library()
    assert kernels is not None
    kernels.headway_activation(_pointer(x), _pointer(made), ctypes.c_int64(x.numel()), KINDS[kind], threads())
    return made


def gelu_backward(grad: Tensor, x: Tensor, kind: Kind = "gelu", *, out: Tensor | None = None) -> Tensor:
    """grad times the slope of gelu or gelu_tanh at x; `serves(grad, x)` must hold. `out` may be either of them."""
    made = torch.empty_like(x) if out is None else out
    kernels = library()
    assert kernels is not None
    kernels.headway_gelu_backward(
        _pointer(grad), _pointer(x), _pointer(made), ctypes.c_int64(x.numel()), KINDS[kind], threads()
    )
    return made


def _pointer(x: Tensor) -> ctypes.c_void_p:
    return ctypes.c_void_p(x.data_ptr())
