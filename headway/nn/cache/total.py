"""A sum over all tokens seen so far, for linear attention: its size does not depend on how much was read."""

from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.nn.cache.base import CachedKV, NextPositions, check_rows, check_same, refuse_gradients
from headway.ops.attention.mechanism import Fold


class TotalCache:
    """What `fold` makes of all keys and values seen so far, summed."""

    def __init__(self, fold: Fold) -> None:
        self.fold = fold
        self._clear()

    def _clear(self) -> None:
        self.total: Tensor | None = None
        self._lengths: Int[Tensor, " B"] = torch.zeros(0, dtype=torch.long)
        self._next = NextPositions()

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        return self._lengths

    @property
    def longest(self) -> int:
        return self._next.longest

    @property
    def nbytes(self) -> int:
        return 0 if self.total is None else self.total.nbytes

    def following(self, count: int) -> Int[Tensor, "b L"]:
        return self._next.following(count)

    def append(
        self,
        k: Float[Tensor, "B G L K"],
        v: Float[Tensor, "B G L W"],
        keep: Bool[Tensor, "b L"] | None = None,
        positions: Int[Tensor, "p L"] | None = None,
    ) -> CachedKV:
        refuse_gradients(k, v)
        before, batch, count = self.total, k.shape[0], k.shape[2]
        if before is not None and len(before) != batch:
            raise ValueError(f"this cache holds {len(before)} rows, and the call has {batch}")
        new = self.fold(k, v, keep)
        self.total = new if before is None else before + new
        if keep is None and positions is None:
            self._next = self._next.on(count)
        else:
            places = self.following(count).to(k.device) if positions is None else positions
            real = torch.ones(1, count, dtype=torch.bool, device=k.device) if keep is None else keep
            self._next = self._next.after(places.expand(batch, -1), real.expand(batch, -1))
        more = count if keep is None else keep.sum(-1)
        none = torch.zeros(batch, dtype=torch.long, device=k.device)
        self._lengths = (self._lengths if before is not None else none) + more
        return CachedKV(k, v, keep, total=before)

    def select(self, rows: Int[Tensor, " R"]) -> None:
        if self.total is None:
            return
        check_rows(rows, len(self.total))
        if len(rows) == 0:
            self._clear()
            return
        self.total, self._lengths, self._next = self.total[rows], self._lengths[rows], self._next.rows(rows)

    def join(self, other: "TotalCache") -> None:
        check_same(self, other)
        if self.total is None or other.total is None:
            raise ValueError("an empty cache has no rows to join: read something with it first")
        self._next = self._next.join(other._next, len(self.total), len(other.total))
        self.total = torch.cat([self.total, other.total])
        self._lengths = torch.cat([self._lengths, other._lengths])

    def mark(self) -> Any:
        return dict(vars(self))

    def rewind(self, mark: Any) -> None:
        vars(self).update(mark)
