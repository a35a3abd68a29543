"""An encoder-decoder of the plain GPT's parts, and the masks that belong on its three attentions."""

from typing import Any

import torch
from torch import Tensor, nn

from tests.audit.twins.plain import HEADS, LONGEST, VOCABULARY, WIDTH, Attention, FeedForward, merge
from tests.audit.twins.twin import Build, Twin, made


class Cross(nn.Module):
    """What a target gathers from the source."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.kv, self.out = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, source: Tensor, visible: Tensor) -> Tensor:
        q = self.q(x).unflatten(-1, (HEADS, -1)).transpose(1, 2)
        k, v = self.kv(source).unflatten(-1, (2, HEADS, -1)).permute(2, 0, 3, 1, 4)
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~visible, torch.finfo(q.dtype).min)
        return self.out(merge((scores.softmax(-1) * visible) @ v))


class ModuleDeviation(nn.Module):
    def __init__(self, cross: bool) -> None:
        super().__init__()
        self.norm1, self.attention = nn.LayerNorm(WIDTH), Attention()
        self.norm2, self.cross = (nn.LayerNorm(WIDTH), Cross()) if cross else (None, None)
        self.norm3, self.feedforward = nn.LayerNorm(WIDTH), FeedForward()

    def forward(
        self, x: Tensor, visible: Tensor, places: Tensor, source: Tensor | None = None, seen: Tensor | None = None
    ) -> Tensor:
        x = x + self.attention(self.norm1(x), visible, places)
        if self.cross is not None and self.norm2 is not None:
            x = x + self.cross(self.norm2(x), source, seen)
        return x + self.feedforward(self.norm3(x))


class Translator(nn.Module):
    """Logits of the target's next token; masks 1 = real."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.encoder = nn.ModuleList(ModuleDeviation(cross=False) for _ in range(2))
        self.decoder = nn.ModuleList(ModuleDeviation(cross=True) for _ in range(2))
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        decoder_input_ids: Tensor | None = None,
        decoder_attention_mask: Tensor | None = None,
    ) -> Tensor:
        assert decoder_input_ids is not None
        keep, kept = real(input_ids, attention_mask), real(decoder_input_ids, decoder_attention_mask)
        source, places = self.embedded(input_ids, keep)
        for layer in self.encoder:
            source = layer(source, self.both_ways(keep), places)
        x, places = self.embedded(decoder_input_ids, kept)
        for layer in self.decoder:
            x = layer(x, self.back(kept), places, source, self.across(keep, kept))
        return self.head(x)

    def embedded(self, tokens: Tensor, keep: Tensor) -> tuple[Tensor, Tensor]:
        places = (keep.long().cumsum(1) - 1).clamp(min=0)
        return self.tokens(tokens) + self.places(places), places

    def both_ways(self, keep: Tensor) -> Tensor:
        """Which keys the encoder sees: B 1 1 M."""
        return keep[:, None, None]

    def back(self, kept: Tensor) -> Tensor:
        """Which keys of its own the decoder sees: B 1 L L."""
        return kept[:, None, None] & triangle(kept)

    def across(self, keep: Tensor, kept: Tensor) -> Tensor:
        """Which keys of the source the decoder sees: B 1 1 M."""
        return keep[:, None, None]


class TargetsMask(Translator):
    """Cross-attention is given the mask of the target, cut or filled to the source's length."""

    def across(self, keep: Tensor, kept: Tensor) -> Tensor:
        fitted = torch.ones_like(keep)
        many = min(keep.shape[1], kept.shape[1])
        fitted[:, :many] = kept[:, :many]
        return fitted[:, None, None]


class NoCrossMask(Translator):
    def across(self, keep: Tensor, kept: Tensor) -> Tensor:
        return torch.ones_like(keep)[:, None, None]


class CausalEncoder(Translator):
    """The decoder's mask on the encoder: the source is read one way only."""

    def both_ways(self, keep: Tensor) -> Tensor:
        return keep[:, None, None] & triangle(keep)


class EncoderUnmasked(Translator):
    def both_ways(self, keep: Tensor) -> Tensor:
        return torch.ones_like(keep)[:, None, None]


class DecoderBothWays(Translator):
    """The encoder's mask on the decoder."""

    def back(self, kept: Tensor) -> Tensor:
        return kept[:, None, None]


class TargetPadsSeen(Translator):
    """The decoder's own mask is the triangle alone."""

    def back(self, kept: Tensor) -> Tensor:
        return triangle(kept)[None, None]


def real(tokens: Tensor, mask: Tensor | None) -> Tensor:
    return torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask.bool()


def triangle(keep: Tensor) -> Tensor:
    return torch.ones(keep.shape[1], keep.shape[1], dtype=torch.bool, device=keep.device).tril()


READS: dict[str, Any] = dict(
    vocabulary=VOCABULARY, source_vocabulary=VOCABULARY, longest=LONGEST, causal=True,
    argument="decoder_input_ids", mask="decoder_attention_mask", source="input_ids", source_mask="attention_mask",
)  # fmt: skip


def translator(model: type[Translator] = Translator) -> Build:
    return made(model, **READS)


PADS = frozenset({"padding", "quarantine", "empty"})
PLAIN = translator()

TWINS = [
    Twin("targets-mask-on-the-source", "", "masks", "decoder.0.cross", translator(TargetsMask), PLAIN, PADS),
    Twin("source-padding-seen", "", "masks", "decoder.0.cross", translator(NoCrossMask), PLAIN, PADS),
    Twin(
        "encoder-reads-one-way",
        "",
        "masks",
        "encoder.0.attention",
        translator(CausalEncoder),
        PLAIN,
        frozenset({"quarantine"}),
    ),
    Twin("encoder-sees-padding", "", "masks", "encoder.0.attention", translator(EncoderUnmasked), PLAIN, PADS),
    Twin(
        "decoder-reads-both-ways",
        "",
        "causal",
        "decoder.0.attention",
        translator(DecoderBothWays),
        PLAIN,
        PADS | {"masks"},
    ),
    Twin(
        "target-padding-seen", "", "padding", "decoder.0.attention", translator(TargetPadsSeen), PLAIN, PADS | {"masks"}
    ),
]
