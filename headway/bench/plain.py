"""The same GPT in forty lines of plain PyTorch, as every tutorial has it: a peer to be measured against."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.bench.sizes import GPTSize


class PlainBlock(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        batch, length, width = x.shape
        parts = self.qkv(self.norm1(x)).split(width, dim=2)
        q, k, v = (part.view(batch, length, self.heads, width // self.heads).transpose(1, 2) for part in parts)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).contiguous().view(batch, length, width))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class PlainGPT(nn.Module):
    def __init__(self, size: GPTSize) -> None:
        super().__init__()
        self.tokens = nn.Embedding(size.vocabulary, size.width)
        self.positions = nn.Embedding(size.length, size.width)
        self.blocks = nn.ModuleList(PlainBlock(size.width, size.heads) for _ in range(size.layers))
        self.norm = nn.LayerNorm(size.width)
        self.head = nn.Linear(size.width, size.vocabulary, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens: Tensor) -> Tensor:
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


@torch.no_grad()
def plain_gpt(model: Any, size: GPTSize) -> PlainGPT:
    """The plain model with headway's own weights, so that its losses have to be headway's."""
    found = PlainGPT(size).to(model.tokens.weight.dtype)
    pairs: list[tuple[Any, Any]] = [(found.norm, model.stack.norm)]
    for theirs, block in zip(found.blocks, model.stack.blocks, strict=True):
        assert isinstance(theirs, PlainBlock)
        ours = [block.attention_norm, block.feedforward_norm, block.attention.qkv, block.attention.out]
        ours += [block.feedforward.up, block.feedforward.down]
        parts = (theirs.norm1, theirs.norm2, theirs.qkv, theirs.out, theirs.up, theirs.down)
        pairs += zip(parts, ours, strict=True)
    for theirs, ours in pairs:
        theirs.load_state_dict(ours.state_dict())
    found.tokens.weight.copy_(model.tokens.weight)
    found.positions.weight.copy_(model.positions.weight)
    return found
