"""A small GPT in plain torch, as a reader of a book would write it: embed, blocks, head, and a cache of its own.

Every decision that somebody has got wrong is a method of its own, so that a bug is one override.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.adapter import Reading, Step

VOCABULARY, WIDTH, HEADS, LAYERS, LONGEST = 29, 24, 3, 2, 64


@dataclass
class Past:
    """What was read before: keys and values of each layer, and which of them are real."""

    keys: dict[int, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)
    keep: Tensor | None = None

    def append(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """All keys and values of a layer, these last."""
        if layer in self.keys:
            k, v = torch.cat([self.keys[layer], k], 2), torch.cat([self.values[layer], v], 2)
        self.keys[layer], self.values[layer] = k, v
        return k, v


class Attention(nn.Module):
    """softmax(q kᵀ / √K) v over the keys that `visible` (B 1 L M, True = may see) allows; 0 where it allows none."""

    def __init__(self, layer: int = 0) -> None:
        super().__init__()
        self.layer, self.scale = layer, (WIDTH // HEADS) ** -0.5
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.out = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor, visible: Tensor, positions: Tensor, past: Past | None = None) -> Tensor:
        q, k, v = self.turned(*split(self.qkv(x)), positions)
        if past is not None:
            k, v = past.append(self.layer, k, v)
        return self.out(merge(self.attend(q, k, v, visible)))

    def turned(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return q, k, v

    def attend(self, q: Tensor, k: Tensor, v: Tensor, visible: Tensor) -> Tensor:
        return self.weights(q @ k.mT * self.scale, visible) @ v

    def weights(self, scores: Tensor, visible: Tensor) -> Tensor:
        return scores.masked_fill(~visible, torch.finfo(scores.dtype).min).softmax(-1) * visible


class Rotated(Attention):
    """The same with rotary positions: only differences of positions matter."""

    def turned(self, q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        angles = self.angles(positions)
        return rotate(q, angles), rotate(k, angles), v

    def angles(self, positions: Tensor, base: float = 1000.0) -> Tensor:
        half = WIDTH // HEADS // 2
        rates = base ** -(torch.arange(half, dtype=torch.float64, device=positions.device) / half)
        return positions[:, None, :, None].double() * rates


class FeedForward(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(nn.functional.gelu(self.up(x)))


class Block(nn.Module):
    def __init__(self, layer: int, parts: "Parts") -> None:
        super().__init__()
        self.norm1, self.attention = parts.norm(), parts.attention(layer)
        self.norm2, self.feedforward = parts.norm(), parts.feedforward()

    def forward(self, x: Tensor, visible: Tensor, positions: Tensor, past: Past | None) -> Tensor:
        x = x + self.attention(self.norm1(x), visible, positions, past)
        return x + self.feedforward(self.norm2(x))


@dataclass(frozen=True)
class Parts:
    """What a model is put together from."""

    attention: Callable[[int], nn.Module] = Attention
    feedforward: Callable[[], nn.Module] = FeedForward
    norm: Callable[[], nn.Module] = lambda: nn.LayerNorm(WIDTH)
    learned: bool = True  # a vector for each position, added to the tokens


class GPT(nn.Module):
    """Logits of the next token. `attention_mask` 1 = real, `segment_ids` numbers texts that share a row."""

    def __init__(self, **parts: Any) -> None:
        super().__init__()
        found = Parts(**parts)
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.places = nn.Embedding(LONGEST, WIDTH) if found.learned else None
        self.blocks = nn.ModuleList(Block(layer, found) for layer in range(LAYERS))
        self.norm, self.head = found.norm(), nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        segment_ids: Tensor | None = None,
        past: Past | None = None,
    ) -> Tensor:
        keep = self.kept(input_ids, attention_mask, past)
        positions = self.counted(input_ids, keep, segment_ids) if position_ids is None else position_ids
        x = self.entered(self.tokens(input_ids), keep)
        x = x if self.places is None else x + self.places(positions)
        visible = self.visible(x, keep, segment_ids)
        for block in self.blocks:
            x = block(x, visible, positions, past)
        return self.finished(self.norm(x), keep)

    def finished(self, x: Tensor, keep: Tensor) -> Tensor:
        return self.head(x)

    def kept(self, tokens: Tensor, mask: Tensor | None, past: Past | None) -> Tensor:
        """Which of all keys, those of the past first, are real."""
        keep = torch.ones_like(tokens, dtype=torch.bool) if mask is None else mask.bool()
        if past is not None:
            keep = past.keep = keep if past.keep is None else torch.cat([past.keep, keep], 1)
        return keep

    def entered(self, x: Tensor, keep: Tensor) -> Tensor:
        """Padding is zeroed at the door, so that nothing in it can spread."""
        return x.masked_fill(~keep[:, -x.shape[1] :, None], 0.0)

    def counted(self, tokens: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        """The place of each token among the real ones of its text."""
        places = (keep.long().cumsum(-1) - 1).clamp(min=0)[:, -tokens.shape[1] :]
        return places if segments is None else restarted(places, segments)

    def visible(self, x: Tensor, keep: Tensor, segments: Tensor | None) -> Tensor:
        """B 1 L M: the query i of L is the key M − L + i, and sees the real ones up to itself, of its own text."""
        seen = self.order(x.shape[1], keep.shape[1]).to(x.device) & keep[:, None, None, :]
        return seen if segments is None else seen & (segments[:, None, :, None] == segments[:, None, None, :])

    def order(self, queries: int, keys: int) -> Tensor:
        return torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)


def restarted(places: Tensor, segments: Tensor) -> Tensor:
    """Places that begin again at 0 with each segment."""
    first = torch.ones_like(segments, dtype=torch.bool)
    first[:, 1:] = segments[:, 1:] != segments[:, :-1]
    return places - places.masked_fill(~first, 0).cummax(-1).values


def split(qkv: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """B L (3 D) to three of B H L K."""
    q, k, v = qkv.unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
    return q, k, v


def merge(x: Tensor) -> Tensor:
    return x.transpose(1, 2).flatten(2)


def rotate(x: Tensor, angles: Tensor) -> Tensor:
    """Turns pairs (first half, second half) by the angles."""
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    a, b = x.chunk(2, -1)
    return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)


def remembering(model: nn.Module, reading: Reading) -> Step:
    """Opens a cache of the plain GPT."""
    past = Past()

    def step(piece: Reading) -> Tensor:
        mask = None if piece.keep is None else piece.keep.long()
        return model(piece.inputs, attention_mask=mask, position_ids=piece.positions, past=past)

    return step


# How the plain GPT is called, for its adapters.
READS: dict[str, Any] = dict(vocabulary=VOCABULARY, longest=LONGEST, mask="attention_mask")
CAUSAL: dict[str, Any] = READS | dict(causal=True)
CACHED: dict[str, Any] = CAUSAL | dict(session=remembering)
