"""Causal linear attention in chunks: a running total between chunks, a triangle within, O(L) time and memory."""

from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.autograd.function import once_differentiable


def causal_product(
    q: Float[Tensor, "B G R L F"], k: Float[Tensor, "B G L F"], v: Float[Tensor, "B G L W"], *, chunk: int
) -> Float[Tensor, "B G R L W"]:
    """out_i = q_i · Σ_{j <= i} k_j v_jᵀ; the R query heads of a group share its keys and values."""
    return _CausalProduct.apply(q, k, v, chunk)


class _CausalProduct(torch.autograd.Function):
    """Nothing is kept for the backward pass but the inputs: totals are summed again, forwards for the gradient of q,
    backwards for those of k and v."""

    @staticmethod
    def forward(ctx: Any, q: Tensor, k: Tensor, v: Tensor, chunk: int) -> Tensor:
        ctx.save_for_backward(q, k, v)
        ctx.chunk = chunk
        out = q.new_empty(*q.shape[:4], v.shape[3])
        return _forwards(q, k, v, out, chunk)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        q, k, v = ctx.saved_tensors
        # d out / d q is the same product with the roles of k and v exchanged.
        grad_q = _forwards(gradient, v, k, torch.empty_like(q), ctx.chunk)
        grad_k, grad_v = _backwards(q, k, v, gradient, ctx.chunk)
        return grad_q, grad_k, grad_v, None


def _chunks(length: int, chunk: int) -> list[slice]:
    return [slice(start, min(length, start + chunk)) for start in range(0, length, chunk)]


def _forwards(q: Tensor, k: Tensor, v: Tensor, out: Tensor, chunk: int) -> Tensor:
    total = k.new_zeros(*k.shape[:2], 1, k.shape[3], v.shape[3])
    for part in _chunks(k.shape[2], chunk):
        q_part, k_part, v_part = q[:, :, :, part], k[:, :, None, part], v[:, :, None, part]
        within = (q_part @ k_part.mT).tril_()
        out[:, :, :, part] = (within @ v_part).add_(q_part @ total)
        total += k_part.mT @ v_part
    return out


def _backwards(q: Tensor, k: Tensor, v: Tensor, gradient: Tensor, chunk: int) -> tuple[Tensor, Tensor]:
    grad_k, grad_v = torch.empty_like(k), torch.empty_like(v)
    total = k.new_zeros(*k.shape[:2], k.shape[3], v.shape[3])  # Σ q_i gradient_iᵀ over later queries of all R heads
    for part in reversed(_chunks(k.shape[2], chunk)):
        q_part, g_part = q[:, :, :, part], gradient[:, :, :, part]
        k_part, v_part = k[:, :, part], v[:, :, part]
        scores = (q_part @ k_part[:, :, None].mT).tril_()
        pulls = (g_part @ v_part[:, :, None].mT).tril_()
        grad_k[:, :, part] = (pulls.mT @ q_part).sum(2).add_(v_part @ total.mT)
        grad_v[:, :, part] = (scores.mT @ g_part).sum(2).add_(k_part @ total)
        total += (q_part.mT @ g_part).sum(2)
    return grad_k, grad_v
