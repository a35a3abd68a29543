"""From logits to a token: the largest, or a draw.

    z = logits / temperature        p = softmax(z where z ≥ cut)        token = the first i with p_0 + … + p_i > u

u is a number for a seed and a position (`ops.uniform`), whatever the batch. Tokens stand in the order of their numbers,
so that two almost equal logits do not trade places. Every choice says by how much it was decided.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.ops.sampling.cut import Cut, Rules, cut, moved
from headway.ops.sampling.logits import CHUNK, check_finite, weights


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
    few = max(1, CHUNK // vocabulary)
    for cuts, whole in ((False, True), (True, True), (True, False)):
        rows = [row for row in sampled if (rules.cuts(row), rules.whole(row)) == (cuts, whole)]
        size = few if whole else len(rows)
        yield from (rows[start : start + size] for start in range(0, len(rows), size or 1))


def greedy(logits: Float[Tensor, "B V"]) -> Choice:
    """The largest logit, the first of equals; the margin is its lead over the next.

    >>> greedy(torch.tensor([[1.0, 3.0, 3.0, 2.0]])).tokens.tolist()
    [1]
    """
    values, places = _two_largest(logits)
    best = values[:, 0]
    check_finite(best)
    if logits.shape[1] == 1:
        return Choice(places[:, 0], torch.full_like(best, math.inf, dtype=torch.float64))
    lead = best.double() - values[:, 1].double()
    # topk promises no order among equals.
    return Choice(logits.argmax(-1) if bool((lead == 0).any()) else places[:, 0], lead)


def _two_largest(logits: Float[Tensor, "B V"], columns: int = 256) -> tuple[Float[Tensor, "B n"], Int[Tensor, "B n"]]:
    """The two largest logits, and the place of the first.

    A maximum over rows of a table is many times faster than topk: the first two of a vocabulary laid out in columns
    are in the column with the largest number, or the largest of another one, or in what is left over.
    """
    vocabulary, rows = logits.shape[1], logits.shape[1] // columns
    if rows < 16:
        return logits.topk(min(2, vocabulary))
    table = rows * columns
    top = logits[:, :table].unflatten(1, (rows, columns)).amax(1).topk(2)
    inside = top.indices[:, :1] + torch.arange(0, table, columns, device=logits.device)
    over = torch.arange(table, vocabulary, device=logits.device).expand(len(logits), -1)
    contenders = torch.cat([logits.gather(1, inside), logits[:, table:], top.values[:, 1:]], dim=1)
    first = contenders.topk(2)
    places = torch.cat(
        [inside, over, inside[:, :1]], dim=1
    )  # the last stands for a number that is never the first alone
    return first.values, places.gather(1, first.indices)


def draw_any(logits: Float[Tensor, "B V"], rules: Rules, uniforms: Sequence[float]) -> Choice:
    """Of all tokens the one whose slice of the cumulated probability holds u. The margin is u's distance to its ends.

    >>> draw_any(torch.zeros(1, 4), Rules([1.0], [0], [1.0], [0.0]), [0.6])
    Choice(tokens=tensor([2]), margins=tensor([0.1000], dtype=torch.float64))
    """
    heat, u = _columns(logits, rules.temperature, uniforms)
    return _slice(weights(logits, heat), u, torch.zeros_like(u))


def draw(logits: Float[Tensor, "B V"], rules: Rules, uniforms: Sequence[float]) -> Choice:
    """The same of what top-k, top-p and min-p leave.

    The margin is less by how far a cut that noise could move would move the slices.
    """
    heat, u = _columns(logits, rules.temperature, uniforms)
    total = torch.ones_like(heat)
    if any(rules.top_p[row] < 1 and rules.whole(row) for row in range(len(logits))):
        total = weights(logits, heat).sum(-1, keepdim=True, dtype=torch.float64)
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
        check_finite(values[:, 0])
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


def _columns(like: Tensor, *rows: Sequence[float]) -> Iterator[Float[Tensor, "B 1"]]:
    return (torch.tensor(values, dtype=torch.float64, device=like.device)[:, None] for values in rows)
