"""Multiply-adds of matrix products, and of what is one inside: convolutions, fused attention, recurrent kernels.

One multiply-add for each term of each inner product; what is added afterwards is a FLOP. The backward pass of a
convolution costs its forward once for each gradient that is asked for, whatever its groups: the counter that comes with
torch takes the weights' gradient of a grouped one `groups` times too large.
"""

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from torch import Tensor

from headway.cost.trace.call import Called
from headway.cost.trace.storages import Axes
from headway.ops.attention.cost import PER_SCORE
from headway.steps import POSITIONS, WIDTH, Each, Product, Step, softmax_steps


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


def convolution(called: Called, axes: Axes) -> Work:
    """Each output takes kernel × channels-of-a-group terms (of a transposed one, each input gives as many)."""
    x, weight, result = called.bound["input"], called.bound["weight"], called.outputs[0]
    groups, transposed = called.bound.get("groups") or 1, bool(called.bound.get("transposed"))
    macs = convolution_macs(x, weight, result, transposed=transposed)
    bias = called.bound.get("bias") is not None
    inner = prod(weight.shape[1:]) if not transposed else weight.shape[0] // groups * prod(weight.shape[2:])
    columns = (weight.shape[1] if transposed else weight.shape[0] // groups) or 1
    shape = (groups, macs // max(1, groups * inner * columns), inner, columns)
    steps = (Product(inner, WIDTH), *((Each(1),) if bias else ()))
    return Work("convolution", macs, result.numel() * bias, steps, shape)


def convolution_macs(x: Tensor, weight: Tensor, result: Tensor, *, transposed: bool) -> int:
    places = (x if transposed else result).shape[2:]
    return x.shape[0] * prod(places) * weight.numel()


def convolution_backward(called: Called, axes: Axes) -> Work:
    x, weight, gradient = called.bound["input"], called.bound["weight"], called.bound["grad_output"]
    once = convolution_macs(x, weight, gradient, transposed=bool(called.bound["transposed"]))
    return Work("convolution", once * sum(bool(asked) for asked in called.bound["output_mask"][:2]))


def attention(called: Called, axes: Axes) -> Work:
    """A fused softmax attention: scores over K, scale, softmax over M, weighted sum over M."""
    q, k, v = (called.bound[name] for name in ("query", "key", "value"))
    scores = prod(q.shape[:-1]) * k.shape[-2]
    macs = scores * (q.shape[-1] + v.shape[-1])
    steps = (Product(q.shape[-1], WIDTH), Each(1), *softmax_steps(k.shape[-2]), Product(k.shape[-2], POSITIONS))
    shape = (prod(q.shape[:-2]), q.shape[-2], q.shape[-1], k.shape[-2])
    return Work("attention", macs, PER_SCORE * scores, steps, shape)


def attention_backward(called: Called, axes: Axes) -> Work:
    """Four products for the two forwards; the kernel makes the scores once more."""
    q, k, v = (called.bound[name] for name in ("query", "key", "value"))
    scores, width = prod(q.shape[:-1]) * k.shape[-2], q.shape[-1] + v.shape[-1]
    return Work("attention", 2 * scores * width, executed=scores * (2 * width + q.shape[-1]))


def recurrence(called: Called, axes: Axes) -> Work:
    """One layer of an LSTM as one kernel: the gates of all inputs at once, then step by step."""
    inward, onward = called.bound["weight0"], called.bound["weight1"]
    (length, batch, width), (gates, hidden) = called.bound["input"].shape, onward.shape
    macs = length * batch * (inward.numel() + onward.numel())
    again: tuple[Step, ...] = (Product(hidden, WIDTH), Each(1))
    steps = (Product(width, WIDTH), Each(1), *again * (length - 1), Each(9 * length))
    other = length * batch * (3 * gates + 13 * hidden + 5 * hidden)  # biases and sum; four curves; cell and output
    return Work("product", macs, other, steps, (length, batch, width + hidden, gates))


def recurrence_backward(called: Called, axes: Axes) -> Work:
    """Once for each weight, once more for what needs a gradient; the kernel computes them all."""
    x, start = called.bound["input"], called.bound["hx_"]
    inward, onward = called.bound["weight1"].numel(), called.bound["weight2"].numel()
    length, batch = x.shape[:2]
    every = 2 * length * batch * (inward + onward)
    spared = length * batch * inward * (not x.requires_grad) + batch * onward * (not start.requires_grad)
    return Work("product", every - spared, executed=every)


CONVOLUTIONS = ("convolution", "_convolution", "convolution_overrideable", "cudnn_convolution", "mkldnn_convolution",
                "_slow_conv2d_forward")  # fmt: skip
KERNELS = ("flash_attention_for_cpu", "flash_attention", "efficient_attention", "cudnn_attention",
           "fused_attention_overrideable")  # fmt: skip

PRODUCTS: dict[str, Callable[[Called, Axes], Work]] = {
    **dict.fromkeys(OPERANDS, product),
    "_grouped_mm": grouped,
    **dict.fromkeys(CONVOLUTIONS, convolution),
    "convolution_backward": convolution_backward,
    **{f"_scaled_dot_product_{kernel}": attention for kernel in KERNELS},
    **{f"_scaled_dot_product_{kernel}_backward": attention_backward for kernel in KERNELS},
    "mkldnn_rnn_layer": recurrence,
    "mkldnn_rnn_layer_backward": recurrence_backward,
}

# operations -> the name of what is added at the end
ADDED: dict[str, str] = {name: added for name, (_, _, added) in OPERANDS.items() if added is not None}
ADDED |= dict.fromkeys(("addcmul", "addcdiv", "addr"), "self")

# operations that torch cannot run on shapes alone -> their result
STAND_INS: dict[str, Callable[[Called], Tensor]] = {"_grouped_mm": grouped_result}
