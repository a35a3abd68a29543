"""Models whose answer changes with padding, and those that padding full of NaN poisons."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.audit.twins.encoder import BOTH_WAYS, Encoder, First, Last, Mean, Pooled
from tests.audit.twins.mixers import Convolution, Linear
from tests.audit.twins.plain import CAUSAL, GPT, WIDTH, Attention
from tests.audit.twins.twin import Build, Twin, made


class CountsPads(GPT):
    """0, 1, 2 … from the left edge, whatever stands there."""

    def counted(self, tokens: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        return torch.arange(tokens.shape[1], device=tokens.device).expand_as(tokens)


class FromTheEnd(Encoder):
    """The last column is the last place, pads or not."""

    def counted(self, tokens: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        return super().counted(tokens, keep, segments) + (~keep).long().sum(1, keepdim=True)


class PadByToken(Encoder):
    """Padding is what bears the token 1; the mask is for the attention only."""

    def counted(self, tokens: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        return super().counted(tokens, tokens != 1, segments)


class Unguarded(Encoder):
    """Padding enters as it is, and no norm keeps what it holds within bounds."""

    def __init__(self, first: type[Attention]) -> None:
        super().__init__(attention=lambda layer: (Attention if layer else first)(layer), norm=nn.Identity)

    def entered(self, x: Tensor, keep: Tensor) -> Tensor:
        return x


class MinusTenThousand(Attention):
    """Enough for scores of a few hundreds."""

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores + torch.where(visible, 0.0, -1e4)).softmax(-1)


class OnlyCausal(Attention):
    """The kernel's own triangle, in place of the mask that was given."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class HidesQueries(Attention):
    """The mask the wrong way round: rows for columns."""

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return super().weights(scores, visible.mT)


class AddsMask(Attention):
    """0 and 1 are added to the scores, as if they were 0 and minus infinity."""

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return (scores + visible.to(scores.dtype)).softmax(-1)


class Smears(Convolution):
    """Padding takes part in the convolution."""

    def hidden(self, x: Tensor, keep: Tensor) -> Tensor:
        return x


class SumsPads(Linear):
    def hidden(self, k: Tensor, keep: Tensor) -> Tensor:
        return k


class MeanOverAll(nn.Module):
    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return x.mean(1)


class LastColumn(nn.Module):
    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return x[:, -1]


class FirstColumn(nn.Module):
    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return x[:, 0]


class OpenDoor(GPT):
    """Padding enters as it is: its weight is 0, but 0 · NaN is NaN."""

    def entered(self, x: Tensor, keep: Tensor) -> Tensor:
        return x


class TimesZero(GPT):
    """Padding is zeroed by a product."""

    def entered(self, x: Tensor, keep: Tensor) -> Tensor:
        return x * keep[:, -x.shape[1] :, None]


class MeanByProduct(nn.Module):
    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return (x * keep[..., None]).sum(1) / keep.sum(1, keepdim=True).clamp(min=1)


class Bag(nn.Module):
    """Words without order: embed, pool, a layer."""

    def __init__(self, pooler: type[nn.Module] = Mean) -> None:
        super().__init__()
        self.tokens, self.dense, self.pooler = nn.Embedding(29, WIDTH), nn.Linear(WIDTH, WIDTH), pooler()

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        keep = torch.ones_like(input_ids).bool() if attention_mask is None else attention_mask.bool()
        return self.dense(self.pooler(self.tokens(input_ids), keep))


def gpt(attention: type[nn.Module]) -> Build:
    return made(lambda: GPT(attention=attention), **CAUSAL)


def encoder(attention: type[nn.Module] = Attention) -> Build:
    return made(lambda: Encoder(attention=attention), **BOTH_WAYS)


def pooled(pooler: type[nn.Module]) -> Build:
    return made(lambda: Pooled(pooler), **BOTH_WAYS)


def bag(pooler: type[nn.Module]) -> Build:
    return made(lambda: Bag(pooler), vocabulary=29, mask="attention_mask")


ATTENTION, ALIKE = "blocks.0.attention", frozenset({"masks", "quarantine", "empty"})
PLAIN = made(GPT, **CAUSAL)

TWINS = [
    Twin(
        "positions-ignore-left-padding",
        "transformers#29029",
        "padding",
        "places",
        made(CountsPads, **CAUSAL),
        PLAIN,
        ALIKE,
    ),
    Twin(
        "positions-from-the-end",
        "TransformerLens#1609",
        "padding",
        "places",
        made(FromTheEnd, **BOTH_WAYS),
        encoder(),
        ALIKE,
    ),
    Twin(
        "padding-told-by-its-token",
        "transformers#26569",
        "padding",
        "places",
        made(PadByToken, **BOTH_WAYS),
        encoder(),
        ALIKE,
    ),
    Twin(
        "minus-ten-thousand",
        "",
        "padding",
        ATTENTION,
        made(lambda: Unguarded(MinusTenThousand), **BOTH_WAYS),
        made(lambda: Unguarded(Attention), **BOTH_WAYS),
        ALIKE,
    ),
    Twin("is-causal-drops-the-mask", "", "padding", ATTENTION, gpt(OnlyCausal), PLAIN, ALIKE),
    Twin("mask-on-queries", "", "padding", ATTENTION, encoder(HidesQueries), encoder(), ALIKE),
    Twin("mask-is-added-as-it-is", "", "padding", ATTENTION, encoder(AddsMask), encoder(), ALIKE),
    Twin("convolution-over-pads", "", "padding", ATTENTION + ".conv", gpt(Smears), gpt(Convolution), ALIKE),
    Twin("linear-attention-sums-pads", "", "padding", ATTENTION, gpt(SumsPads), gpt(Linear), ALIKE),
    Twin("mean-over-pads", "", "padding", "pooler", pooled(MeanOverAll), pooled(Mean), ALIKE),
    Twin("last-column", "", "padding", "pooler", pooled(LastColumn), pooled(Last), ALIKE),
    Twin("first-column", "", "padding", "pooler", pooled(FirstColumn), pooled(First), ALIKE),
    Twin("nan-in-hidden-input", "pytorch#101967", "quarantine", ATTENTION, made(OpenDoor, **CAUSAL), PLAIN),
    Twin("padding-times-zero", "", "quarantine", ATTENTION, made(TimesZero, **CAUSAL), PLAIN),
    Twin("mean-times-zero", "", "quarantine", "pooler", bag(MeanByProduct), bag(Mean)),
]
