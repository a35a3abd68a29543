"""The Jacobian of the softmax, diag(a) − a aᵀ, and its norms, without cancellation.

    ∂a_i/∂z_j = −a_i a_j  (i ≠ j)        ∂a_i/∂z_i = a_i Σ_{j≠i} a_j

Written as a_i (1 − a_i), the diagonal is 0 as soon as a_i rounds to 1, and it is there that one wants to know how small
it is: a saturated softmax no longer answers to its scores. At most one weight of a row is above ½, so only for the
largest can 1 − a_i cancel; for that one the others are summed up. All is computed in float64.
"""

import math
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

# Halvings of an interval: more than the bits of a float64, since they start from a range of magnitudes.
_HALVINGS = 80
# The largest Frobenius norm, whatever the number of keys: of two weights ½. With s_p = Σ a_i^p the square is
# s_2 − 2 s_3 + s_2², and s_3 >= s_2², so it is at most s_2 − s_2² <= ¼. The largest spectral norm is ½ too.
LARGEST_NORM = 0.5


class _Row(NamedTuple):
    """The weights a, the place of the largest, and the others as multiples of the largest of them: a_i = second · u_i.

    So no square of them is lost while their norm is still a number.
    """

    a: Tensor
    first: Tensor
    second: Tensor
    others: Tensor  # u, with 0 in place of the largest


def softmax_jacobian(
    z: Float[Tensor, "*any"], dim: int = -1, *, dtype: torch.dtype | None = None
) -> Float[Tensor, "*rows n n"]:
    """∂ softmax(z)_i / ∂ z_j, with i and j the last two axes; the axis `dim` of z is gone.

    Every entry is right to about 1e-14 of itself. It comes back in the dtype of z unless `dtype` says otherwise: ask
    for float64 where entries below 1e-38 matter, which float32 holds with few digits, or below 1e-45, which it takes
    for 0. A score of −inf is a key that may not be seen: its row and column are 0, and all of them where nothing is
    seen. NaN or +inf has no softmax, and gives NaN.

    >>> z = torch.tensor([-3.0, 1.0, 100.0, 5.0, -1.0], dtype=torch.float64)
    >>> f"{softmax_jacobian(z)[2, 2].item():.5e}"
    '5.63774e-42'
    """
    rows = _checked(z, dim)
    if rows.shape[-1] == 0:
        return rows.new_zeros(*rows.shape, 0, dtype=dtype or z.dtype)
    row = _row(rows)
    others = row.second * row.others.sum(-1, keepdim=True)
    diagonal = row.a * (1 - row.a).scatter(-1, row.first, others)
    entries = -row.a[..., :, None] * row.a[..., None, :]
    entries.diagonal(dim1=-2, dim2=-1).copy_(diagonal)
    return entries.to(dtype or z.dtype)


def jacobian_norm(
    z: Float[Tensor, "*any"], dim: int = -1, *, kind: str = "frobenius", dtype: torch.dtype | None = None
) -> Float[Tensor, "*rows"]:
    """The norm of each row's softmax Jacobian, "frobenius" or "spectral", without making an n x n matrix.

    ‖J‖² = Σ_i a_i² ((Σ_{j≠i} a_j)² + Σ_{j≠i} a_j²). The spectral norm, its largest eigenvalue, is the root λ of
    Σ_i a_i / (a_i − λ) = 0 between the two largest weights. Both are at most ½.

    >>> jacobian_norm(torch.zeros(2)).item(), jacobian_norm(torch.zeros(4), kind="spectral").item()
    (0.5, 0.25)
    """
    if kind not in ("frobenius", "spectral"):
        raise ValueError(f"there are the norms frobenius and spectral, not {kind!r}")
    rows = _checked(z, dim)
    if rows.shape[-1] < 2:
        return rows.new_zeros(rows.shape[:-1], dtype=dtype or z.dtype)
    row = _row(rows)
    found = _frobenius(row) if kind == "frobenius" else _spectral(row.a)
    return found.to(dtype or z.dtype)


def uniform_norm(keys: Float[Tensor, "*b"]) -> Float[Tensor, "*b"]:
    """The Frobenius norm where all of n keys have the weight 1/n: √(n − 1) / n.

    >>> uniform_norm(torch.tensor([1.0, 2.0, 5.0])).tolist()
    [0.0, 0.5, 0.4]
    """
    return (keys - 1).clamp(min=0).sqrt() / keys.clamp(min=1)


def _checked(z: Tensor, dim: int) -> Tensor:
    if not z.is_floating_point() or z.ndim == 0:
        shape = tuple(z.shape)
        raise ValueError(
            f"a softmax is of floating-point scores with at least one axis, not {z.dtype} of shape {shape}"
        )
    return z.movedim(dim, -1).double()


def _row(z: Tensor) -> _Row:
    highest, first = z.max(-1, keepdim=True)
    powers = torch.exp(z - _number(highest))
    total = powers.sum(-1, keepdim=True)
    total = total.where(total != 0, 1.0)
    rest = z.scatter(-1, first, -math.inf)
    runner_up = rest.amax(-1, keepdim=True)
    second = torch.exp(runner_up - _number(highest)) / total
    return _Row(powers / total, first, second, torch.exp(rest - _number(runner_up)))


def _number(highest: Tensor) -> Tensor:
    """Only a row that sees nothing is not shifted: −inf − (−inf) would be NaN."""
    return highest.where(highest != -math.inf, 0.0)


def _frobenius(row: _Row) -> Tensor:
    """second · √(a_1² ((Σu)² + Σu²) + Σ u_i² ((1 − a_i)² + Σ_{j≠i} a_j²)), the last sum over all but the largest."""
    u, squares = row.others, row.a.square()
    largest = squares.gather(-1, row.first)[..., 0] * (u.sum(-1).square() + u.square().sum(-1))
    rest = u.square() * ((1 - row.a).square() + squares.sum(-1, keepdim=True) - squares)
    return row.second[..., 0] * (largest + rest.sum(-1)).sqrt()


def _spectral(a: Tensor) -> Tensor:
    """Halving, between the two largest weights, of the interval in which the secular equation changes its sign."""
    (high, low), first = a.topk(2, -1).values.unbind(-1), a.argmax(-1, keepdim=True)
    top, rest = high, a.scatter(-1, first, 0.0)
    lone = (low == 0) | (high == low)  # nothing in between: λ is the second weight itself
    for _ in range(_HALVINGS):
        middle = high.sqrt() * low.sqrt()  # halves magnitudes: λ may be 1e-40
        below = top / (top - middle) < (rest / (middle[..., None] - rest)).sum(-1)
        low, high = torch.where(below, middle, low), torch.where(below, high, middle)
    return torch.where(lone, a.topk(2, -1).values[..., 1], low.sqrt() * high.sqrt())
