"""One attention as it was seen, however it was computed: queries, keys, and the scores that its softmax read."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Float, Shaped
from torch import Tensor

from headway.config import Channel, Linear
from headway.ops.attention import Call, record_of
from headway.ops.attention.explicit import expand
from headway.ops.mask.pairs import ALL

# A score that stands this far below q·k was hidden by adding a number: libraries add -1e4, -1e9 or the dtype's lowest.
HIDDEN = 5000.0
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


def of_call(call: Call) -> Seen | None:
    """A call of headway's own: log weights serve as scores, the softmax of both is the same. None between channels."""
    if isinstance(call.options, Channel) or 0 in call.q.shape or 0 in call.k.shape:
        return None
    wide = replace(call, q=call.q.detach().double(), k=call.k.detach().double(), v=call.v.detach().double())
    record = record_of(call)
    dot = record.name in ("softmax", "local", "spatial")
    q, k = wide.q, expand(wide.k, call.q.shape[1])
    scale = call.q.shape[3] ** -0.5 if call.scale is None else call.scale
    shape = (*call.q.shape[:3], call.k.shape[2])
    return Seen(
        record.name, q if dot else None, k if dot else None, scale if dot else None, call.dtype, shape,
        lambda rows: _logs(wide, rows),
    )  # fmt: skip


def _logs(call: Call, rows: slice) -> Tensor:
    """The logarithms of the weights; -inf only for a key that may not be seen, not for a weight that underflows."""
    weights = record_of(call).weights
    found = weights(call, rows, ALL).detach()
    if isinstance(call.options, Linear):
        return found.log()
    seen = weights(replace(call, q=torch.zeros_like(call.q)), rows, ALL) > 0
    return found.clamp(min=torch.finfo(found.dtype).tiny).log().masked_fill(~seen, -math.inf)


def of_kernel(
    q: Tensor, k: Tensor, mask: Tensor | None, *, causal: bool, scale: float | None, before: float, heads: int
) -> Seen | None:
    """A call of scaled_dot_product_attention; q had been multiplied by `before` already."""
    dtype = q.dtype if q.dtype.itemsize >= 4 else torch.float32  # the kernels' own
    inner = q.shape[-1] ** -0.5 if scale is None else scale
    if 0 in q.shape or 0 in k.shape or before == 0:
        return None
    table = None if mask is None else split(mask.detach().expand(*q.shape[:-1], k.shape[-2]), heads)
    q, k = split(q.detach(), heads).double(), split(k.detach(), heads).double()
    k = k if k.shape[1] == q.shape[1] else expand(k, q.shape[1])
    shape = (*q.shape[:3], k.shape[2])

    def scores(rows: slice) -> Tensor:
        found = q[:, :, rows] @ k.mT * inner
        if causal:
            places = torch.arange(shape[2], device=q.device)[rows, None]
            found = found.masked_fill(torch.arange(shape[3], device=q.device) > places, -math.inf)
        return found if table is None else _masked(found, table[:, :, rows])

    return Seen("softmax", q / before, k, inner * before, dtype, shape, scores)


def _masked(scores: Tensor, table: Tensor) -> Tensor:
    if table.dtype == torch.bool:
        return scores.masked_fill(~table, -math.inf)
    return (scores + table.double()).masked_fill(table.double() < -HIDDEN, -math.inf)


def of_softmax(given: Tensor, q: Tensor | None, k: Tensor | None, *, factor: float, heads: int) -> Seen | None:
    """A softmax over the last axis of scores, which came from factor · q kᵀ where those were seen."""
    if 0 in given.shape or (q is not None and factor == 0):
        return None
    read = split(given.detach(), heads)
    known = q is not None and k is not None and q.shape[:-2].numel() == read.shape[:2].numel() == k.shape[:-2].numel()
    q, k = ((x.detach().reshape(*read.shape[:2], *x.shape[-2:]).double() if known else None) for x in (q, k))  # type: ignore[union-attr]

    def scores(rows: slice) -> Tensor:
        found = read[:, :, rows].double()
        if q is None or k is None:
            return found.masked_fill((found < -HIDDEN) & (found < found.amax(-1, keepdim=True) - HIDDEN), -math.inf)
        return found.masked_fill(found < q[:, :, rows] @ k.mT * factor - HIDDEN, -math.inf)

    return Seen("softmax", q, k, factor if known else None, given.dtype, tuple(read.shape), scores)


def split(x: Tensor, heads: int) -> Shaped[Tensor, "B H l m"]:
    """Four axes: of three, the first is the batch, or batch times heads where a module says how many heads it has."""
    if x.ndim == 3:
        return x.unflatten(0, (-1, heads)) if heads > 1 and x.shape[0] % heads == 0 else x.unsqueeze(1)
    return x.flatten(0, -4) if x.ndim > 4 else x.reshape(-1, *x.shape[-3:])
