"""An encoder that reads both ways, made of the plain GPT's parts: a vector for each token, or one for the text."""

from typing import Any

import torch
from torch import Tensor, nn

from tests.audit.twins.plain import GPT, READS, WIDTH


class Encoder(GPT):
    """Vectors of the tokens."""

    def order(self, queries: int, keys: int) -> Tensor:
        return torch.ones(queries, keys, dtype=torch.bool)

    def finished(self, x: Tensor, keep: Tensor) -> Tensor:
        return x


class Mean(nn.Module):
    """The mean over the real tokens; 0 of none."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return x.masked_fill(~keep[..., None], 0.0).sum(1) / keep.sum(1, keepdim=True).clamp(min=1)


class Last(nn.Module):
    """The last real token."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        places = torch.arange(x.shape[1], device=x.device)
        return x[torch.arange(len(x), device=x.device), torch.where(keep, places, 0).argmax(1)]


class First(nn.Module):
    """The first real token."""

    def forward(self, x: Tensor, keep: Tensor) -> Tensor:
        return x[torch.arange(len(x), device=x.device), keep.long().argmax(1)]


class Pooled(Encoder):
    """One vector a text: pooled, and through a dense layer as BERT's."""

    def __init__(self, pooler: type[nn.Module] = Mean, **parts: Any) -> None:
        super().__init__(**parts)
        self.pooler, self.dense = pooler(), nn.Linear(WIDTH, WIDTH)

    def finished(self, x: Tensor, keep: Tensor) -> Tensor:
        return self.dense(self.pooler(x, keep)).tanh()


BOTH_WAYS: dict[str, Any] = READS | dict(causal=False)
