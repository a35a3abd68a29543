"""Models in which an item's result depends on its companions, or a text on another in its row."""

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from headway.adapt.adapter import Reading
from tests.audit.twins.mixers import Convolution, Routed
from tests.audit.twins.plain import CAUSAL, GPT, HEADS, WIDTH, Attention, FeedForward, Past
from tests.audit.twins.twin import Build, Twin, made


class BatchStatistics(nn.BatchNorm1d):
    """Batch norm over the width that goes on taking the batch's own mean when it is no longer trained."""

    def __init__(self) -> None:
        super().__init__(WIDTH)

    def forward(self, input: Tensor) -> Tensor:
        rows = input.flatten(0, 1)
        mean, spread = rows.mean(0), rows.var(0, correction=0)
        return (input - mean) * (spread + self.eps).rsqrt() * self.weight + self.bias


class RunningStatistics(nn.BatchNorm1d):
    def __init__(self) -> None:
        super().__init__(WIDTH)

    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input.flatten(0, 1)).view_as(input)


class Capacity(Routed):
    """An expert takes six tokens of the whole batch, first come first served."""

    def chosen(self, share: Tensor) -> Tensor:
        wanted = super().chosen(share)
        return wanted & (wanted.flatten(0, 1).long().cumsum(0).view_as(wanted) <= 6)


class Eight(FeedForward):
    """Computes with eight bits and one scale a token."""

    def forward(self, x: Tensor) -> Tensor:
        scale = self.scale(x)
        return super().forward((x * 127 / scale).round() * scale / 127)

    def scale(self, x: Tensor) -> Tensor:
        return x.abs().amax(-1, keepdim=True)


class EightTogether(Eight):
    """One scale for the batch."""

    def scale(self, x: Tensor) -> Tensor:
        return x.abs().amax()


class HeadsFirst(Attention):
    """Heads are folded into the batch; the mask is repeated item by item, as they lie."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        flat = self.repeated(visible.expand(-1, 1, q.shape[2], k.shape[2])[:, 0])
        found = super().attend(q.flatten(0, 1), k.flatten(0, 1), v.flatten(0, 1), flat)
        return found.unflatten(0, (-1, HEADS))

    def repeated(self, visible: Tensor) -> Tensor:
        return visible.repeat_interleave(HEADS, 0)


class MaskLaidWrong(HeadsFirst):
    """… head by head, so that an item meets the mask of another."""

    def repeated(self, visible: Tensor) -> Tensor:
        return visible.repeat(HEADS, 1, 1)


class OneRow(GPT):
    """Positions restart, but every text sees those before it in the row."""

    def visible(self, x: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        return super().visible(x, keep, None)


class OneCount(GPT):
    """Texts do not see each other, but positions go on counting."""

    def counted(self, tokens: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        return super().counted(tokens, keep, None)


class WithinText(Convolution):
    """A tap reaches back only to what may be seen."""

    def forward(self, x: Tensor, visible: Tensor, positions: Tensor, past: Past | None = None) -> Tensor:
        found, weight = self.conv.bias.expand_as(x), self.conv.weight[:, 0]
        for back in range(min(self.taps, x.shape[1])):
            seen = F.pad(visible[:, 0].diagonal(-back, 1, 2), (back, 0))[..., None]
            moved = F.pad(x, (0, 0, back, 0))[:, : x.shape[1]]
            found = found + weight[:, -1 - back] * moved.masked_fill(~seen, 0.0)
        return self.out(F.silu(found))


def apart(reading: Reading) -> dict[str, Any]:
    return {"segment_ids": reading.segments}


PACKED: dict[str, Any] = CAUSAL | dict(segments=apart)


def gpt(**parts: Any) -> Build:
    return made(lambda: GPT(**parts), **CAUSAL)


def packed(model: type[GPT] = GPT, **parts: Any) -> Build:
    return made(lambda: model(**parts), **PACKED)


def limited() -> nn.Module:
    model = GPT(feedforward=Routed)
    model.blocks[0].feedforward.__class__ = Capacity
    return model


ATTENTION, FEED, NORM = "blocks.0.attention", "blocks.0.feedforward", "blocks.0.norm1"
OTHERS = frozenset({"causal", "padding", "quarantine", "masks", "norm", "empty"})

TWINS = [
    Twin(
        "batch-statistics-in-use",
        "vllm#5898",
        "batch",
        NORM,
        gpt(norm=BatchStatistics),
        gpt(norm=RunningStatistics),
        OTHERS,
    ),
    Twin(
        "experts-of-limited-capacity",
        "vllm#51187",
        "batch",
        FEED,
        made(limited, **CAUSAL),
        gpt(feedforward=Routed),
        OTHERS,
    ),
    Twin(
        "one-scale-for-the-batch",
        "llama.cpp#6950",
        "batch",
        FEED,
        gpt(feedforward=EightTogether),
        gpt(feedforward=Eight),
        OTHERS,
    ),
    Twin(
        "mask-of-another-item",
        "",
        "padding",
        ATTENTION,
        gpt(attention=MaskLaidWrong),
        gpt(attention=HeadsFirst),
        OTHERS,
    ),
    Twin("texts-see-each-other", "", "segments", ATTENTION, packed(OneRow), packed()),
    Twin("positions-not-restarted", "", "segments", "places", packed(OneCount), packed()),
    Twin(
        "convolution-across-texts",
        "",
        "segments",
        ATTENTION + ".conv",
        packed(attention=Convolution),
        packed(attention=WithinText),
    ),
]
