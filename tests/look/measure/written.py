"""An attention that is written down: its weights are given, and what is asked of it is kept."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

ALL = slice(None)


@dataclass
class WrittenParts:
    q: Tensor
    k: Tensor
    softcap: float | None = None
    bias: Tensor | None = None
    causal: bool = False
    table: Tensor | None = None

    def allowed(self, rows: slice) -> Tensor | None:
        return None if self.table is None else self.table[:, rows]

    def weights(self) -> Tensor:
        """By the formula, of all rows at once, in float64."""
        scores = self.q.double() @ self.k.double().mT
        if self.softcap is not None:
            scores = self.softcap * torch.tanh(scores / self.softcap)
        _, length, keys = scores.shape
        i, j = torch.arange(length)[:, None], torch.arange(keys)
        if self.bias is not None:
            scores = scores + self.bias.double()[:, j - i + length - 1]
        hidden = (j > i)[None] if self.causal else torch.zeros(1, length, keys, dtype=torch.bool)
        hidden = hidden if self.table is None else ~self.table
        return scores.masked_fill(hidden, float("-inf")).softmax(-1)


@dataclass
class Written:
    values: Tensor  # B H L M
    made_of: WrittenParts | None = None
    name: str = "layers.3.attention"
    mechanism: str = "softmax"
    asked: list[tuple[tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)  # rows, heads

    @property
    def shape(self) -> tuple[int, int, int, int]:
        batch, heads, queries, keys = self.values.shape
        return batch, heads, queries, keys

    def weights(self, rows: slice = ALL, heads: Sequence[int] | slice = ALL) -> Tensor:
        chosen = list(range(self.shape[1]))[heads] if isinstance(heads, slice) else list(heads)
        self.asked.append((tuple(range(self.shape[2])[rows]), tuple(chosen)))
        return self.values[:, chosen][:, :, rows]

    def parts(self) -> WrittenParts | None:
        return self.made_of


def looking(rules: list[Tensor], *, share: float = 1.0, causal: bool = False) -> Written:
    """Heads that spread `share` of each row evenly over the keys of a rule, and the rest over all that it may see."""
    may = torch.ones(rules[0].shape, dtype=torch.bool)
    may = may.tril() if causal else may
    heads = []
    for rule in rules:
        inside = (rule & may).double()
        found = share * inside / inside.sum(-1, keepdim=True).clamp(min=1)
        rest = 1 - found.sum(-1, keepdim=True)
        heads.append(found + rest * may / may.sum(-1, keepdim=True))
    nothing = torch.zeros(len(rules), len(may), 1), torch.zeros(len(rules), may.shape[1], 1)
    return Written(torch.stack(heads)[None], WrittenParts(*nothing, table=may[None]))
