"""Which tokens a draw may choose: those with z ≥ level, where z = (logits - max) / temperature.

    top-k: the k-th largest z (Fan et al. 2018, arXiv:1805.04833)
    top-p: the z at which the largest that top-k left reach probability p (Holtzman et al. 2019, arXiv:1904.09751)
    min-p: log min_p (Nguyen et al. 2024, arXiv:2407.01082)

The highest of the three is the level; equal logits stay or go together. Where logits that differ by less than a tie
could put it elsewhere, it lies somewhere from `low` to `high`: what is above `high` surely stays.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

TIE = 1e-4  # a decision by less than this may fall the other way in float32


@dataclass(frozen=True)
class Rules:
    """How each row chooses: one number per row. Temperature 0 is greedy; top_k 0, top_p 1, min_p 0 cut nothing."""

    temperature: Sequence[float]
    top_k: Sequence[int]
    top_p: Sequence[float]
    min_p: Sequence[float]

    def cuts(self, row: int) -> bool:
        return self.top_k[row] > 0 or self.top_p[row] < 1 or self.min_p[row] > 0

    def whole(self, row: int) -> bool:
        """Whether the probability of every token is asked for."""
        return self.top_k[row] == 0 and (self.top_p[row] < 1 or self.min_p[row] == 0)

    def of(self, rows: Sequence[int]) -> "Rules":
        heat, k, p, min_p = self.temperature, self.top_k, self.top_p, self.min_p
        return Rules([heat[i] for i in rows], [k[i] for i in rows], [p[i] for i in rows], [min_p[i] for i in rows])


@dataclass(frozen=True)
class Cut:
    """The level of each row, and the two between which noise could move it."""

    level: Float[Tensor, "B 1"]
    low: Float[Tensor, "B 1"]
    high: Float[Tensor, "B 1"]

    def where(self, asked: Tensor) -> "Cut":
        return Cut(*(torch.where(asked, one, -math.inf) for one in (self.level, self.low, self.high)))

    def highest(self, other: "Cut") -> "Cut":
        pairs = ((self.level, other.level), (self.low, other.low), (self.high, other.high))
        return Cut(*(torch.maximum(*pair) for pair in pairs))


def cut(z: Float[Tensor, "B C"], rules: Rules, total: Float[Tensor, "B 1"]) -> Cut:
    """The line through each row's largest z, in falling order from 0; `total` is the sum of exp z over all tokens.

    It is right if some z is below its `low`, or if there are no others than these.

    >>> z = torch.log(torch.tensor([[1.0, 0.75, 0.5, 0.25]], dtype=torch.float64))
    >>> cut(z, Rules([1.0], [0], [0.6], [0.0]), torch.tensor([[2.5]])).level.exp().item()
    0.75
    """
    nothing = torch.full_like(z[:, :1], -math.inf)
    line = _top_k(z, rules) if any(rules.top_k) else Cut(nothing, nothing, nothing)
    if any(p < 1 for p in rules.top_p):
        line = line.highest(_top_p(z, rules, total, line))
    return line.highest(_min_p(z, rules)) if any(rules.min_p) else line


def moved(z: Float[Tensor, "B C"], line: Cut) -> Float[Tensor, "B 1"]:
    """How far a choice of the level between low and high can move a bound between tokens, in probability.

    Σ exp z over low ≤ z < high  /  Σ exp z over z ≥ high
    """
    unsure = (z >= line.low) & (z < line.high)
    if not bool(unsure.any()):
        return torch.zeros_like(line.level)
    return _weight(z, unsure) / _weight(z, z >= line.high)


def _top_k(z: Tensor, rules: Rules) -> Cut:
    """The line below the first k; a row of k = 0 has none."""
    asked = torch.tensor(rules.top_k, device=z.device)[:, None]
    count = asked.clamp(min=1, max=z.shape[1])
    return _ranked(z, count, count, count, rules).where(asked > 0)


def _top_p(z: Tensor, rules: Rules, total: Tensor, line: Cut) -> Cut:
    """The line below the last token before which less than p was reached, of what the line before has left."""
    p, whole = _column(rules.top_p, z), torch.tensor([k == 0 for k in rules.top_k], device=z.device)[:, None]
    lines = (line.level, line.low, line.high)
    total, most, least = (torch.where(whole, total, _weight(z, z >= level)) for level in lines)
    weights = z.exp()
    before = weights.cumsum(-1) - weights
    bounds = (p * total, p * most + TIE * total, p * least - TIE * total)
    count, loose, tight = ((before < bound).sum(-1, keepdim=True).clamp(min=1) for bound in bounds)
    return _ranked(z, count, loose, tight, rules).where(p < 1)


def _min_p(z: Tensor, rules: Rules) -> Cut:
    noise = _noise(rules, z)
    level = _column(rules.min_p, z).log()
    # The likeliest stays, whatever min_p is, if it surely is the likeliest.
    return Cut(level, level - noise, torch.minimum(level, z[:, 1:2]) + noise if z.shape[1] > 1 else level)


def _ranked(z: Tensor, count: Tensor, loose: Tensor, tight: Tensor, rules: Rules) -> Cut:
    """The line below the first `count` of z, which may as well be `loose` to `tight` of them."""
    noise, last = _noise(rules, z), z.shape[1] - 1
    following = torch.where(tight > last, -math.inf, z.gather(1, tight.clamp(max=last)))
    return Cut(z.gather(1, count - 1), z.gather(1, loose - 1) - noise, following + noise)


def _weight(z: Tensor, chosen: Tensor) -> Float[Tensor, "B 1"]:
    return (z.exp() * chosen).sum(-1, keepdim=True)


def _noise(rules: Rules, like: Tensor) -> Float[Tensor, "B 1"]:
    """A tie of logits, as a difference of z."""
    return TIE / _column(rules.temperature, like)


def _column(values: Sequence[float], like: Tensor) -> Float[Tensor, "B 1"]:
    return torch.tensor(values, dtype=like.dtype, device=like.device)[:, None]
