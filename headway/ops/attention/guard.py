"""The row law on fast kernels. A kernel multiplies a hidden key by 0 or adds -inf to its score, and 0 x NaN is NaN;
and torch's takes a row whose scores are all NaN for one that sees nothing, and gives 0.

So every fast path is guarded. Queries and keys are looked at before (a NaN must not be swallowed), the output after (a
leak shows as NaN), and with gradients all inputs before, since a hidden NaN may surface in the backward pass alone.
Where something is wrong, declared padding is zeroed; if that is not enough, the rows are computed one by one.
"""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from headway.ops.attention.call import Call, learning
from headway.ops.attention.explicit import Row, extras_of
from headway.ops.attention.loop import careful


def guarded(call: Call, fast: Callable[[Call], Tensor], row: Row) -> Tensor:
    """fast(call) where nothing hidden can reach anybody and nothing seen is lost; the same by slower ways elsewhere."""
    sound = _calm if learns(call) else _finite_scores
    for candidate in _attempts(call):
        if sound(candidate):
            out = fast(candidate)
            if call.mask is None or finite(out):
                return out
    return careful(call, row)


def _attempts(call: Call) -> Iterator[Call]:
    yield call
    cleaned = call.quarantined()
    if cleaned is not call:
        yield cleaned


def learns(call: Call) -> bool:
    """Whether anything in the call wants a gradient."""
    return learning(call.q, call.k, call.v) or learning(*(extra.value for extra in extras_of(call)))


def finite(x: Tensor) -> bool:
    """Whether there is no NaN and no inf; a sum that overflows counts as not finite, which errs on the safe side."""
    return math.isfinite(x.detach().sum().item())


def _finite_scores(call: Call) -> bool:
    q, k = call.q.detach(), call.k.detach()
    if call.keys_finite:
        return finite(q)
    if q.shape == k.shape and q.is_contiguous() and k.is_contiguous():
        # One product reads both: NaN and inf survive it, whatever they are multiplied by.
        return math.isfinite(torch.dot(q.view(-1), k.view(-1)).item())
    return finite(q) and finite(k)


def _calm(call: Call) -> bool:
    """Whether all inputs are finite and no score can overflow: |q·k| <= |q| |k|, taken over whole tensors."""
    scale = 1.0 if call.scale is None else max(1.0, abs(call.scale))
    limit = torch.finfo(call.dtype).max / 4
    q, k, v = (_norm(x.detach(), call.dtype) for x in (call.q, call.k, call.v))
    return q * k * scale < limit and v < limit


def _norm(x: Tensor, dtype: torch.dtype) -> float:
    """√Σ x²; torch takes five times as long for a slice of a wider tensor, as q is one of q, k and v made together."""
    if not (x.is_contiguous() or x.transpose(1, 2).is_contiguous()):
        x = torch.linalg.vector_norm(x.transpose(1, 2).flatten(2), dim=-1, dtype=dtype)
    return torch.linalg.vector_norm(x, dtype=dtype).item()
