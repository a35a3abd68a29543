"""One attention as it was seen, however it was computed: queries, keys, and the scores that its softmax read."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float
from torch import Tensor

from headway.observe.attention_event import HIDDEN, AttentionEvent, KernelCall, SoftmaxCall
from headway.ops.attention import Call, record_of
from headway.ops.attention.kernels.eager import expand
from headway.ops.mask.pairs import ALL, take

# Scores looked at, of all heads together; of a larger attention, queries at even distances.
SCORES = 2**22


@dataclass(frozen=True, eq=False)
class Seen:
    """`scores(rows)` are float64, of all heads and of some rows, -inf where a key may not be seen; `scale` is what q·k
    was multiplied by; `dtype` held the scores. q and k are None where only a softmax was seen."""

    mechanism: str
    q: Float[Tensor, "B H L K"] | None
    k: Float[Tensor, "B H M K"] | None
    scale: float | None
    dtype: torch.dtype
    shape: tuple[int, ...]  # B H L M
    scores: Callable[[slice], Tensor]

    @property
    def rows(self) -> slice:
        """The queries to look at."""
        return slice(None, None, max(1, math.ceil(math.prod(self.shape) / SCORES)))


def seen_of(event: AttentionEvent) -> Seen | None:
    """What can be measured of an attention; None of one between channels, or of nothing."""
    if isinstance(event, Call):
        return _of_call(event)
    return _of_kernel(event) if isinstance(event, KernelCall) else _of_softmax(event)


def _of_call(call: Call) -> Seen | None:
    """A call of headway's own: log weights serve as scores, the softmax of both is the same. None between channels."""
    record = record_of(call.spec)
    if record.between == "channels" or 0 in call.q.shape or 0 in call.k.shape:
        return None
    wide = replace(call, q=call.q.detach().double(), k=call.k.detach().double(), v=call.v.detach().double())
    dot = record.scores == "dot"
    q, k = wide.q, expand(wide.k, call.q.shape[1])
    scale = call.q.shape[3] ** -0.5 if call.scale is None else call.scale
    shape = (*call.q.shape[:3], call.k.shape[2])
    return Seen(
        record.name, q if dot else None, k if dot else None, scale if dot else None, call.dtype, shape,
        lambda rows: _logs(wide, rows),
    )  # fmt: skip


def _logs(call: Call, rows: slice) -> Tensor:
    """The logarithms of the weights; -inf only for a key that may not be seen, not for a weight that underflows."""
    record = record_of(call.spec)
    weights, found = record.weights, record.weights(call, rows, ALL).detach()
    if record.scores is None:  # no softmax: a key may weigh nothing and be seen all the same
        return found.log()
    seen = weights(replace(call, q=torch.zeros_like(call.q)), rows, ALL) > 0
    return found.clamp(min=torch.finfo(found.dtype).tiny).log().masked_fill(~seen, -math.inf)


def _of_kernel(event: KernelCall) -> Seen:
    """A call of scaled_dot_product_attention; q and k had been multiplied by `before` already."""
    dtype = event.q.dtype if event.q.dtype.itemsize >= 4 else torch.float32  # the kernels' own
    inner = event.q.shape[-1] ** -0.5 if event.scale is None else event.scale
    q, k, table = event.q.double(), event.k.double(), event.mask
    k = k if k.shape[1] == q.shape[1] else expand(k, q.shape[1])
    shape = (*q.shape[:3], k.shape[2])

    def scores(rows: slice) -> Tensor:
        found = q[:, :, rows] @ k.mT * inner
        if event.causal:
            places = torch.arange(shape[2], device=q.device)[rows, None]
            found = found.masked_fill(torch.arange(shape[3], device=q.device) > places, -math.inf)
        return found if table is None else _masked(found, take(table, rows, 2))

    return Seen("softmax", q / event.before, k, inner * event.before, dtype, shape, scores)


def _masked(scores: Tensor, table: Tensor) -> Tensor:
    if table.dtype == torch.bool:
        return scores.masked_fill(~table, -math.inf)
    return (scores + table.double()).masked_fill(table.double() < -HIDDEN, -math.inf)


def _of_softmax(event: SoftmaxCall) -> Seen:
    """A softmax over the last axis of scores, which came from factor · q kᵀ where those were seen."""
    read, factor = event.given, event.factor
    q, k = (None if x is None else x.double() for x in (event.q, event.k))

    def scores(rows: slice) -> Tensor:
        found = read[:, :, rows].double()
        if q is None or k is None:
            return found.masked_fill((found < -HIDDEN) & (found < found.amax(-1, keepdim=True) - HIDDEN), -math.inf)
        return found.masked_fill(found < q[:, :, rows] @ k.mT * factor - HIDDEN, -math.inf)

    return Seen("softmax", q, k, factor if q is not None else None, read.dtype, tuple(read.shape), scores)
