"""What keeps NaN and inf of hidden tokens out of a layer: in outputs, and in the gradients of weights."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

from headway.ops.attention.guard import finite
from headway.ops.linear import linear


def zero_padding(x: Float[Tensor, "B L D"], keep: Bool[Tensor, "b L"] | None) -> Float[Tensor, "B L D"]:
    """x with its padded rows set to 0: 0 x NaN in xᵀ · gradient would otherwise reach the weights."""
    if keep is None or keep.shape[-1] != x.shape[1]:
        return x
    return x.masked_fill(~keep[..., None], 0)


class Projection(nn.Linear):
    """A linear map whose weights hear nothing of rows that got no gradient, even where such a row holds NaN."""

    def forward(self, x: Float[Tensor, "*b I"]) -> Float[Tensor, "*b O"]:
        if torch.is_grad_enabled() and not finite(x):
            return _Guarded.apply(x, self.weight, self.bias)
        return linear(x, self.weight, self.bias)


class _Guarded(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        ctx.save_for_backward(x, weight)
        return F.linear(x, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, Tensor | None]:
        x, weight = ctx.saved_tensors
        silent = (gradient == 0).all(-1, keepdim=True)
        heard = x.masked_fill(silent, 0).flatten(0, -2)
        rows = gradient.flatten(0, -2)
        return gradient @ weight, rows.mT @ heard, rows.sum(0) if ctx.needs_input_grad[2] else None
