"""Multiply-adds of matrix products: one for each term of each inner product; what is added afterwards is a FLOP."""

from dataclasses import dataclass
from math import prod

from torch import Tensor

from headway.cost.trace.axes import Axes
from headway.cost.trace.call import Called
from headway.steps import Each, Product, Step


@dataclass(frozen=True)
class Work:
    """What one operation does: multiply-adds (executed and useful ones where they differ), and FLOPs beside them."""

    kind: str
    macs: int = 0
    other: int = 0
    steps: tuple[Step, ...] = ()
    shape: tuple[int, ...] = ()
    executed: int | None = None
    useful: int | None = None


def product(called: Called, axes: Axes) -> Work:
    """Two matrices, vectors, or stacks of matrices; and something added to the result."""
    first, second, added = OPERANDS[called.name]
    left, right = called.bound[first], called.bound[second]
    if called.name == "linear":
        right = right.mT
    result, inner = called.outputs[0], left.shape[-1]
    where = axes.of_product(left, right)
    plus = added is not None and called.bound.get(added) is not None
    steps = (Product(inner, where), *((Each(1),) if plus else ()))
    learned = any(axes.storages.depth(tensor) is None for tensor in (left, right))
    shape = _shape(left, right, result)
    macs = prod(shape)
    return Work("product" if learned else "attention", macs, result.numel() * plus, steps, shape)


def _shape(left: Tensor, right: Tensor, result: Tensor) -> tuple[int, int, int, int]:
    """(count, rows, inner, columns)."""
    columns = right.shape[-1] if right.dim() > 1 else 1
    count = left.shape[0] if left.dim() == 3 and right.dim() == 3 else 1
    inner = left.shape[-1]
    rows = left.numel() // max(1, count * inner)
    return count, rows, inner, columns


def grouped(called: Called, axes: Axes) -> Work:
    """Rows that belong to several matrices (experts), one product for each; every row is multiplied once."""
    left, right = called.bound["self"], called.bound["mat2"]
    rows = left.shape[-2] * (left.shape[0] if left.dim() == right.dim() == 3 else 1)
    shape = (1, rows, left.shape[-1], right.shape[-1])
    return Work("product", prod(shape), steps=(Product(left.shape[-1], axes.of_product(left, right)),), shape=shape)


def grouped_result(called: Called) -> Tensor:
    """What torch's own kernel for shapes gives in one type only: (rows, columns), or one matrix for each expert."""
    left, right, ends = called.bound["self"], called.bound["mat2"], called.bound["offs"]
    shape = (left.shape[-2], right.shape[-1])
    stacked = left.dim() == right.dim()
    count = (ends.shape[0] if left.dim() == 2 else left.shape[0]) if stacked else 0
    return left.new_empty((count, *shape) if stacked else shape)


# operation -> the names of its two matrices, and of what is added
OPERANDS: dict[str, tuple[str, str, str | None]] = {
    "mm": ("self", "mat2", None),
    "bmm": ("self", "mat2", None),
    "addmm": ("mat1", "mat2", "self"),
    "_addmm_activation": ("mat1", "mat2", "self"),
    "baddbmm": ("batch1", "batch2", "self"),
    "addbmm": ("batch1", "batch2", "self"),
    "mv": ("self", "vec", None),
    "addmv": ("mat", "vec", "self"),
    "dot": ("self", "tensor", None),
    "vdot": ("self", "other", None),
    "linear": ("input", "weight", "bias"),
    "mkldnn_linear": ("self", "weight", "bias"),
    "_scaled_mm": ("self", "mat2", "bias"),
    "_int_mm": ("self", "mat2", None),
}
