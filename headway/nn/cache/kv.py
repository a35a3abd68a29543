"""Keys and values of every token seen so far, and those of a source that does not change."""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.nn.cache.base import CachedKV, NextPositions, check_rows, check_same, refuse_gradients


class KVCache:
    """Every key and value seen so far, in buffers that double when they are full.

    One column for each token taken in, the same for all rows. As long as every row holds the positions 0, 1, 2 … and no
    padding, nothing else is kept; then a table says where each column stands in each row, and whether it is real.
    """

    def __init__(self, *, capacity: int = 64) -> None:
        if capacity < 1:
            raise ValueError(f"a cache has room for at least one token, not {capacity}")
        self.capacity = capacity
        self._clear()

    def _clear(self) -> None:
        """No rows: as many as the next read brings."""
        self.columns = 0
        self.k: Tensor | None = None
        self.v: Tensor | None = None
        self._table: tuple[Int[Tensor, "B C"], Bool[Tensor, "B C"]] | None = None  # positions, and what is real
        self._next = NextPositions()

    @property
    def rows(self) -> int:
        return 0 if self.k is None else self.k.shape[0]

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        if self._table is not None:
            return self._table[1][:, : self.columns].sum(-1)
        return torch.full((self.rows,), self.columns, dtype=torch.long)

    @property
    def longest(self) -> int:
        return self._next.longest

    @property
    def nbytes(self) -> int:
        return 0 if self.k is None or self.v is None else self.k.nbytes + self.v.nbytes

    def following(self, count: int) -> Int[Tensor, "b L"]:
        return self._next.following(count)

    def append(
        self,
        k: Float[Tensor, "B G L K"],
        v: Float[Tensor, "B G L W"],
        keep: Bool[Tensor, "b L"] | None = None,
        positions: Int[Tensor, "p L"] | None = None,
    ) -> CachedKV:
        if torch.is_grad_enabled():
            refuse_gradients(k, v)
        at, end = self.columns, self.columns + k.shape[2]
        if self.k is None or end > self.k.shape[2] or k.shape[0] != self.k.shape[0] or k.dtype != self.k.dtype:
            self._reserve(k, v, end)
        assert self.k is not None and self.v is not None
        self.k.narrow(2, at, end - at).copy_(k)
        self.v.narrow(2, at, end - at).copy_(v)
        if keep is None and positions is None:
            self._next = NextPositions(self._next.first, self._next.steps + end - at)
        else:
            self._place(k, keep, positions)
        self.columns = end
        if self._table is None:  # as `contents` would say, without a call more in every layer of every step
            return CachedKV(self.k.narrow(2, 0, end), self.v.narrow(2, 0, end))
        return self.contents()

    def reserve(self, count: int) -> None:
        """Room for `count` more columns of the rows that it holds."""
        assert self.k is not None and self.v is not None
        self._reserve(self.k, self.v, self.columns + count)

    def advance(self) -> None:
        """One more column of real tokens, whose keys and values somebody has written there."""
        self._next = NextPositions(self._next.first, self._next.steps + 1)
        self.columns += 1

    @property
    def real(self) -> Bool[Tensor, "B C"] | None:
        """Which columns hold a token; None where all do."""
        return None if self._table is None else self._table[1]

    def contents(self) -> CachedKV:
        """Everything that it holds."""
        assert self.k is not None and self.v is not None
        k, v, end = self.k.narrow(2, 0, self.columns), self.v.narrow(2, 0, self.columns), self.columns
        if self._table is None:
            return CachedKV(k, v)
        return CachedKV(k, v, self._table[1].narrow(1, 0, end), self._table[0].narrow(1, 0, end))

    def _place(self, k: Tensor, keep: Tensor | None, positions: Tensor | None) -> None:
        """Write down where new columns stand, and where those after them will if they come one by one and are real."""
        batch, at, count = k.shape[0], self.columns, k.shape[2]
        new = self._next.following(count).to(k.device) if positions is None else positions.to(k.device)
        real = torch.ones(1, count, dtype=torch.bool, device=k.device) if keep is None else keep
        self._tabulate()
        assert self._table is not None
        self._table[0][:, at : at + count], self._table[1][:, at : at + count] = new, real
        self._next = self._next.after(new.expand(batch, -1), real.expand(batch, -1))
        self._foresee(at + count)

    def _foresee(self, at: int) -> None:
        """Columns from `at` on as they are if one real token after the other comes: then nothing is written down."""
        if self._table is not None:
            places, real = self._table
            now = self._next.now.to(places.device)
            places[:, at:] = now[:, None] + torch.arange(places.shape[1] - at, device=places.device)
            real[:, at:] = True

    def _reserve(self, k: Tensor, v: Tensor, needed: int) -> None:
        """Room for `needed` columns; past what was reserved it doubles, and the contents are copied."""
        if self.k is None or self.v is None:
            self.capacity = max(needed, self.capacity)
            self.k, self.v = (x.new_empty(*x.shape[:2], self.capacity, x.shape[3]) for x in (k, v))
            return
        if (k.shape[0], k.dtype) != (self.k.shape[0], self.k.dtype):
            raise ValueError(
                f"this cache holds {self.k.shape[0]} rows in {self.k.dtype}, and the call has {k.shape[0]} in {k.dtype}"
            )
        if needed > self.k.shape[2]:
            self.capacity = max(needed, 2 * self.capacity)
            self._resize(lambda x, axis: x.narrow(axis, 0, self.columns))

    def _resize(self, change: Any) -> None:
        """What `change` makes of every buffer, in buffers of its own with the room that is reserved."""
        assert self.k is not None and self.v is not None
        self.k, self.v = (self._roomy(change(x, 2), 2) for x in (self.k, self.v))
        if self._table is not None:
            places, real = (self._roomy(change(x, 1), 1) for x in self._table)
            self._table = places, real
            self._foresee(self.columns)

    def _roomy(self, x: Tensor, axis: int) -> Tensor:
        """The system gives memory to columns that are written, not to those that are reserved."""
        made = x.new_empty(*x.shape[:axis], self.capacity, *x.shape[axis + 1 :])
        made.narrow(axis, 0, x.shape[axis]).copy_(x)
        return made

    def select(self, rows: Int[Tensor, " R"]) -> None:
        """Keep these rows, in this order, repeated where asked."""
        if self.k is None:
            return
        check_rows(rows, self.rows)
        if len(rows) == 0:
            self._clear()
            return
        self._next = self._next.rows(rows) if self._table is not None else self._next
        self._resize(lambda x, axis: x.narrow(axis, 0, self.columns).index_select(0, rows))

    def join(self, other: "KVCache") -> None:
        """Take in the rows of another cache below these; the shorter one is padded on the left."""
        check_same(self, other)
        if self.k is None or other.k is None:
            raise ValueError("an empty cache has no rows to join: read something with it first")
        total = max(self.columns, other.columns)
        if self.columns != other.columns or self._table is not None or other._table is not None:
            self._tabulate()
            other._tabulate()
            self._next = self._next.join(other._next, self.rows, other.rows)
        pieces = zip(self._aligned(total), other._aligned(total), strict=True)
        k, v, *table = (torch.cat(pair) for pair in pieces)
        self.columns, self.capacity = total, max(self.capacity, other.capacity, total)
        self.k, self.v, self._table = k, v, (table[0], table[1]) if table else None
        self._resize(lambda x, axis: x)

    def _tabulate(self) -> None:
        assert self.k is not None
        if self._table is None:
            places = torch.arange(self.capacity, device=self.k.device).repeat(self.rows, 1)
            self._table = places, torch.ones_like(places, dtype=torch.bool)

    def _aligned(self, total: int) -> list[Tensor]:
        """Empty columns on the left, so that the newest tokens stand side by side."""
        assert self.k is not None and self.v is not None
        missing = total - self.columns
        pads = [(x, 2, (0, 0, missing, 0)) for x in (self.k, self.v)]
        pads += [(x, 1, (missing, 0)) for x in self._table or ()]
        return [F.pad(x.narrow(axis, 0, self.columns), pad) for x, axis, pad in pads]

    def mark(self) -> Any:
        return dict(vars(self))

    def rewind(self, mark: Any) -> None:
        vars(self).update(mark)
        self._foresee(self.columns)

    def keep_first(self, mark: Any, counts: Int[Tensor, " B"]) -> None:
        """Of the columns since a mark keep the first `counts` of each row, all of them real, and forget the others."""
        at, most, before = mark["columns"], int(counts.max()), mark["_next"]
        self.columns = at + most
        if mark["_table"] is None and int(counts.min()) == most:
            self._table, self._next = None, before.on(most)
            return
        self._tabulate()
        assert self._table is not None
        places, real = self._table
        new, counts = torch.arange(most, device=places.device), counts.to(places.device)
        now = before.now.to(places.device).expand(self.rows)
        places[:, at : self.columns], real[:, at : self.columns] = now[:, None] + new, new < counts[:, None]
        self._next = NextPositions(now + counts)
        self._foresee(self.columns)


class CrossCache(KVCache):
    """Keys and values of a source that does not change: projected once.

    The beams of one source change places in every step: what each row holds then stays where it is.
    """

    def __init__(self) -> None:
        super().__init__(capacity=1)

    def _clear(self) -> None:
        super()._clear()
        self._sources: Int[Tensor, " B"] | None = None  # which source each row holds; None: one of its own

    def _numbered(self) -> Int[Tensor, " B"]:
        return torch.arange(self.rows) if self._sources is None else self._sources

    def select(self, rows: Int[Tensor, " R"]) -> None:
        if self.k is None:
            return
        check_rows(rows, self.rows)
        before = self._numbered()
        after = before[rows.cpu()]
        if torch.equal(before, after):
            return
        super().select(rows)
        self._sources = after if len(rows) else None

    def join(self, other: "KVCache") -> None:
        check_same(self, other)
        assert isinstance(other, CrossCache)
        ours, theirs = self._numbered(), other._numbered()
        super().join(other)
        self._sources = torch.cat([ours, theirs + int(ours.max()) + 1])

    @property
    def filled(self) -> bool:
        """Whether it holds a source: then nothing need be projected."""
        return self.k is not None
