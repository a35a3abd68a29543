"""Layers that map each row by itself: linear maps, norms, and tables of vectors for tokens and positions.

In a careful pass (`nn.context`) rows that are not finite reach no gradient but their own. A batch norm is here, too,
for comparison: it looks at all rows.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from headway.config import nearest
from headway.ops.linear import linear, linear_training
from headway.ops.nonfinite_rows import CARE, by_rows
from headway.ops.norm import batch_norm, column_moments, layer_norm, rms_norm
from headway.ops.values import readable


class Linear(nn.Linear):
    """y = x Wᵀ + b: torch's layer, by the fastest of several ways to the same numbers."""

    def forward(self, x: Float[Tensor, "*b I"]) -> Float[Tensor, "*b O"]:
        if CARE.passes:
            return by_rows(lambda rows: linear(rows, self.weight, self.bias), x)
        if torch.is_grad_enabled() and x.dtype.itemsize >= 4:
            return linear_training(x, self.weight, self.bias)
        return linear(x, self.weight, self.bias)


class LayerNorm(nn.Module):
    """Each row by its own mean and variance (arXiv:1607.06450)."""

    def __init__(self, width: int, *, eps: float = 1e-5, bias: bool = True) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width)) if bias else None

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        if CARE.passes:
            return by_rows(lambda rows: layer_norm(rows, self.weight, self.bias, eps=self.eps), x)
        if x.dtype == self.weight.dtype == torch.float32 and x.shape[-1:] == self.weight.shape:
            return F.layer_norm(x, x.shape[-1:], self.weight, self.bias, self.eps)
        return layer_norm(x, self.weight, self.bias, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}, bias={self.bias is not None}"


class UnbiasedLayerNorm(LayerNorm):
    """A layer norm without a bias (ModernBERT, arXiv:2412.13663)."""

    def __init__(self, width: int, *, eps: float = 1e-5) -> None:
        super().__init__(width, eps=eps, bias=False)


class RMSNorm(nn.Module):
    """Each row by its own root mean square (arXiv:1910.07467)."""

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        if CARE.passes:
            return by_rows(lambda rows: rms_norm(rows, self.weight, eps=self.eps), x)
        if x.dtype == self.weight.dtype == torch.float32 and x.shape[-1:] == self.weight.shape:
            return F.rms_norm(x, x.shape[-1:], self.weight, self.eps)
        return rms_norm(x, self.weight, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, eps={self.eps}"


class ZeroCenteredRMSNorm(nn.Module):
    """RMSNorm with weights 1 + offset (Gemma, arXiv:2403.08295): weight decay draws them to 1 instead of 0."""

    def __init__(self, width: int, *, eps: float = 1e-6) -> None:
        super().__init__()
        self.eps = eps
        self.offset = nn.Parameter(torch.zeros(width))

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        # In bfloat16 the sum would lose most of what a small offset says.
        weight = 1 + self.offset.to(torch.promote_types(self.offset.dtype, torch.float32))
        if CARE.passes:
            return by_rows(lambda rows: rms_norm(rows, weight, eps=self.eps), x)
        return rms_norm(x, weight, eps=self.eps)

    def extra_repr(self) -> str:
        return f"{len(self.offset)}, eps={self.eps}"


class LayerScale(nn.Module):
    """x · w, one learned number a channel, all `start` at first (arXiv:2103.17239)."""

    def __init__(self, width: int, *, start: float) -> None:
        super().__init__()
        self.start = start
        self.weight = nn.Parameter(torch.full((width,), start))

    def forward(self, x: Float[Tensor, "*b D"]) -> Float[Tensor, "*b D"]:
        return by_rows(lambda rows: rows * self.weight, x) if CARE.passes else x * self.weight

    def extra_repr(self) -> str:
        return f"{len(self.weight)}, start={self.start}"


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


NORMS: dict[str, type[nn.Module]] = {
    "layer": LayerNorm, "layer_unbiased": UnbiasedLayerNorm, "rms": RMSNorm, "rms_zero_centered": ZeroCenteredRMSNorm,
    "batch": BatchNorm,
}  # fmt: skip


def make_norm(kind: str, width: int, *, eps: float | None = None) -> nn.Module:
    """The normalisation of that kind, or none, which hands its input on; eps None is its own.

    >>> make_norm("rms", 7)
    RMSNorm(7, eps=1e-06)
    """
    if kind == "none":
        return nn.Identity()
    if kind not in NORMS:
        kinds = [*NORMS, "none"]
        raise ValueError(f"there is no norm {kind!r}{nearest(kind, kinds)}; there are {', '.join(kinds)}")
    return NORMS[kind](width) if eps is None else NORMS[kind](width, eps=eps)


@torch.no_grad()
def normal(weight: Tensor, *, std: float, generator: torch.Generator | None = None) -> None:
    """Independent draws from N(0, std²); nothing on meta, where torch would import its compiler to draw nothing."""
    if weight.is_meta:
        return
    weight.normal_(0.0, std, generator=generator)


def embedding(count: int, width: int) -> nn.Embedding:
    """A table of vectors, drawn from N(0, 1) as torch draws it, or without memory on meta."""
    weight = torch.empty(count, width)
    normal(weight, std=1.0)
    return nn.Embedding(count, width, _weight=weight)


class LearnedPositions(nn.Module):
    """x + weight[offset + positions]: one learned vector per position, and none past the table.

    The first `offset` rows belong to no position (BART and OPT keep them).
    """

    def __init__(
        self,
        length: int,
        width: int,
        *,
        offset: int = 0,
        std: float = 0.02,
        generator: torch.Generator | None = None,
    ) -> None:
        super().__init__()
        self.offset = offset
        self.weight = nn.Parameter(torch.empty(length + offset, width))
        normal(self.weight, std=std, generator=generator)

    def forward(self, x: Float[Tensor, "B L D"], positions: Int[Tensor, "*b L"]) -> Float[Tensor, "B L D"]:
        check_range(positions, len(self.weight) - self.offset, "learned positions")
        return add_positions(x, F.embedding(positions + self.offset if self.offset else positions, self.weight))

    def extra_repr(self) -> str:
        return "{}, {}".format(*self.weight.shape)


def add_positions(x: Float[Tensor, "B L D"], embedding: Float[Tensor, "*b L E"]) -> Float[Tensor, "B L D"]:
    """x + embedding, in the dtype of x; refuses what broadcasting would let through."""
    if embedding.shape[-2:] != x.shape[-2:] or embedding.shape[:-2] not in ((), (1,), x.shape[:1]):
        shapes = f"{tuple(embedding.shape)} do not fit tokens of shape {tuple(x.shape)}"
        raise ValueError(f"position vectors of shape {shapes}: give each token its own position and the same width")
    return x + embedding.to(x.dtype)


def check_range(positions: Int[Tensor, "*b L"], length: int, things: str) -> None:
    """Refuse positions that a table does not have."""
    if positions.numel() == 0 or not readable(positions):
        return
    low, high = (int(bound) for bound in positions.aminmax())
    if low < 0:
        raise ValueError(f"position {low} is before the table of {length} {things}, which begins at position 0")
    if high >= length:
        raise ValueError(
            f"position {high} is past the table of {length} {things}; shorten the input to {length} tokens, or build "
            f"the table for at least {high + 1}"
        )
