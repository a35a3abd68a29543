"""Multiply-adds of what is a matrix product inside: convolutions, fused attention, recurrent layers in one kernel.

The backward pass of a convolution costs its forward once for each gradient that is asked for, whatever its groups: the
counter that comes with torch takes the weights' gradient of a grouped one `groups` times too large.
"""

from math import prod

from torch import Tensor

from headway.cost.trace.axes import Axes
from headway.cost.trace.call import Called
from headway.cost.trace.products import Work
from headway.ops.attention.cost import PER_SCORE
from headway.steps import POSITIONS, WIDTH, Each, Product, Step, softmax_steps


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
