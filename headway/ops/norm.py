"""Normalisation: each function beside the equation it must equal.

Statistics are taken in at least float32. The equations work in float64 throughout; they are there to be read and
to test against. At eps = 0 a row (a column) without variance is 0/0: NaN, as it should be.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from headway.config import nearest
from headway.sizes import Number, Operation, other
from headway.steps import POSITIONS, WIDTH, Each, Step, Sum


def layer_norm(
    x: Float[Tensor, "*b D"],
    weight: Float[Tensor, " D"] | None = None,
    bias: Float[Tensor, " D"] | None = None,
    *,
    eps: float = 1e-5,
) -> Float[Tensor, "*b D"]:
    """Each row to mean 0 and variance 1 over its own D entries, then scaled and moved (arXiv:1607.06450).

    >>> layer_norm(torch.tensor([[1.0, 3.0]]), eps=0.0).tolist()
    [[-1.0, 1.0]]
    """
    _check(x, weight, bias, eps=eps)
    # torch's bfloat16 kernel takes x·r - μ·r: constant rows of 1,000,000 come out off by 12.
    wide = _common_dtype(torch.float32, x, weight, bias)
    return F.layer_norm(x.to(wide), x.shape[-1:], _to(weight, wide), _to(bias, wide), eps).to(x.dtype)


def layer_norm_equation(
    x: Float[Tensor, "*b D"],
    weight: Float[Tensor, " D"] | None = None,
    bias: Float[Tensor, " D"] | None = None,
    *,
    eps: float = 1e-5,
) -> Float[Tensor, "*b D"]:
    """y = γ (x - μ) / √(σ² + ε) + β, with μ and σ² of the row."""
    row = x.double()
    centred = row - row.mean(dim=-1, keepdim=True)
    variance = centred.square().mean(dim=-1, keepdim=True)
    return _affine(centred / (variance + eps).sqrt(), weight, bias).to(x.dtype)


def rms_norm(
    x: Float[Tensor, "*b D"], weight: Float[Tensor, " D"] | None = None, *, eps: float = 1e-6
) -> Float[Tensor, "*b D"]:
    """Each row to mean square 1 over its own D entries, then scaled (Zhang & Sennrich 2019, arXiv:1910.07467).

    >>> rms_norm(torch.tensor([[2.0, -2.0]]), eps=0.0).tolist()
    [[1.0, -1.0]]
    """
    _check(x, weight, eps=eps)
    wide = _common_dtype(x.dtype, weight)
    return F.rms_norm(x.to(wide), x.shape[-1:], _to(weight, wide), eps).to(x.dtype)


def rms_norm_equation(
    x: Float[Tensor, "*b D"], weight: Float[Tensor, " D"] | None = None, *, eps: float = 1e-6
) -> Float[Tensor, "*b D"]:
    """y = γ x / √(mean(x²) + ε), with the mean of the row."""
    row = x.double()
    return _affine(row / (row.square().mean(dim=-1, keepdim=True) + eps).sqrt(), weight, None).to(x.dtype)


def column_moments(x: Float[Tensor, "*b D"]) -> tuple[Float[Tensor, " D"], Float[Tensor, " D"]]:
    """Mean and (biased) variance of each column, over all axes but the last.

    >>> [moment.tolist() for moment in column_moments(torch.tensor([[1.0, 5.0], [3.0, 5.0]]))]
    [[2.0, 5.0], [1.0, 0.0]]
    """
    rows = x.reshape(-1, x.shape[-1]).to(torch.promote_types(x.dtype, torch.float32))
    if len(rows) < 2:
        raise ValueError(f"the variance of a column needs at least 2 rows; shape {tuple(x.shape)} has {len(rows)}")
    variance, mean = torch.var_mean(rows, dim=0, correction=0)
    return mean, variance


def batch_norm(
    x: Float[Tensor, "*b D"],
    mean: Float[Tensor, " D"],
    variance: Float[Tensor, " D"],
    weight: Float[Tensor, " D"] | None = None,
    bias: Float[Tensor, " D"] | None = None,
    *,
    eps: float = 1e-5,
) -> Float[Tensor, "*b D"]:
    """Each column by a given mean and variance: `column_moments` in training, a record of them afterwards.

    y = γ (x - μ) / √(σ² + ε) + β, with μ and σ² of the column (Ioffe & Szegedy 2015, arXiv:1502.03167)

    >>> batch_norm(torch.tensor([[5.0]]), torch.tensor([1.0]), torch.tensor([4.0]), eps=0.0).tolist()
    [[2.0]]
    """
    _check(x, mean, variance, weight, bias, eps=eps)
    wide = torch.promote_types(x.dtype, torch.float32)
    return _affine((x.to(wide) - mean) / (variance.to(wide) + eps).sqrt(), weight, bias).to(x.dtype)


def _affine(x: Tensor, weight: Tensor | None, bias: Tensor | None) -> Tensor:
    scaled = x if weight is None else x * weight
    return scaled if bias is None else scaled + bias


def _check(x: Tensor, *vectors: Tensor | None, eps: float) -> None:
    if not eps >= 0:
        raise ValueError(f"eps is added to a variance and must be 0 or more, not {eps}")
    for vector in vectors:
        if vector is not None and vector.shape != x.shape[-1:]:
            raise ValueError(
                f"a normalisation of width {vector.shape[-1]} got rows of width {x.shape[-1]}, shape {tuple(x.shape)}"
            )


def _common_dtype(dtype: torch.dtype, *tensors: Tensor | None) -> torch.dtype:
    """The dtype that holds them all: torch's kernels want one, and warn or refuse otherwise."""
    for tensor in tensors:
        dtype = dtype if tensor is None else torch.promote_types(dtype, tensor.dtype)
    return dtype


