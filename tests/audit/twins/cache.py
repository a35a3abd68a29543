"""Models that answer otherwise with a cache."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from tests.audit.twins.mixers import Convolution, Linear
from tests.audit.twins.plain import CACHED, GPT, Attention, Past, Rotated
from tests.audit.twins.twin import Build, Twin, made


class TopLeft(Attention):
    """The kernel's triangle starts at the first key, not at the last: right without a cache only."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)


class LowerRight(Attention):
    def attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask)


class OffByOne(GPT):
    """The first token after a cache takes the place of the last one in it."""

    def counted(self, tokens: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        places = super().counted(tokens, keep, segments)
        return (places - 1).clamp(min=0) if keep.shape[1] > tokens.shape[1] else places


class FromZero(GPT):
    """Every piece is counted from 0."""

    def counted(self, tokens: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        return super().counted(tokens, keep[:, -tokens.shape[1] :], segments)


class ByColumns(GPT):
    """Counts real tokens at first, and columns once there is a cache."""

    def counted(self, tokens: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        if keep.shape[1] == tokens.shape[1]:
            return super().counted(tokens, keep, segments)
        return torch.arange(keep.shape[1], device=tokens.device)[-tokens.shape[1] :].expand_as(tokens)


class ForgetsPads(GPT):
    """What is in the cache is taken for real."""

    def visible(self, x: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        keep = keep.clone()
        keep[:, : -x.shape[1]] = True
        return super().visible(x, keep, segments)


class SharedRows(Attention):
    """Keys of the first row stand for all."""

    def forward(self, x: Tensor, visible: Tensor, positions: Tensor, past: Past | None = None) -> Tensor:
        if past is not None and self.layer in past.keys:
            past.keys[self.layer] = past.keys[self.layer][:1].expand(len(x), -1, -1, -1)
        return super().forward(x, visible, positions, past)


class KeysUnturned(Rotated):
    """Keys go into the cache as they are, and come out so."""

    def turned(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        self.plain = k
        return super().turned(q, k, v, positions)

    def forward(self, x: Tensor, visible: Tensor, positions: Tensor, past: Past | None = None) -> Tensor:
        found = super().forward(x, visible, positions, past)
        if past is not None:
            past.keys[self.layer] = torch.cat([past.keys[self.layer][:, :, : -x.shape[1]], self.plain], 2)
        return found


class DynamicBase(Rotated):
    """The base grows with the length that is read now; keys in the cache were turned with another."""

    def angles(self, positions: Tensor, base: float = 1000.0) -> Tensor:
        return super().angles(positions, base * (1 + float(positions.max()) / 4))


class ByLength(Attention):
    """Scores grow with the logarithm of the piece that is read."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        return super().attend(q * math.log(2 + q.shape[2]), k, v, visible)


class ByPlace(Attention):
    """Scores grow with the logarithm of how many keys a query sees."""

    def attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        return super().attend(q * (2 + visible.sum(-1, keepdim=True)).log().to(q.dtype), k, v, visible)


class Window(GPT):
    """Sees itself and the four before it."""

    def order(self, queries: int, keys: int) -> Tensor:
        return super().order(queries, keys).triu(keys - queries - 4)


class ShortWindow(Window):
    """With a cache, one less."""

    def order(self, queries: int, keys: int) -> Tensor:
        seen = super().order(queries, keys)
        return seen.triu(keys - queries - 3) if keys > queries else seen


class ShortState(Convolution):
    """Keeps one token too few, and a zero in its place."""

    def left(self, whole: Tensor) -> Tensor:
        return F.pad(whole[..., -(self.taps - 2) :], (1, 0))


class StaleState(Linear):
    """The state is that before the last token."""

    def left(self, sums: Tensor) -> Tensor:
        return sums[:, :, -2:-1] if sums.shape[2] > 1 else sums


def cached(model: type[GPT] = GPT, **parts: Any) -> Build:
    return made(lambda: model(**parts), **CACHED)


def rotated(attention: type[Rotated]) -> Build:
    return cached(attention=attention, learned=False)


ATTENTION = "blocks.0.attention"
# What depends on the length of a call depends on what comes later in it, and on padding.
LENGTH = frozenset({"causal", "padding", "quarantine", "masks"})
PLAIN = cached()
UNMASKED = {key: value for key, value in CACHED.items() if key != "mask"}

TWINS = [
    Twin(
        "causal-from-the-wrong-corner",
        "pytorch#108108",
        "cache",
        ATTENTION,
        made(lambda: GPT(attention=TopLeft), **UNMASKED),
        made(lambda: GPT(attention=LowerRight), **UNMASKED),
    ),
    Twin("cache-off-by-one", "transformers#25420", "cache", "places", cached(OffByOne), PLAIN),
    Twin("every-piece-from-zero", "x-transformers#322", "cache", "places", cached(FromZero), PLAIN),
    Twin("cache-counts-columns", "transformers#36536", "cache", "places", cached(ByColumns), PLAIN),
    Twin("cache-forgets-padding", "", "cache", ATTENTION, cached(ForgetsPads), PLAIN),
    Twin("cache-shares-rows", "", "cache", ATTENTION, cached(attention=SharedRows), PLAIN),
    Twin("cached-keys-unturned", "x-transformers#187", "cache", ATTENTION, rotated(KeysUnturned), rotated(Rotated)),
    Twin("base-follows-length", "", "cache", ATTENTION, rotated(DynamicBase), rotated(Rotated), LENGTH),
    Twin("scale-follows-piece", "", "cache", ATTENTION, cached(attention=ByLength), cached(attention=ByPlace), LENGTH),
    Twin("window-off-by-one", "", "cache", ATTENTION, cached(ShortWindow), cached(Window)),
    Twin(
        "convolution-state-too-short",
        "",
        "cache",
        ATTENTION + ".conv",
        cached(attention=ShortState),
        cached(attention=Convolution),
    ),
    Twin("state-before-the-last-token", "", "cache", ATTENTION, cached(attention=StaleState), cached(attention=Linear)),
]
