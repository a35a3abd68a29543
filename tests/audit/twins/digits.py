"""Models whose numbers go wrong: precision, norms, infinities, rows of nothing."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.audit.twins.encoder import BOTH_WAYS, Encoder, Mean, Pooled
from tests.audit.twins.plain import CAUSAL, GPT, WIDTH, Attention, FeedForward, Rotated, rotate
from tests.audit.twins.twin import Build, Twin, made


class AutocastLeftOn(FeedForward):
    def forward(self, x: Tensor) -> Tensor:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return super().forward(x).to(x.dtype)


class AnglesRounded(Rotated):
    """Positions and rates are multiplied in the numbers of the weights."""

    def turned(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        rates = self.angles(torch.ones_like(positions[:1, :1])).to(q.dtype)
        angles = positions[:, None, :, None].to(q.dtype) * 7 * rates
        return rotate(q, angles), rotate(k, angles), v


class AnglesExact(Rotated):
    def angles(self, positions: Tensor, base: float = 1000.0) -> Tensor:
        return super().angles(positions, base) * 7


class HalfScores(Attention):
    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores.half(), visible).to(scores.dtype)


class Scaled(nn.LayerNorm):
    """A layer norm whose scales are not all 1, as after training."""

    def __init__(self) -> None:
        super().__init__(WIDTH)
        nn.init.normal_(self.weight, 1.0, 0.4)


class ScaleTwice(Scaled):
    def forward(self, input: Tensor) -> Tensor:
        return (super().forward(input) - self.bias) * self.weight + self.bias


class OneLess(Scaled):
    """The variance of a sample: divided by the width less one."""

    def forward(self, input: Tensor) -> Tensor:
        centred = input - input.mean(-1, keepdim=True)
        return centred / (input.var(-1, keepdim=True) + self.eps).sqrt() * self.weight + self.bias


class OverEverything(nn.RMSNorm):
    """The mean of squares is that of the batch."""

    def __init__(self) -> None:
        super().__init__(WIDTH, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return x * (x.pow(2).mean() + 1e-6).rsqrt() * self.weight


class WithoutMaximum(Attention):
    """exp overflows where the largest score is not taken off first."""

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        found = scores.exp() * visible
        return found / found.sum(-1, keepdim=True).clamp(min=1e-9)


class LogOfSoftmax(GPT):
    def finished(self, x: Tensor, keep: Tensor) -> Tensor:
        return super().finished(x, keep).softmax(-1).log()


class LogSoftmax(GPT):
    def finished(self, x: Tensor, keep: Tensor) -> Tensor:
        return super().finished(x, keep).log_softmax(-1)


class UnitLength(nn.Module):
    """x / |x|, and a root whose slope at 0 is infinite."""

    def forward(self, x: Tensor) -> Tensor:
        return x / x.pow(2).sum(-1, keepdim=True).sqrt()


class UnitLengthFloored(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.normalize(x, dim=-1, eps=1e-6)


class MinusInfinity(Attention):
    """A row that sees nothing is 0 / 0."""

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, float("-inf")).softmax(-1)


class MeanOfNone(nn.Module):
    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return x.masked_fill(~keep[..., None], 0.0).sum(1) / keep.sum(1, keepdim=True)


def gpt(model: type[GPT] = GPT, **parts: Any) -> Build:
    return made(lambda: model(**parts), **CAUSAL)


def pooled(pooler: type[nn.Module]) -> Build:
    return made(lambda: Pooled(pooler), **BOTH_WAYS)


def encoder(attention: type[Attention]) -> Build:
    return made(lambda: Encoder(attention=attention), **BOTH_WAYS)


ATTENTION, FEED, NORM = "blocks.0.attention", "blocks.0.feedforward", "blocks.0.norm1"
SPREAD = frozenset({"causal", "padding", "quarantine", "batch", "masks", "empty"})
PADS = frozenset({"padding", "quarantine", "masks", "empty"})

TWINS = [
    Twin("autocast-left-on", "", "dtype", FEED, gpt(feedforward=AutocastLeftOn), gpt()),
    Twin(
        "angles-in-the-models-numbers",
        "",
        "dtype",
        ATTENTION,
        gpt(attention=AnglesRounded, learned=False),
        gpt(attention=AnglesExact, learned=False),
    ),
    Twin("scores-in-half", "", "dtype", ATTENTION, gpt(attention=HalfScores), gpt()),
    Twin("scale-applied-twice", "", "norm", NORM, gpt(norm=ScaleTwice), gpt(norm=Scaled)),
    Twin("variance-of-a-sample", "", "norm", NORM, gpt(norm=OneLess), gpt(norm=Scaled)),
    Twin(
        "norm-over-the-batch",
        "",
        "norm",
        NORM,
        gpt(norm=OverEverything),
        gpt(norm=lambda: nn.RMSNorm(WIDTH, eps=1e-6)),
        SPREAD,
    ),
    Twin(
        "softmax-without-maximum",
        "",
        "finite",
        ATTENTION,
        gpt(attention=WithoutMaximum, norm=nn.Identity),
        gpt(norm=nn.Identity),
    ),
    Twin("log-of-softmax", "", "finite", "", gpt(LogOfSoftmax, norm=nn.Identity), gpt(LogSoftmax, norm=nn.Identity)),
    Twin(
        "root-of-zero",
        "",
        "finite",
        NORM,
        gpt(norm=UnitLength, learned=False),
        gpt(norm=UnitLengthFloored, learned=False),
        PADS,
    ),
    Twin("row-of-minus-infinity", "transformers#38690", "empty", ATTENTION, encoder(MinusInfinity), encoder(Attention)),
    # Padding itself is NaN after the first layer, which is nobody's business; the second lets it out.
    Twin("left-padded-nan", "unsloth#9848", "padding", "blocks.1.attention", gpt(attention=MinusInfinity), gpt(), PADS),
    Twin("mean-of-none", "", "empty", "pooler", pooled(MeanOfNone), pooled(Mean)),
]