def _to(tensor: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    return None if tensor is None else tensor.to(dtype)


@dataclass(frozen=True)
class NormCost:
    """FLOPs an entry (the few of a whole row, and of weights as 1 + offset, are left out), steps, parameters."""

    flops: int
    steps: Callable[[Number, str], tuple[Step, ...]]  # (terms, what they are summed over)
    weight: bool = True
    bias: bool = False


def _centred(last: int) -> Callable[[Number, str], tuple[Step, ...]]:
    return lambda terms, over: (Sum(terms, over), Each(3), Sum(terms, over), Each(last))


def _by_squares(terms: Number, over: str) -> tuple[Step, ...]:
    return (Each(1), Sum(terms, over), Each(5))


# layer and batch: sum, subtract, square, sum, multiply, γ, β (unbiased: no β); rms: square, sum, multiply, γ.
COSTS: dict[str, NormCost] = {
    "layer": NormCost(7, _centred(6), bias=True),
    "layer_unbiased": NormCost(6, _centred(5)),
    "rms": NormCost(4, _by_squares),
    "rms_zero_centered": NormCost(4, _by_squares),
    "batch": NormCost(7, _centred(6), bias=True),
    "none": NormCost(0, lambda terms, over: (), weight=False),
}
RECORDED = 4  # of a batch norm in use, whose moments are a record: subtract, multiply, γ, β


def norm_steps(kind: str, terms: Number, *, over: str = WIDTH) -> tuple[Step, ...]:
    """layer and batch: sum and divide; subtract, square; sum; divide, + ε, root, multiply, γ, β. rms: without mean, β.

    >>> from headway.steps import TREE, depth_of
    >>> depth_of(norm_steps("layer", 8), TREE), depth_of(norm_steps("rms", 8), TREE)
    (15, 9)
    """
    return _cost(kind).steps(terms, over)


def _cost(kind: str) -> NormCost:
    if kind not in COSTS:
        raise ValueError(
            f"the cost of norm {kind!r} is not known{nearest(kind, COSTS)}: known are {', '.join(COSTS)}; "
            "headway.price of the module itself traces it"
        )
    return COSTS[kind]


def norm_price(kind: str, rows: Number, width: Number, *, training: bool = False) -> Operation:
    """The norm of that kind over rows of this width (batch: over the rows while training, by its record in use)."""
    cost, recorded = _cost(kind), kind == "batch" and not training
    flops = other((RECORDED if recorded else cost.flops) * rows * width)
    steps = cost.steps(rows, POSITIONS) if kind == "batch" else cost.steps(width, WIDTH)
    return Operation(
        "norm",
        flops,
        flops + flops,
        steps=(Each(RECORDED),) if recorded else steps,
        weights=width if cost.weight else 0,
        biases=width if cost.bias else 0,
        reads=rows * width,
        writes=rows * width,
    )
