"""The row law on fast kernels: a kernel multiplies a hidden key by 0 or adds -inf to its score, and 0 x NaN is NaN.

So every fast path is guarded. Without gradients one look at the output tells: a leak always shows as NaN. With
gradients a hidden NaN may surface in the backward pass alone, so the inputs are looked at before. Where something is
wrong, declared padding is zeroed; if that is not enough, the rows are computed one by one.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from headway.ops.attention.call import Call
from headway.ops.attention.explicit import Row, extras_of
from headway.ops.attention.loop import careful


def guarded(call: Call, fast: Callable[[Call], Tensor], row: Row) -> Tensor:
    """fast(call) where nothing hidden can reach anybody; otherwise the same by slower ways."""
    if call.mask is None:
        return fast(call)
    watch = _calm if learns(call) else None
    for candidate in _attempts(call):
        if watch is not None and not watch(candidate):
            continue
        out = fast(candidate)
        if watch is not None or finite(out):
            return out
    return careful(call, row)


def _attempts(call: Call) -> Iterator[Call]:
    yield call
    cleaned = call.quarantined()
    if cleaned is not call:
        yield cleaned


def learns(call: Call) -> bool:
    """Whether anything in the call wants a gradient."""
    tensors = (call.q, call.k, call.v, *(extra.value for extra in extras_of(call)))
    return torch.is_grad_enabled() and any(x.requires_grad for x in tensors)


def finite(x: Tensor) -> bool:
    """Whether there is no NaN and no inf; a sum that overflows counts as not finite, which errs on the safe side."""
    return math.isfinite(x.detach().sum().item())


def _calm(call: Call) -> bool:
    """Whether all inputs are finite and no score can overflow: |q·k| <= |q| |k|, taken over whole tensors."""
    scale = 1.0 if call.scale is None else max(1.0, abs(call.scale))
    limit = torch.finfo(call.dtype).max / 4
    q, k, v = (float(torch.linalg.vector_norm(x.detach(), dtype=call.dtype)) for x in (call.q, call.k, call.v))
    return q * k * scale < limit and v < limit
