"""The last tokens of each row, for attention in a causal window: its size does not grow with the text."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.nn.cache.base import CachedKV, refuse_gradients
from headway.nn.cache.kv import KVCache


class WindowCache(KVCache):
    """The last `window` tokens of each row: enough for a causal window of that size, however long the text."""

    def __init__(self, window: int) -> None:
        super().__init__(capacity=window)
        self.window = window

    def _clear(self) -> None:
        super()._clear()
        self._oldest = 0  # the column that the next token replaces, once all are in use

    def append(
        self,
        k: Float[Tensor, "B G L K"],
        v: Float[Tensor, "B G L W"],
        keep: Bool[Tensor, "b L"] | None = None,
        positions: Int[Tensor, "p L"] | None = None,
    ) -> CachedKV:
        if k.shape[2] == 1 and self.columns == self.window and keep is None:
            return self._replace_oldest(k, v, positions)
        self._unroll()
        new = self.following(k.shape[2]) if positions is None else positions
        contents = super().append(k, v, keep, new)
        if keep is not None or self.columns > self.window:
            self._forget()
        return contents

    def _replace_oldest(self, k: Tensor, v: Tensor, positions: Tensor | None) -> CachedKV:
        """One token in, one out, in place: nothing else is moved."""
        refuse_gradients(k, v)
        self._reserve(k, v, self.columns)
        assert self.k is not None and self.v is not None and self._table is not None
        place = self._oldest
        self.k.narrow(2, place, 1).copy_(k)
        self.v.narrow(2, place, 1).copy_(v)
        self._table[0][:, place : place + 1] = self.following(1) if positions is None else positions
        self._table[1][:, place] = True
        if positions is None:
            self._next = self._next.on(1)
        else:
            self._next = self._next.after(positions, torch.ones_like(positions, dtype=torch.bool))
        self._oldest = (place + 1) % self.window
        return self.contents()

    def _foresee(self, at: int) -> None:
        """Columns are replaced, not added: nobody reads what stands behind them."""

    def join(self, other: KVCache) -> None:
        if isinstance(other, WindowCache):
            if other.window != self.window:
                raise ValueError(f"a window of {self.window} tokens cannot take in rows of a window of {other.window}")
            other._unroll()
        self._unroll()
        super().join(other)

    def _unroll(self) -> None:
        """Oldest column first again, so that columns stand in order of their tokens."""
        if self.k is not None and self._oldest:
            turn = self._oldest
            self._resize(lambda x, axis: x.narrow(axis, 0, self.columns).roll(-turn, axis))
        self._oldest = 0

    def _forget(self) -> None:
        """Keep the newest `window` real tokens of each row, oldest first; padding counts as older than all of them."""
        assert self._table is not None
        places, real = (x[:, : self.columns] for x in self._table)
        order = torch.where(real, places, torch.iinfo(torch.long).min).argsort(dim=-1, stable=True)
        newest = order[:, -self.window :]
        self.columns, self.capacity, self._oldest = newest.shape[1], self.window, 0
        self._resize(lambda x, axis: _gather(x, newest, axis))


def _gather(x: Tensor, columns: Int[Tensor, "B S"], axis: int) -> Tensor:
    if axis == 1:
        return x.gather(1, columns)
    return x.gather(2, columns[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))
