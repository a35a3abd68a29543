"""The measures of one attention, head by head, from its scores in float64."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headway.audit.health.record import SATURATED, Head
from headway.observe.attention_event import HIDDEN, AttentionEvent, KernelCall, SoftmaxCall
from headway.ops.attention import Call, record_of
from headway.ops.attention.kernels.eager import expand
from headway.ops.jacobian import jacobian_norm, uniform_norm
from headway.ops.mask.pairs import ALL, take

# Scores looked at, of all heads together; of a larger attention, queries at even distances.
SCORES = 2**22


@dataclass(frozen=True, eq=False)
class AttentionScores:
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


def scores_of(event: AttentionEvent) -> AttentionScores | None:
    """What can be measured of an attention; None of one between channels, or of nothing."""
    if isinstance(event, Call):
        return _of_call(event)
    return _of_kernel(event) if isinstance(event, KernelCall) else _of_softmax(event)


def _of_call(call: Call) -> AttentionScores | None:
    """A call of headway's own: log weights serve as scores, the softmax of both is the same. None between channels."""
    record = record_of(call.spec)
    if record.between == "channels" or 0 in call.q.shape or 0 in call.k.shape:
        return None
    wide = replace(call, q=call.q.detach().double(), k=call.k.detach().double(), v=call.v.detach().double())
    dot = record.scores == "dot"
    q, k = wide.q, expand(wide.k, call.q.shape[1])
    scale = call.q.shape[3] ** -0.5 if call.scale is None else call.scale
    shape = (*call.q.shape[:3], call.k.shape[2])
    return AttentionScores(
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


def _of_kernel(event: KernelCall) -> AttentionScores:
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

    return AttentionScores("softmax", q / event.before, k, inner * event.before, dtype, shape, scores)


def _masked(scores: Tensor, table: Tensor) -> Tensor:
    if table.dtype == torch.bool:
        return scores.masked_fill(~table, -math.inf)
    return (scores + table.double()).masked_fill(table.double() < -HIDDEN, -math.inf)


def _of_softmax(event: SoftmaxCall) -> AttentionScores:
    """A softmax over the last axis of scores, which came from factor · q kᵀ where those were seen."""
    read, factor = event.given, event.factor
    q, k = (None if x is None else x.double() for x in (event.q, event.k))

    def scores(rows: slice) -> Tensor:
        found = read[:, :, rows].double()
        if q is None or k is None:
            return found.masked_fill((found < -HIDDEN) & (found < found.amax(-1, keepdim=True) - HIDDEN), -math.inf)
        return found.masked_fill(found < q[:, :, rows] @ k.mT * factor - HIDDEN, -math.inf)

    return AttentionScores("softmax", q, k, factor if q is not None else None, read.dtype, tuple(read.shape), scores)


# Two heads whose scores differ by less than this, relative to both together; independent heads differ by about 0.7.
TWINS = 0.01

PerHead = list[float] | list[None]


@dataclass(frozen=True, eq=False)
class _Rows:
    """Scores with the keys each row sees; `chosen` are the rows with a choice: two keys or more, all finite."""

    scores: Float[Tensor, "B H L M"]
    visible: Bool[Tensor, "B H L M"]
    keys: Float[Tensor, "B H L"]
    chosen: Bool[Tensor, "B H L"]

    def mean(self, values: Float[Tensor, "B H L"]) -> list[float]:
        """Of each head, over its rows with a choice; NaN where there is none."""
        total = values.where(self.chosen, 0.0).sum((0, 2))
        return (total / self.chosen.sum((0, 2))).tolist()

    def centred(self, values: Float[Tensor, "B H L M"]) -> Float[Tensor, "B H L M"]:
        """Less the mean of each row, which no softmax sees; 0 for keys and rows that do not count."""
        counted = self.visible & self.chosen[..., None]
        held = values.where(counted, 0.0)
        return (held - held.sum(-1, keepdim=True) / self.keys.clamp(min=1)[..., None]).where(counted, 0.0)

    def variance(self, values: Float[Tensor, "B H L M"]) -> list[float]:
        return self.mean(self.centred(values).square().sum(-1) / (self.keys - 1).clamp(min=1))


@torch.no_grad()
def heads_of(module: str, seen: AttentionScores) -> list[Head]:
    """A row of measures for each head; the output's measures come later."""
    rows = _rows(seen.scores(seen.rows))
    weights = rows.scores.masked_fill(~rows.chosen[..., None], 0.0).softmax(-1)
    top, place = weights.max(-1)
    columns: dict[str, list] = {
        "keys": rows.mean(rows.keys),
        "spread": [math.sqrt(one) for one in rows.variance(rows.scores)],
        "entropy": rows.mean(_entropy(weights) / rows.keys.clamp(min=2).log()),
        "saturated": rows.mean((top > SATURATED).double()),
        "stuck": _stuck(rows, top, place),
        "twin": _twins(rows),
        "jacobian_uniform": rows.mean(uniform_norm(rows.keys)),
        "jacobian": _jacobian(seen, rows),
        **_products(seen, rows),
    }
    columns = {name: one if name in ("largest", "rounding") else _told(one) for name, one in columns.items()}
    width = None if seen.q is None else seen.q.shape[-1]
    return [
        Head(
            module, head, seen.mechanism, width, scale=seen.scale, **{name: one[head] for name, one in columns.items()}
        )
        for head in range(seen.shape[1])
    ]


def _told(values: list) -> list:
    """None of a head that has no row with a choice."""
    return [None if isinstance(one, float) and math.isnan(one) else one for one in values]


def _rows(scores: Tensor) -> _Rows:
    visible = scores != -math.inf
    keys = visible.sum(-1).double()
    finite = (scores.isfinite() | ~visible).all(-1)
    return _Rows(scores, visible, keys, (keys >= 2) & finite)


def _entropy(weights: Tensor) -> Float[Tensor, "B H L"]:
    return torch.special.entr(weights).sum(-1)


def _jacobian(seen: AttentionScores, rows: _Rows) -> PerHead:
    if seen.mechanism == "linear":  # no softmax over keys, so no such Jacobian
        return [None] * seen.shape[1]
    return rows.mean(jacobian_norm(rows.scores.masked_fill(~rows.chosen[..., None], 0.0)))


def _stuck(rows: _Rows, top: Tensor, place: Tensor) -> list[float]:
    """The share of rows with all their weight on the key that is looked at most often in their sequence."""
    sure = ((top > SATURATED) & rows.chosen).double()
    votes = torch.zeros_like(rows.scores[:, :, 0]).scatter_add(-1, place, sure)
    return (votes.amax(-1).sum(0) / rows.chosen.sum((0, 2))).tolist()


def _twins(rows: _Rows) -> list[int | None]:
    held = rows.centred(rows.scores).transpose(0, 1).flatten(1)
    products = held @ held.T
    norms = products.diagonal().sqrt()
    apart = (norms.square()[:, None] + norms.square() - 2 * products).clamp(min=0).sqrt()
    same = (apart < TWINS * (norms[:, None] + norms)).tril(-1)
    return [int(row.nonzero()[0]) if bool(row.any()) else None for row in same]


def _products(seen: AttentionScores, rows: _Rows) -> dict[str, PerHead]:
    """Everything about q·k before the scale, against what independent entries would give."""
    nothing: PerHead = [None] * seen.shape[1]
    if seen.q is None or seen.k is None or seen.scale is None:
        largest = _largest(rows.scores, rows) if seen.mechanism == "softmax" else nothing
        names = ("variance", "predicted", "q_rms", "k_rms")
        return dict.fromkeys(names, nothing) | {"largest": largest, "rounding": _rounding(largest, seen, 1.0)}
    q = seen.q[:, :, seen.rows]
    raw = q @ seen.k.mT
    largest, squares, spread = _largest(raw, rows), rows.mean(q.square().mean(-1)), _key_variance(seen.k, rows)
    return {
        "variance": rows.variance(raw),
        "predicted": [q.shape[-1] * one * other for one, other in zip(squares, spread, strict=True)],
        "q_rms": [math.sqrt(one) for one in squares],
        "k_rms": [math.sqrt(one) for one in spread],
        "largest": largest,
        "rounding": _rounding(largest, seen, seen.scale),
    }


def _largest(values: Tensor, rows: _Rows) -> list[float]:
    # A NaN at a key that somebody sees is the largest of all.
    return values.where(rows.visible, 0.0).abs().amax((0, 2, 3)).tolist()


def _rounding(largest: PerHead, seen: AttentionScores, scale: float) -> PerHead:
    half = torch.finfo(seen.dtype).eps / 2
    return [None if one is None else one * abs(scale) * half for one in largest]  # type: ignore[return-value]


def _key_variance(k: Float[Tensor, "B H M K"], rows: _Rows) -> list[float]:
    """Variance over the keys of a sequence that somebody sees, averaged over channels and sequences."""
    seen = (rows.visible & rows.chosen[..., None]).any(2)[..., None]
    count = seen.sum(2, keepdim=True)
    held = k.where(seen, 0.0)
    moved = (held - held.sum(2, keepdim=True) / count.clamp(min=1)).where(seen, 0.0)
    counted = (count > 1)[..., 0, 0]
    found = (moved.square().sum(2, keepdim=True) / (count - 1).clamp(min=1)).mean((2, 3))
    return (found.where(counted, 0.0).sum(0) / counted.sum(0)).tolist()


@torch.no_grad()
def relative_variation(out: Float[Tensor, "B H L W"]) -> PerHead:
    """How much each head's output moves over positions, over that of the liveliest; 0 where none moves."""
    if out.shape[2] < 2:
        return [None] * out.shape[1]
    wide = out.detach().double()
    moves = wide.var(2, unbiased=False).mean((0, 2)).sqrt()
    size = wide.square().mean().sqrt()
    if not bool(size.isfinite()):
        return [None] * out.shape[1]
    return (moves / moves.amax()).tolist() if bool(moves.amax() > 1e-6 * size) else [0.0] * out.shape[1]


@torch.no_grad()
def relative_norm(gradient: Float[Tensor, "B H L W"]) -> PerHead:
    """The norm of each head's part, over that of the largest; None where all is 0: a branch may begin so."""
    norms = gradient.double().square().sum((0, 2, 3)).sqrt()
    return (norms / norms.amax()).tolist() if bool(norms.amax() > 0) else [None] * gradient.shape[1]
