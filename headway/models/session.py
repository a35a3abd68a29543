"""What the decoding loop asks of any model: rows that are being read, one per sequence.

A session owns the caches. Rows leave (`select`), are repeated for a beam (`select`), and others join (`join`).
"""

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.nn.block import BlockState
from headway.nn.state import Recurrent, Rolling


@runtime_checkable
class Session(Protocol):
    """Sequences that are being read together; a session of no rows takes as many as its first read brings."""

    @property
    def rows(self) -> int: ...

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        """How many real tokens each row has read."""
        ...

    @property
    def room(self) -> int | None:
        """How many more tokens the fullest row can take; None where there is no limit."""
        ...

    def read(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B V"]:
        """Take in tokens (`keep` True = real) and return the logits after each row's last real one."""
        ...

    def select(self, rows: Int[Tensor, " R"]) -> None:
        """Keep these rows, in this order, repeated where asked."""
        ...

    def join(self, other: Any) -> None:
        """Take in the rows of another session of the same model, below these."""
        ...


def last_real(hidden: Float[Tensor, "B L D"], keep: Bool[Tensor, "B L"] | None) -> Float[Tensor, "B D"]:
    """Each row's vector at its last real token."""
    if keep is None or bool(keep[:, -1].all()):
        return hidden[:, -1]
    if not bool(keep.any(-1).all()):
        raise ValueError("a row of nothing but padding has no last token: leave it out of the batch")
    last = keep.shape[1] - 1 - keep.flip(1).int().argmax(-1)
    return hidden[torch.arange(len(hidden), device=hidden.device), last]


def join_states(ours: list[BlockState], theirs: list[BlockState]) -> None:
    """Every cache of a model takes in the rows of its counterpart."""
    for mine, other in zip(ours, theirs, strict=True):
        for one, more in ((mine.own, other.own), (mine.cross, other.cross)):
            if one is not None:
                one.join(more)


def select_states(states: list[BlockState], rows: Int[Tensor, " R"]) -> None:
    for state in states:
        for one in (state.own, state.cross):
            if one is not None:
                one.select(rows)


def slides(states: list[BlockState]) -> bool:
    """Whether no cache grows with the text, so that reading can go on for ever."""
    return all(isinstance(state.own, Rolling | Recurrent) for state in states)


class Reread:
    """A session without a cache: everything is read again for each new token. Slow, and right by construction."""

    def __init__(self, model: Any, length: int | None) -> None:
        self._model, self._length = model, length
        self._texts: list[list[int]] = []

    @property
    def rows(self) -> int:
        return len(self._texts)

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        return torch.tensor([len(text) for text in self._texts], dtype=torch.long)

    @property
    def room(self) -> int | None:
        return None if self._length is None else self._length - max(map(len, self._texts), default=0)

    @torch.inference_mode()
    def read(self, tokens: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"] | None = None) -> Float[Tensor, "B V"]:
        keep = torch.ones_like(tokens, dtype=torch.bool) if keep is None else keep
        new = [row[kept].tolist() for row, kept in zip(tokens, keep, strict=True)]
        self._texts = [old + more for old, more in zip(self._texts or [[] for _ in new], new, strict=True)]
        longest = max(map(len, self._texts))
        padded = torch.tensor([text + [0] * (longest - len(text)) for text in self._texts], device=tokens.device)
        real = torch.arange(longest, device=tokens.device) < self.lengths.to(tokens.device)[:, None]
        return self._model.logits(last_real(self._model.read(padded, keep=real), real))

    def select(self, rows: Int[Tensor, " R"]) -> None:
        self._texts = [list(self._texts[row]) for row in rows.tolist()]

    def join(self, other: "Reread") -> None:
        self._texts = self._texts + other._texts
