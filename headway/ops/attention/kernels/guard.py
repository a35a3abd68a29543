"""The row law of one call: fast where nothing hidden can reach anybody, row by row elsewhere.

A call that is part of a guarded pass (`Call.guard`) is as fast or as careful as the pass. A call of its own looks for
itself: at queries and keys before (torch's kernel takes a row whose scores are all NaN for one that sees nothing, and
gives 0), at the output after (a leak shows as NaN), and with gradients at all inputs before, since a hidden NaN may
surface in the backward pass alone. Where something is wrong, declared padding is zeroed; if that is not enough, the
rows are computed one by one.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from headway.ops.attention.call import Call
from headway.ops.attention.kernels.eager import Row
from headway.ops.attention.kernels.reference import careful_rows
from headway.ops.nonfinite_rows import finite


def guarded_call(call: Call, fast: Callable[[Call], Tensor], row: Callable[[Call], Row]) -> Tensor:
    """fast(call) where nothing hidden can reach anybody and nothing seen is lost; the same by slower ways elsewhere."""
    if call.guard is not None:
        return careful_rows(call, row(call)) if call.guard.careful else fast(call)
    sound = _calm if call.learns else _finite_scores
    for candidate in _attempts(call):
        if sound(candidate):
            out = fast(candidate)
            if call.mask is None or finite(out):
                return out
    return careful_rows(call, row(call))


def _attempts(call: Call) -> Iterator[Call]:
    yield call
    cleaned = call.quarantined()
    if cleaned is not call:
        yield cleaned


def _finite_scores(call: Call) -> bool:
    q, k = call.q.detach(), call.k.detach()
    if q.shape == k.shape and q.is_contiguous() and k.is_contiguous():
        # One product reads both: NaN and inf survive it, whatever they are multiplied by.
        return math.isfinite(torch.dot(q.view(-1), k.view(-1)).item())
    return finite(q) and finite(k)


def _calm(call: Call) -> bool:
    """Whether all inputs are finite and no score can overflow: |q·k| <= |q| |k|, taken over whole tensors."""
    scale = 1.0 if call.scale is None else max(1.0, abs(call.scale))
    limit = torch.finfo(call.dtype).max / 4
    q, k, v = (torch.linalg.vector_norm(x.detach(), dtype=call.dtype).item() for x in (call.q, call.k, call.v))
    return q * k * scale < limit and v < limit
