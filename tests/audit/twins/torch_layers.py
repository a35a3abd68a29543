"""The same bugs in torch's own layers."""

from typing import Any

import torch
from torch import Tensor, nn

from tests.audit.twins.plain import HEADS, VOCABULARY, WIDTH
from tests.audit.twins.twin import Build, Twin, made


class Torch(nn.Module):
    """An embedding, torch's encoder and a head. `attention_mask` 1 = real."""

    def __init__(self, zero: bool = False) -> None:
        super().__init__()
        layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, 0.0, batch_first=True)
        # A key of zeros, for rows that see no other.
        layer.self_attn.add_zero_attn = zero
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(64, WIDTH)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        keep = torch.ones_like(input_ids, dtype=torch.bool) if attention_mask is None else attention_mask.bool()
        x = self.tokens(input_ids) + self.places((keep.long().cumsum(1) - 1).clamp(min=0))
        return self.head(self.encoder(x, **self.masks(keep)))

    def masks(self, keep: Tensor) -> dict[str, Any]:
        return {"src_key_padding_mask": ~keep}


class RealForHidden(Torch):
    """True = real, where torch's encoder reads True = hidden."""

    def masks(self, keep: Tensor) -> dict[str, Any]:
        return {"src_key_padding_mask": keep}


class Backwards(Torch):
    """Reads what came before: True = hidden."""

    def masks(self, keep: Tensor) -> dict[str, Any]:
        return {"mask": ~torch.ones(keep.shape[1], keep.shape[1], dtype=torch.bool).tril()}


class SeenForHidden(Torch):
    """The triangle that scaled_dot_product_attention wants, given to the encoder, which reads it the other way."""

    def masks(self, keep: Tensor) -> dict[str, Any]:
        return {"mask": torch.ones(keep.shape[1], keep.shape[1], dtype=torch.bool).tril()}


class Looked(nn.Module):
    """One layer of torch's attention; `weights` asks it for what it looked at, which takes another path inside."""

    def __init__(self, weights: bool) -> None:
        super().__init__()
        self.weights = weights
        self.tokens, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True)

    def forward(self, input_ids: Tensor, attention_mask: Tensor | None = None) -> Tensor:
        x = self.tokens(input_ids)
        hidden = None if attention_mask is None else ~attention_mask.bool()
        found, _ = self.attention(x, x, x, key_padding_mask=hidden, need_weights=self.weights)
        return self.head(x + found)


class Over(nn.Module):
    """Layers that are told, or not, which axis is the batch."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.tokens, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY)
        self.layers = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, HEADS, 2 * WIDTH, 0.0, batch_first=batch_first) for _ in range(2)
        )

    def forward(self, input_ids: Tensor) -> Tensor:
        x = self.tokens(input_ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


BARE: dict[str, Any] = dict(vocabulary=VOCABULARY, longest=64)
MASKED: dict[str, Any] = BARE | dict(mask="attention_mask", causal=False)
CAUSAL: dict[str, Any] = BARE | dict(causal=True)
FIRST = "encoder.layers.0.self_attn"


def causal(model: type[Torch]) -> Build:
    return made(lambda: model(zero=True), **CAUSAL)


TWINS = [
    Twin(
        "real-for-hidden",
        "pytorch#170415",
        "padding",
        FIRST,
        made(RealForHidden, **MASKED),
        made(Torch, **MASKED),
        frozenset({"masks", "empty", "quarantine"}),
    ),
    Twin("seen-for-hidden", "pytorch#170415", "causal", FIRST, causal(SeenForHidden), causal(Backwards)),
    Twin(
        "batch-for-time",
        "",
        "batch",
        "layers.0.self_attn",
        made(lambda: Over(False), **BARE),
        made(lambda: Over(True), **BARE),
    ),
    Twin(
        "nan-for-a-row-of-padding",
        "pytorch#190486",
        "empty",
        "attention",
        made(lambda: Looked(weights=True), **MASKED),
        made(lambda: Looked(weights=False), **MASKED),
        frozenset({"quarantine"}),
    ),
]
