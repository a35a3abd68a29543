"""Products and attention as our models call them, to be timed: work is multiply-adds.

Each function takes a precision and sizes, and gives the work of a call and the call.
"""

from collections import deque
from collections.abc import Callable
from functools import lru_cache
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from headway.ops.attention import attend
from headway.ops.guard import finite
from headway.ops.linear import gradients, linear

Made = tuple[float, Callable[[], object]]
NEAR, FAR = float(2**20), float(3 * 2**25)  # bytes of weights used in turn: one of them, or far beyond a cache
HEADS = 4
INNER = 256  # inputs of a head


def filled(*shape: float | int, dtype: torch.dtype, learns: bool = False) -> Tensor:
    return torch.full([int(size) for size in shape], 0.01, dtype=dtype, requires_grad=learns)


def product(dtype: torch.dtype, *, rows: float, side: float, held: float) -> Made:
    """x Wᵀ without gradients, the weights taken in turn from so many bytes."""
    x, bias, weights = filled(rows, side, dtype=dtype), filled(side, dtype=dtype), cycle(_weights(dtype, side, held))
    return rows * side * side, lambda: linear(x, next(weights), bias)


def product_learning(dtype: torch.dtype, *, rows: float, side: float, held: float) -> Made:
    """The same with gradients wanted: x is looked at first, as a layer does."""
    x, bias = filled(rows, side, dtype=dtype, learns=True), filled(side, dtype=dtype, learns=True)
    weights = cycle([weight.detach().requires_grad_() for weight in _weights(dtype, side, held)])
    return rows * side * side, lambda: finite(x) and linear(x, next(weights), bias)


def product_backward(dtype: torch.dtype, *, rows: float, side: float, held: float) -> Made:
    """Gradients of x, W and b; those of the weights are kept as long as a model keeps them."""
    x, weights = filled(rows, side, dtype=dtype), _weights(dtype, side, held)
    kept, turn = deque(maxlen=len(weights)), cycle(weights)
    return 2 * rows * side * side, lambda: kept.append(gradients(x, x, next(turn))[1])


def _weights(dtype: torch.dtype, side: float, held: float) -> list[Tensor]:
    """One map, or as many as so many bytes hold."""
    size = int(side)
    pieces = _store(dtype, held).split(size * size) if held > NEAR else (filled(size * size, dtype=dtype),)
    return [piece.view(size, size) for piece in pieces if len(piece) == size * size]


@lru_cache(maxsize=1)
def _store(dtype: torch.dtype, bytes: float) -> Tensor:
    return filled(bytes / dtype.itemsize, dtype=dtype)


def wide(dtype: torch.dtype, *, rows: float, columns: float) -> Made:
    """A head over a vocabulary: its weights are beyond every cache, and so may its logits be."""
    x, weight = filled(rows, INNER, dtype=dtype), filled(columns, INNER, dtype=dtype)
    return rows * INNER * columns, lambda: linear(x, weight)


def wide_backward(dtype: torch.dtype, *, rows: float, columns: float) -> Made:
    """Its gradients, as `ops.loss` takes them: in float32, those of the weights added to what is there."""
    shapes = (rows, INNER), (columns, INNER), (rows, columns)
    x, weight, slope = (filled(*shape, dtype=torch.float32) for shape in shapes)
    total = torch.zeros_like(weight)
    return 2 * rows * INNER * columns, lambda: (slope @ weight, total.addmm_(slope.mT, x))


def batched(dtype: torch.dtype, *, side: float) -> Made:
    """Many small products at once."""
    a = filled(max(4, min(64, 2**18 / side**2)), side, side, dtype=dtype)
    return len(a) * side**3, lambda: a @ a


def attention(*, learns: bool = False, written: bool = False) -> Callable[..., Made]:
    """The fused kernel; with a bias that learns, scores are `written` out."""

    def make(dtype: torch.dtype, *, queries: float, keys: float, width: float) -> Made:
        q, k, v = (_heads(dtype, length, width, learns) for length in (queries, keys, keys))
        bias = filled(1, HEADS, queries, keys, dtype=dtype, learns=learns) if written else None
        return 2 * HEADS * queries * keys * width, lambda: attend(q, k, v, bias=bias)

    return make


def attention_backward(*, written: bool = False) -> Callable[..., Made]:
    """Five products for the two, since scores are made once more; four where they were kept."""
    forward = attention(learns=True, written=written)

    def make(dtype: torch.dtype, **sizes: float) -> Made:
        work, call = forward(dtype, **sizes)
        return (2 if written else 2.5) * work, backward(call())

    return make


def _heads(dtype: torch.dtype, positions: float, width: float, learns: bool) -> Tensor:
    """[1, H, positions, width] with heads beside one another in memory, as projections leave them."""
    rows = filled(1, positions, HEADS * width, dtype=dtype, learns=learns)
    return rows.view(1, int(positions), HEADS, int(width)).transpose(1, 2)


def backward(out: object) -> Callable[[], object]:
    """The backward pass of a result, to be called again and again."""
    assert isinstance(out, Tensor)
    leaves, slope = leaves_of(out), torch.ones_like(out)
    return lambda: torch.autograd.grad(out, leaves, slope, retain_graph=True)


def leaves_of(out: Tensor) -> list[Tensor]:
    """The tensors that a result was made of and that want gradients."""
    found: list[Tensor] = []
    left: list[Any] = [out.grad_fn]
    seen: set[Any] = {None}
    while left:
        node = left.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = getattr(node, "variable", None)
        found += [] if leaf is None else [leaf]
        left += [inner for inner, _ in node.next_functions]
    return found
