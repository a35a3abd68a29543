"""What only streams, to be timed: norms, curves, sums, lookups, losses and the optimiser; work is bytes.

Each function takes a precision and sizes, and gives the work of a call and the call. Results are made anew each time,
as in a model: memory that the system has to hand out is a good part of what a large tensor costs.
"""

from collections.abc import Callable
from math import ceil

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.cost.time.products import Made, backward, filled
from headway.ops.activation import gelu_tanh
from headway.ops.loss import linear_cross_entropy
from headway.ops.norm import layer_norm

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
    half = torch.ones(shape, dtype=dtype) if dtype.itemsize < 4 else None
    count = torch.ones(())

    def step() -> None:
        given = slope if half is None else half.to(slope.dtype)
        given.mul_(min(1.0, 1e9 / float(torch.linalg.vector_norm(given))))
        torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
            [parameter], [given], [mean], [square], [], [count], lr=1e-3, beta1=0.9, beta2=0.99, weight_decay=0.1,
            eps=1e-8, amsgrad=False, maximize=False,
        )  # fmt: skip
        if half is not None:
            half.copy_(parameter)

    return 4.0 * parameter.numel(), step
