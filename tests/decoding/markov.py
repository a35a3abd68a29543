"""A model whose right answers are known by hand: the next token depends on the last one alone, by a table.

Written in NumPy, without any part of headway but the shape of its answers. Its session also counts how it is used.
"""

from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from headway.config import Special


@dataclass(frozen=True)
class Config:
    vocabulary: int
    length: int = 1000
    special: Special = field(default_factory=Special)
    kind: str = "language"


@dataclass
class Reading:
    table: np.ndarray
    room: int | None
    log: list[str]
    texts: list[list[int]] = field(default_factory=list)

    @property
    def rows(self) -> int:
        return len(self.texts)

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([len(text) for text in self.texts])

    def read(self, tokens: Tensor, keep: Tensor | None = None) -> Tensor:
        self.log.append(f"read {len(tokens)}")
        keep = torch.ones_like(tokens, dtype=torch.bool) if keep is None else keep
        self.texts = self.texts or [[] for _ in tokens]
        for text, row, real in zip(self.texts, tokens.tolist(), keep.tolist(), strict=True):
            text += [token for token, one in zip(row, real, strict=True) if one]
        return torch.from_numpy(self.table[[text[-1] for text in self.texts]])

    def select(self, rows: Tensor) -> None:
        self.log.append(f"select {len(rows)}")
        self.texts = [list(self.texts[row]) for row in rows.tolist()]

    def join(self, other: "Reading") -> None:
        self.log.append(f"join {other.rows}")
        self.texts += other.texts


class Markov:
    """Logits by a table of (last token, next token)."""

    def __init__(self, table: np.ndarray, *, slides: bool = False, **config: object) -> None:
        self.table, self.config = table, Config(vocabulary=len(table), **config)  # type: ignore[arg-type]
        self.slides, self.log = slides, []

    def parameters(self) -> object:
        return iter([torch.zeros(1)])

    def session(self, *, capacity: int | None = None, cache: bool = True) -> Reading:
        return Reading(self.table, None if self.slides else self.config.length, self.log)


def counting(vocabulary: int, **config: object) -> Markov:
    """After t comes t + 1, from the last token the first; everything else is less likely by e⁻³."""
    table = np.zeros((vocabulary, vocabulary))
    table[np.arange(vocabulary), (np.arange(vocabulary) + 1) % vocabulary] = 3.0
    return Markov(table, **config)
