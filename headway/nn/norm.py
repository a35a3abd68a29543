"""Normalisation layers: the parameters of `ops.norm`."""

from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.config import nearest
from headway.ops.norm import batch_norm, column_moments, layer_norm, rms_norm


class LayerNorm(nn.Module):
    """Each row by its own mean and variance (arXiv:1607.06450)."""

    def __init__(self, width: int, *, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        return layer_norm(x, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}, bias={self.bias is not None}"


class RMSNorm(nn.Module):
    """Each row by its own root mean square (arXiv:1910.07467)."""

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        return rms_norm(x, self.weight, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class BatchNorm(nn.Module):
    """Each column by its mean and variance over all rows (arXiv:1502.03167), for comparison.

    In training the moments are those of the batch, padding and future included, and a running record follows them:
    record <- (1 - momentum) record + momentum · moment, with the unbiased variance. In eval the record serves.
    """

    def __init__(self, width: int, *, eps: float = 1e-5, momentum: float = 0.1) -> None:
        super().__init__()
        self.eps, self.momentum = eps, momentum
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.mean: Tensor
        self.variance: Tensor
        self.register_buffer("mean", torch.zeros(width))
        self.register_buffer("variance", torch.ones(width))

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        mean, variance = self.mean, self.variance
        if self.training:
            mean, variance = column_moments(x)
            self._record(mean.detach(), variance.detach(), rows=x.numel() // x.shape[-1])
        return batch_norm(x, mean, variance, self.weight, self.bias, eps=self.eps)

    def _record(self, mean: Float[Tensor, " D"], variance: Float[Tensor, " D"], *, rows: int) -> None:
        self.mean.lerp_(mean.to(self.mean.dtype), self.momentum)
        self.variance.lerp_((variance * rows / (rows - 1)).to(self.variance.dtype), self.momentum)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}, momentum={self.momentum}"


NORMS: dict[str, Callable[..., nn.Module]] = {"layer": LayerNorm, "rms": RMSNorm, "batch": BatchNorm}


def make_norm(kind: str, width: int, *, eps: float | None = None) -> nn.Module:
    """The normalisation of that kind: layer, rms, batch, or none (which hands its input on); eps None is its own.

    >>> make_norm("rms", 7)
    RMSNorm(7, eps=1e-06)
    """
    if kind == "none":
        return nn.Identity()
    if kind not in NORMS:
        kinds = [*NORMS, "none"]
        raise ValueError(f"there is no norm {kind!r}{nearest(kind, kinds)}; there are {', '.join(kinds)}")
    return NORMS[kind](width) if eps is None else NORMS[kind](width, eps=eps)
