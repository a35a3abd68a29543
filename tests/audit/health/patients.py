"""Models to look at: headway's own with chosen flaws, a plain one that writes its attention in many ways, and GPT-2."""

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, LanguageConfig, StackConfig
from tests.fresh import fresh

WIDTH, HEADS, LAYERS, VOCABULARY = 44, 4, 3, 53
# From normalised inputs of this width, weights of this size give q and k of variance 1.
ONE = 1 / math.sqrt(WIDTH)


def tokens(length: int = 29, batch: int = 2) -> Tensor:
    return torch.randint(VOCABULARY, (batch, length), generator=torch.Generator().manual_seed(3))


def decoder(*, std: float = ONE, layers: int = LAYERS, seed: int = 0, block: Any = None, **attention: Any) -> Any:
    """A language model of headway with heads of width 11."""
    parts = {"norm": "layer", "order": "pre"} | (block or {})
    own = AttentionConfig(width=WIDTH, heads=HEADS, causal=True, **attention)
    body = BlockConfig(attention=own, feedforward=FeedForwardConfig(hidden=61), **parts)
    stack = StackConfig(block=body, layers=layers, final_norm=True)
    return fresh(LanguageConfig(vocabulary=VOCABULARY, length=64, stack=stack, tied=False), seed=seed, std=std)


def attention_of(model: Any, layer: int) -> Any:
    return model.stack.blocks[layer].attention


def head_rows(layer: Any, head: int) -> slice:
    """The rows of a projection that belong to a head."""
    wide = layer.config.head_width
    return slice(head * wide, (head + 1) * wide)


class Plain(nn.Module):
    """One attention layer as people write them; `way` is how its scores and outputs are computed."""

    def __init__(self, way: str = "kernel", *, scale: float | None = None, normalise: bool = False) -> None:
        super().__init__()
        self.way, self.normalise, self.num_heads = way, normalise, HEADS
        self.scale = (WIDTH // HEADS) ** -0.5 if scale is None else scale
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(3))
        draw = torch.Generator().manual_seed(7)
        for part in (self.q, self.k, self.v):
            nn.init.normal_(part.weight, std=ONE, generator=draw)

    def forward(self, x: Tensor, hidden: Tensor | None = None) -> Tensor:
        """`hidden`: True where a key may not be seen, broadcast to B H L M."""
        q, k, v = (part(x).unflatten(-1, (HEADS, -1)).transpose(1, 2) for part in (self.q, self.k, self.v))
        if self.normalise:
            q, k = (F.rms_norm(one, one.shape[-1:]) for one in (q, k))
        return getattr(self, f"_{self.way}")(q, k, v, hidden).transpose(1, 2).flatten(2)

    def _kernel(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, None if hidden is None else ~hidden, scale=self.scale)

    def _twice(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        return F.scaled_dot_product_attention(q * self.scale, k, v, None if hidden is None else ~hidden)

    def _written(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        scores = q @ k.transpose(-1, -2) * self.scale
        scores = scores if hidden is None else scores.masked_fill(hidden, -torch.inf)
        return F.dropout(scores.softmax(-1), 0.1, training=False) @ v

    def _before(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        q = (q.transpose(1, 2) * self.scale).transpose(1, 2).contiguous()
        scores = torch.matmul(q, k.mT)
        scores = scores if hidden is None else scores + hidden * -1e9
        return torch.matmul(torch.softmax(scores, dim=-1), v)

    def _together(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        """Batch and heads in one axis, a division in place, and the dtype's lowest number to hide."""
        scores = torch.bmm(q.flatten(0, 1), k.flatten(0, 1).transpose(1, 2))
        scores /= 1 / self.scale
        if hidden is not None:
            low = torch.finfo(scores.dtype).min
            scores = torch.where(hidden.expand(len(q), HEADS, *scores.shape[1:]).flatten(0, 1), low, scores)
        return torch.bmm(F.softmax(scores, dim=2), v.flatten(0, 1)).unflatten(0, (-1, HEADS))

    def _letters(self, q: Tensor, k: Tensor, v: Tensor, hidden: Tensor | None) -> Tensor:
        q, k, v = (one.transpose(1, 2) for one in (q, k, v))
        scores = torch.einsum("bqhd, bkhd -> bhqk", q, k) * self.scale
        scores = scores if hidden is None else scores.masked_fill(hidden, -1e4)
        return torch.einsum("bhqk,bkhd->bqhd", scores.softmax(-1), v).transpose(1, 2)


WAYS = ("kernel", "written", "before", "together", "letters")


def vectors(length: int = 23, batch: int = 2) -> Tensor:
    return torch.randn(batch, length, WIDTH, generator=torch.Generator().manual_seed(5))


def gpt2(implementation: str = "sdpa", *, std: float = 0.02, **more: Any) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    torch.manual_seed(0)
    config = GPT2Config(
        vocab_size=VOCABULARY, n_positions=64, n_embd=WIDTH, n_layer=LAYERS, n_head=HEADS, initializer_range=std,
        bos_token_id=0, eos_token_id=0, attn_implementation=implementation, **more,
    )  # fmt: skip
    return GPT2LMHeadModel(config).eval()
