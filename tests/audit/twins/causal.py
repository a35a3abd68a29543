"""Models that see the future."""

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.audit.twins.mixers import Convolution, Linear, Routed, Shift
from tests.audit.twins.plain import CAUSAL, GPT, WIDTH, Attention, FeedForward
from tests.audit.twins.twin import Twin, made


class InvertedMask(GPT):
    def order(self, queries: int, keys: int) -> Tensor:
        return ~super().order(queries, keys)


class OneAhead(GPT):
    def order(self, queries: int, keys: int) -> Tensor:
        return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries + 1)


class TwoSidedWindow(GPT):
    """A window of three, to the right as well."""

    def order(self, queries: int, keys: int) -> Tensor:
        apart = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)
        return apart.abs() < 3


class OneSidedWindow(TwoSidedWindow):
    def order(self, queries: int, keys: int) -> Tensor:
        return super().order(queries, keys).tril(keys - queries)


class OverQueries(Attention):
    """A column of weights sums to one, not a row: what a key gives depends on all who ask."""

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, torch.finfo(scores.dtype).min).softmax(-2) * visible


class ReversedSum(Linear):
    def running(self, terms: Tensor) -> Tensor:
        return terms.flip(2).cumsum(2).flip(2)


class WholeChunk(Linear):
    """Sums chunk by chunk, and forgets the triangle inside a chunk."""

    def running(self, terms: Tensor) -> Tensor:
        pieces = terms.split(4, 2)
        totals = torch.stack([piece.sum(2) for piece in pieces], 2).cumsum(2)
        return totals.repeat_interleave(4, 2)[:, :, : terms.shape[2]]


class PeekOfOne(Convolution):
    """Two zeros before and one after, as "same" padding puts them."""

    def padded(self, x: Tensor, past: object = None) -> Tensor:
        return F.pad(x, (2, 1))


class ShiftBack(Shift):
    def moved(self, x: Tensor) -> Tensor:
        return F.pad(x, (0, 0, 0, 1))[:, 1:]


class WithMean(FeedForward):
    """Adds what the text is about."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x + x.mean(1, keepdim=True))


class OverTime(torch.nn.LayerNorm):
    """Centres each channel over the text: batch norm's axis, one item at a time."""

    def forward(self, input: Tensor) -> Tensor:
        spread = input.var(1, correction=0, keepdim=True) + self.eps
        return (input - input.mean(1, keepdim=True)) * spread.rsqrt() * self.weight + self.bias


class ExpertsChoose(Routed):
    """Each expert takes the two tokens of the text that it likes best (expert choice: arXiv:2202.09368)."""

    def chosen(self, share: Tensor) -> Tensor:
        return share >= share.topk(min(2, share.shape[1]), 1).values[:, -1:]


class OnlyGradient(FeedForward):
    """Values are right; the gradient of each token reaches all others."""

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        return super().forward(x) + mean - mean.detach()


def experts_choose() -> torch.nn.Module:
    """In the first layer only: a choice need not change in each, and the smallest example would be of either."""
    model = GPT(feedforward=Routed)
    model.blocks[0].feedforward.__class__ = ExpertsChoose
    return model


def norm_over_time() -> torch.nn.Module:
    return OverTime(WIDTH, eps=0.1)


ATTENTION, FEED = "blocks.0.attention", "blocks.0.feedforward"
# Who hears later inputs hears padding behind the text.
PADS = frozenset({"padding", "quarantine", "masks"})
PLAIN = made(GPT, **CAUSAL)
LINEAR, CONV, SHIFT = (made(lambda p=p: GPT(attention=p), **CAUSAL) for p in (Linear, Convolution, Shift))

TWINS = [
    Twin("inverted-mask", "LLMs-from-scratch#1061", "causal", ATTENTION, made(InvertedMask, **CAUSAL), PLAIN),
    Twin("mask-one-ahead", "", "causal", ATTENTION, made(OneAhead, **CAUSAL), PLAIN),
    Twin("two-sided-window", "", "causal", ATTENTION, made(TwoSidedWindow, **CAUSAL), made(OneSidedWindow, **CAUSAL)),
    Twin(
        "softmax-over-queries", "", "causal", ATTENTION, made(lambda: GPT(attention=OverQueries), **CAUSAL), PLAIN, PADS
    ),
    Twin(
        "reversed-cumulative-sum", "", "causal", ATTENTION, made(lambda: GPT(attention=ReversedSum), **CAUSAL), LINEAR
    ),
    Twin(
        "chunk-sees-its-rest", "", "causal", ATTENTION, made(lambda: GPT(attention=WholeChunk), **CAUSAL), LINEAR, PADS
    ),
    Twin(
        "convolution-peeks", "", "causal", ATTENTION + ".conv", made(lambda: GPT(attention=PeekOfOne), **CAUSAL), CONV
    ),
    Twin("token-shift-backwards", "", "causal", ATTENTION, made(lambda: GPT(attention=ShiftBack), **CAUSAL), SHIFT),
    Twin(
        "mean-over-text", "nanochat#844", "causal", FEED, made(lambda: GPT(feedforward=WithMean), **CAUSAL), PLAIN, PADS
    ),
    Twin(
        "norm-over-time",
        "",
        "causal",
        "blocks.0.norm1",
        made(lambda: GPT(norm=norm_over_time), **CAUSAL),
        PLAIN,
        PADS | {"norm"},
    ),
    Twin(
        "experts-choose-tokens",
        "",
        "causal",
        FEED,
        made(experts_choose, **CAUSAL),
        made(lambda: GPT(feedforward=Routed), **CAUSAL),
        PADS,
    ),
    Twin(
        "gradient-only-leak",
        "nanochat#844",
        "causal",
        FEED,
        made(lambda: GPT(feedforward=OnlyGradient), **CAUSAL),
        PLAIN,
        PADS,
    ),
]
