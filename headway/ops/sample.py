"""From logits to a token: the largest, or a draw.

    z = logits / temperature        p = softmax(z where z ≥ cut)        token = the first i with p_0 + … + p_i > u

u is a number for a seed and a position (`ops.uniform`), whatever the batch. Tokens stand in the order of their numbers,
so that two almost equal logits do not trade places. Every choice says by how much it was decided.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.ops.cut import Cut, Rules, cut, moved

_CHUNK = 2**17  # numbers at once: temporaries that stay in the processor's cache are several times faster


@dataclass(frozen=True)
class Choice:
    """A token for each row, and by how much it was decided: ∞ where nothing else was possible."""

    tokens: Int[Tensor, " B"]
    margins: Float[Tensor, " B"]


def choose(logits: Float[Tensor, "B V"], rules: Rules, uniforms: Sequence[float]) -> Choice:
    """Greedy where the temperature is 0, elsewhere a draw with the row's number.

    >>> logits = torch.log(torch.tensor([[0.2, 0.5, 0.3], [0.2, 0.5, 0.3]]))
    >>> choose(logits, Rules([0.0, 1.0], [0, 0], [1.0, 1.0], [0.0, 0.0]), [0.1, 0.1]).tokens.tolist()
    [1, 0]
    """
    sampled = [row for row, heat in enumerate(rules.temperature) if heat > 0]
    if not sampled:
        return greedy(logits)
    tokens = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
    margins = torch.zeros(len(logits), dtype=torch.float64, device=logits.device)
    if len(sampled) < len(logits):
        found = greedy(logits)
        tokens, margins = found.tokens, found.margins
    for rows in _groups(sampled, rules, logits.shape[1]):
        way = draw if rules.cuts(rows[0]) else draw_any
        drawn = way(logits[rows], rules.of(rows), [uniforms[row] for row in rows])
        tokens[rows], margins[rows] = drawn.tokens, drawn.margins
    return Choice(tokens, margins)


def _groups(sampled: list[int], rules: Rules, vocabulary: int) -> Iterator[list[int]]:
    """Rows that are drawn in the same way; only a few at once of those that look at the whole vocabulary."""
    few = max(1, _CHUNK // vocabulary)
    for cuts, whole in ((False, True), (True, True), (True, False)):
        rows = [row for row in sampled if (rules.cuts(row), rules.whole(row)) == (cuts, whole)]
        size = few if whole else len(rows)
        yield from (rows[start : start + size] for start in range(0, len(rows), size or 1))


def greedy(logits: Float[Tensor, "B V"]) -> Choice:
    """The largest logit, the first of equals; the margin is its lead over the next.

    >>> greedy(torch.tensor([[1.0, 3.0, 3.0, 2.0]])).tokens.tolist()
    [1]
    """
    top = logits.topk(min(2, logits.shape[1]))
    best = top.values[:, 0]
    _check(best)
    if logits.shape[1] == 1:
        return Choice(top.indices[:, 0], torch.full_like(best, math.inf, dtype=torch.float64))
    lead = best.double() - top.values[:, 1].double()
    # topk promises no order among equals.
    tokens = logits.argmax(-1) if bool((lead == 0).any()) else top.indices[:, 0]
    return Choice(tokens, lead)


def draw_any(logits: Float[Tensor, "B V"], rules: Rules, uniforms: Sequence[float]) -> Choice:
    """Of all tokens the one whose slice of the cumulated probability holds u. The margin is u's distance to its ends.

    >>> draw_any(torch.zeros(1, 4), Rules([1.0], [0], [1.0], [0.0]), [0.6])
    Choice(tokens=tensor([2]), margins=tensor([0.1000], dtype=torch.float64))
    """
    heat, u = _columns(logits, rules.temperature, uniforms)
    return _slice(_weights(logits, heat), u, torch.zeros_like(u))


def draw(logits: Float[Tensor, "B V"], rules: Rules, uniforms: Sequence[float]) -> Choice:
    """The same of what top-k, top-p and min-p leave.

    The margin is less by how far a cut that noise could move would move the slices.
    """
    heat, u = _columns(logits, rules.temperature, uniforms)
    total = torch.ones_like(heat)
    if any(rules.top_p[row] < 1 and rules.whole(row) for row in range(len(logits))):
        total = _weights(logits, heat).sum(-1, keepdim=True, dtype=torch.float64)
    z, index, line = _candidates(logits, heat, rules, total)
    index, order = index.sort(-1)
    found = _slice(z.exp().masked_fill_(z < line.level, 0.0).gather(1, order), u, moved(z, line))
    return Choice(index.gather(1, found.tokens[:, None])[:, 0], found.margins)


def _candidates(logits: Tensor, heat: Tensor, rules: Rules, total: Tensor) -> tuple[Tensor, Tensor, Cut]:
    """The largest z in falling order, their tokens and the cut: so many that more would not change it."""
    count = max(k + 16 if k else 256 for k in rules.top_k)
    while True:  # a few are often enough, and sorting a whole vocabulary is slow
        count = min(count, logits.shape[1])
        values, index = logits.topk(count) if count < logits.shape[1] else logits.sort(-1, descending=True)
        _check(values[:, 0])
        z = (values.double() - values[:, :1]) / heat
        line = cut(z, rules, total)
        if count == logits.shape[1] or bool((z[:, -1:] < line.low).all()):
            return z, index, line
        count = 8 * count if count < 1024 else logits.shape[1]


def _slice(weights: Float[Tensor, "B C"], u: Float[Tensor, "B 1"], shift: Float[Tensor, "B 1"]) -> Choice:
    """The first place at which the weights before and at it exceed u of the total, and the distance to its ends."""
    ends = weights.cumsum(-1, dtype=torch.float64)
    total, target = ends[:, -1:], u * ends[:, -1:]
    places = torch.searchsorted(ends, target, right=True)
    after = ends.gather(1, places)
    before = after - weights.gather(1, places)
    # The ends of the whole line divide nothing, unless a token from beyond the cut may come to stand there.
    # (Rounding can leave less than an ulp before the first token.)
    below = torch.where((before > total * 1e-15) | (shift > 0), target - before, math.inf)
    above = torch.where((after < total) | (shift > 0), after - target, math.inf)
    margins = torch.minimum(below, above) / total - shift
    return Choice(places[:, 0], margins.clamp(min=0)[:, 0])


def penalise(
    logits: Float[Tensor, "B V"], seen: Bool[Tensor, "B V"], penalty: Float[Tensor, " B"]
) -> Float[Tensor, "B V"]:
    """Logits of tokens seen before, divided by the penalty (Keskar et al. 2019, arXiv:1909.05858).

    The paper writes it for positive logits; a negative one is multiplied, so that it falls as well.

    >>> penalise(torch.tensor([[2.0, -2.0, 1.0]]), torch.tensor([[True, True, False]]), torch.tensor([4.0]))
    tensor([[ 0.5000, -8.0000,  1.0000]])
    """
    factor = penalty.to(logits.dtype)[:, None]
    return torch.where(seen, torch.where(logits > 0, logits / factor, logits * factor), logits)


def steer(
    scores: Float[Tensor, "B V"], never: Sequence[int], forced: Sequence[int | None] = ()
) -> Float[Tensor, "B V"]:
    """-∞ for tokens that may never come; where a token is forced, it has 0 and all others -∞.

    >>> steer(torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]]), [2], [None, 1])
    tensor([[1., 2., -inf],
            [-inf, 0., -inf]])
    """
    if never:
        scores = scores.index_fill(1, torch.tensor(never, device=scores.device), -math.inf)
    rows = [row for row, token in enumerate(forced) if token is not None]
    if not rows:
        return scores
    scores = scores.index_fill(0, torch.tensor(rows, device=scores.device), -math.inf)
    scores[rows, [forced[row] for row in rows]] = 0.0
    return scores


def log_total(logits: Float[Tensor, "B V"]) -> Float[Tensor, " B"]:
    """log Σ exp(logits) in float64: a token's log-probability is its logit less this.

    >>> log_total(torch.tensor([[0.0, 0.0]])).item()
    0.6931
    """
    rows = max(1, _CHUNK // logits.shape[1])
    return torch.cat([part.double().logsumexp(-1) for part in logits.split(rows)])


def _weights(logits: Float[Tensor, "B V"], heat: Float[Tensor, "B 1"]) -> Float[Tensor, "B V"]:
    """exp((logits - max) / temperature); float32 stays float32, whose rounding moves a bound less than noise does."""
    logits = logits.to(torch.promote_types(logits.dtype, torch.float32))
    best = logits.amax(-1, keepdim=True)
    _check(best[:, 0])
    return ((logits - best) / heat.to(logits.dtype).clamp(min=1e-30)).exp_()


def _columns(like: Tensor, *rows: Sequence[float]) -> Iterator[Float[Tensor, "B 1"]]:
    return (torch.tensor(values, dtype=torch.float64, device=like.device)[:, None] for values in rows)


def _check(best: Float[Tensor, " B"]) -> None:
    """One look at the largest logit finds NaN and infinity anywhere in a row."""
    if not bool(best.isfinite().all()):
        row = int((~best.isfinite()).int().argmax())
        raise ValueError(
            f"the model's largest logit in row {row} is {float(best[row])}: its weights or inputs are broken"
        )
