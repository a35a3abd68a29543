"""Softmax attention of short texts by the compiled kernels, forwards and backwards.

All scores of a head stay in the processor's cache. torch's kernel is made for long texts: at 64 tokens most of its time
goes into products of a few rows, and under causality it computes all pairs (docs/log.md). Both keep the same for the
backward pass.
"""

import ctypes

import torch
from torch import Tensor

from headway.native.build import library, threads

LONGEST = 256  # tokens: two tables of scores of one head are then 512 KB, half of a core's second cache
FILLS = 16  # widths that fill the vectors of every instruction set


class _Call(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("batch", "heads", "queries", "keys", "width", "causal")),
        ("scale", ctypes.c_float),
    ]


def serves(q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool) -> bool:
    """Whether the kernel takes these: float32 on the CPU, a few tokens, one width that fills vectors, as many key heads
    as query heads."""
    return (
        q.dtype == k.dtype == v.dtype == torch.float32 and q.is_cpu
        and q.shape[2] <= LONGEST and k.shape[2] <= LONGEST and q.shape[3] % FILLS == 0 and q.shape[3] > 0
        and q.shape[:2] == k.shape[:2] and q.shape[3] == k.shape[3] and k.shape == v.shape
        and q.stride(3) == k.stride(3) == v.stride(3) == 1 and 0 not in k.shape and 0 not in q.shape
        and scale > 0 and (not causal or q.shape[2] == k.shape[2]) and library() is not None
    )  # fmt: skip


def attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float, causal: bool) -> tuple[Tensor, Tensor]:
    """softmax(scale q kᵀ) v, and the logarithm of each row's sum of exponentials; `serves` must hold.

    causal: query i sees the keys up to i.
    """
    out, logs = _heads_last(q), q.new_empty(q.shape[:3])
    kernels = library()
    assert kernels is not None
    kernels.headway_short_attention(
        *_described(q, k, scale, causal, (q, k, v, out)), ctypes.c_void_p(logs.data_ptr()), threads()
    )
    return out, logs


def attention_backward(
    gradient: Tensor, q: Tensor, k: Tensor, v: Tensor, out: Tensor, logs: Tensor, *, scale: float, causal: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """The gradients of q, k and v from that of out, and what `attention` returned."""
    gradient = gradient if gradient.stride(3) == 1 else gradient.contiguous()
    found = _heads_last(q), _heads_last(k), _heads_last(v)
    kernels = library()
    assert kernels is not None
    tensors = (q, k, v, out, gradient, *found)
    kernels.headway_short_attention_backward(
        *_described(q, k, scale, causal, tensors), ctypes.c_void_p(logs.data_ptr()), threads()
    )
    return found


def _heads_last(like: Tensor) -> Tensor:
    """[B, H, L, K] in memory as [B, L, H, K]: heads are joined without a copy."""
    batch, heads, length, width = like.shape
    return like.new_empty(batch, length, heads, width).transpose(1, 2)


def _described(q: Tensor, k: Tensor, scale: float, causal: bool, tensors: tuple[Tensor, ...]) -> tuple:
    batch, heads, queries, width = q.shape
    call = _Call(batch, heads, queries, k.shape[2], width, causal, scale)
    pointers = (ctypes.c_void_p * len(tensors))(*(x.data_ptr() for x in tensors))
    strides = (ctypes.c_int64 * (3 * len(tensors)))(*(step for x in tensors for step in x.stride()[:3]))
    return ctypes.byref(call), pointers, strides
