"""What is timed to know a machine: each kernel as our models call it, over the sizes that decide its speed.

Each function takes a precision and sizes, and returns the work of a call and the call. The work of products and
attention is multiply-adds; that of norms, activations, sums, lookups, losses and the optimiser is bytes. Results are
allocated anew in each call, as in a model: getting memory from the system is a good part of what a large tensor costs.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial
from itertools import cycle
from math import ceil
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.cost.time.kernels import Axes
from headway.ops.activation import gelu_tanh
from headway.ops.attention import attend
from headway.ops.linear import gradients, linear
from headway.ops.loss import linear_cross_entropy
from headway.ops.nonfinite_rows import finite
from headway.ops.norm import layer_norm

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


# Curves by their FLOPs an entry, which tell the cheap from the dear.
CURVES: dict[float, Callable[[Tensor], Tensor]] = {1.0: F.relu, 5.0: F.gelu, 9.0: gelu_tanh}


def stream(function: Callable[[Tensor], Tensor], *, learns: bool = False, width: int = 256) -> Callable[..., Made]:
    """Entry by entry or row by row: bytes are those of input and output; backward, of the slopes."""

    def make(dtype: torch.dtype, *, bytes: float) -> Made:
        rows = max(1, int(bytes / (2 * width * dtype.itemsize)))
        x = filled(rows, width, dtype=dtype, learns=learns)
        work = 2.0 * x.numel() * dtype.itemsize
        return (work, backward(function(x))) if learns else (work, lambda: function(x))

    return make


def curve(*, learns: bool = False) -> Callable[..., Made]:
    """An activation of so many FLOPs an entry."""

    def make(dtype: torch.dtype, *, bytes: float, flops: float) -> Made:
        return stream(CURVES[flops], learns=learns)(dtype, bytes=bytes)

    return make


def norm(x: Tensor) -> Tensor:
    weight = torch.ones(x.shape[-1], dtype=x.dtype, requires_grad=x.requires_grad)
    return layer_norm(x, weight, torch.zeros_like(weight, requires_grad=x.requires_grad))


def memory(dtype: torch.dtype, *, bytes: float) -> Made:
    """One tensor into another that exists: what memory can do."""
    x, y = (filled(max(1, bytes / (2 * dtype.itemsize)), dtype=dtype) for _ in range(2))
    return 2.0 * x.numel() * dtype.itemsize, lambda: y.copy_(x)


def add(dtype: torch.dtype, *, bytes: float) -> Made:
    """x + y: three tensors of so many bytes in all."""
    x, y = (filled(max(1, bytes / (3 * dtype.itemsize)), dtype=dtype) for _ in range(2))
    return 3.0 * x.numel() * dtype.itemsize, lambda: x + y


def lookup(dtype: torch.dtype, *, bytes: float) -> Made:
    """Rows of a table far larger than a cache."""
    table = torch.ones(2**15, 256, dtype=dtype)
    rows = max(1, int(bytes / (2 * 256 * dtype.itemsize)))
    places = torch.randint(0, len(table), (rows,), generator=torch.Generator().manual_seed(5))
    return 2.0 * rows * 256 * dtype.itemsize, lambda: F.embedding(places, table)


def lookup_backward(dtype: torch.dtype, *, bytes: float) -> Made:
    """The gradient of a table of so many bytes is a table of the same size."""
    table = torch.ones(max(8, int(bytes / (64 * dtype.itemsize))), 64, dtype=dtype, requires_grad=True)
    return float(table.numel() * dtype.itemsize), backward(F.embedding(torch.arange(8), table))


def loss(dtype: torch.dtype, *, bytes: float) -> Made:
    """Softmax and its gradient over logits of so many bytes, by a head so narrow that its products count little."""
    entries = bytes / dtype.itemsize
    words = 8192 if entries > 2**18 else 64
    hidden = filled(max(1, entries / words), 4, dtype=dtype, learns=True)
    weight = filled(words, 4, dtype=dtype, learns=True)
    targets = torch.zeros(len(hidden), dtype=torch.long)
    work = float(len(hidden) * words * dtype.itemsize)
    return work, lambda: linear_cross_entropy(hidden, weight, targets)[0].backward()


def update(dtype: torch.dtype, *, bytes: float) -> Made:
    """Gradients shortened to a norm, and a step of AdamW; bytes are those of the parameters in float32."""
    shape = (max(1, ceil(bytes / (4 * 256))), 256)
    parameter, slope, mean, square = (torch.full(shape, 0.01) for _ in range(4))
    # Of fewer bytes there are two: the gradient, which is read, and the copy of the parameter, which is written.
    half, copied = (torch.ones(shape, dtype=dtype) for _ in range(2)) if dtype.itemsize < 4 else (None, None)
    count = torch.ones(())

    def step() -> None:
        given = slope if half is None else half.to(slope.dtype)
        given.mul_(min(1.0, 1e9 / float(torch.linalg.vector_norm(given))))
        torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
            [parameter], [given], [mean], [square], [], [count], lr=1e-3, beta1=0.9, beta2=0.99, weight_decay=0.1,
            eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
        if copied is not None:
            copied.copy_(parameter)

    return 4.0 * parameter.numel(), step


@dataclass(frozen=True)
class Probe:
    """Sizes to time at; `make(dtype, **sizes)` gives the work of a call and the call; `least` costs next to nothing."""

    axes: Axes
    make: Callable[..., Made]
    least: dict[str, float]
    gradients: bool = False


ROWS, SIDES = (1.0, 4.0, 16.0, 64.0, 128.0, 512.0), (64.0, 256.0, 1024.0)
BYTES = {"bytes": (2.0**14, 2.0**18, 2.0**22, 2.0**24, 2.0**26)}  # the last asks the system for new memory each time
NEARBY = {"bytes": BYTES["bytes"][:-1]}  # where the largest would take long and tell little
SLOWLY = {"bytes": (2.0**14, 2.0**21)}  # so much arithmetic that memory does not matter
FLOPS = {**NEARBY, "flops": tuple(CURVES)}
PAIRS = {"queries": (1.0, 32.0, 128.0, 512.0), "keys": (32.0, 128.0, 1024.0), "width": (32.0, 128.0)}
LEARNT = {"queries": (32.0, 128.0, 512.0), "keys": (32.0, 512.0), "width": (32.0, 128.0)}
WRITTEN = {"queries": (32.0, 128.0, 512.0), "keys": (32.0, 512.0), "width": (64.0,)}
SQUARE = {"rows": ROWS, "side": SIDES, "held": (NEAR, FAR)}
LEARNING = {**SQUARE, "rows": (16.0, 128.0, 512.0)}
HEAD = {"rows": (1.0, 16.0, 64.0), "columns": (2.0**15,)}
TINY, ONE = {"bytes": 64.0}, {"queries": 1.0, "keys": 1.0, "width": 1.0}
LEAST = {"rows": 1.0, "side": 4.0, "held": 64.0}

PROBES: dict[str, Probe] = {
    "memory/forward": Probe(BYTES, memory, TINY),
    "product/forward": Probe(SQUARE, product, LEAST),
    "product/learning": Probe(LEARNING, product_learning, LEAST, True),
    "product/backward": Probe(LEARNING, product_backward, LEAST),
    "wide/forward": Probe(HEAD, wide, {"rows": 1.0, "columns": 2.0}),
    "wide/backward": Probe(HEAD, wide_backward, {"rows": 1.0, "columns": 2.0}),
    "batched/forward": Probe({"side": (16.0, 64.0, 256.0)}, batched, {"side": 1.0}),
    "attention/forward": Probe(PAIRS, attention(), ONE),
    "attention/learning": Probe(LEARNT, attention(learns=True), ONE, True),
    "attention/backward": Probe(LEARNT, attention_backward(), ONE, True),
    "written/forward": Probe(WRITTEN, attention(written=True), ONE),
    "written/learning": Probe(WRITTEN, attention(learns=True, written=True), ONE, True),
    "written/backward": Probe(WRITTEN, attention_backward(written=True), ONE, True),
    "norm/forward": Probe(NEARBY, stream(norm), TINY),
    "norm/backward": Probe(NEARBY, stream(norm, learns=True), TINY, True),
    "activation/forward": Probe(FLOPS, curve(), {**TINY, "flops": 1.0}),
    "activation/backward": Probe(FLOPS, curve(learns=True), {**TINY, "flops": 1.0}, True),
    "elementwise/forward": Probe(BYTES, add, TINY),
    "dropout/forward": Probe(SLOWLY, stream(partial(F.dropout, p=0.1)), TINY),
    "embedding/forward": Probe(BYTES, lookup, TINY),
    "embedding/backward": Probe(BYTES, lookup_backward, TINY, True),
    "loss/forward": Probe(SLOWLY, loss, TINY, True),
    "update/forward": Probe(NEARBY, update, TINY),
}
