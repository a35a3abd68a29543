"""Keys and values in buffers, with their positions and which of them are real: what the caches are made of."""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import fields, replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.nn.columns import Columns, after, aligned, check_rows, refuse_gradients, refuse_tables
from headway.ops.attention import Call
from headway.ops.attention.guard import finite
from headway.ops.mask import padding
from headway.ops.mask.kernel import kept_keys, without_padding

Core = Callable[[Call], Tensor]


class Held(ABC):
    """A cache of keys and values. Padding is zeroed once, when it is written, and never looked at again."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"a cache has room for at least one token, not {capacity}")
        self.capacity = capacity
        self._clear()

    def _clear(self) -> None:
        """No rows: as many as the next read brings."""
        self.columns = 0
        self._buffer: Columns | None = None
        self._next: Int[Tensor, " B"] = torch.zeros(1, dtype=torch.long)
        self._steps = 0  # tokens that every row took in since then, one by one
        self.ragged = False  # whether any token was padding
        self.finite_keys = True  # whether all keys were, when they were written

    @abstractmethod
    def attend(self, call: Call, core: Core) -> Float[Tensor, "B H L W"]:
        """Take in the keys and values of the call, and let its queries attend to all that is held."""

    @property
    def source(self) -> tuple[Tensor, Tensor] | None:
        return None

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        """How many real tokens each row holds."""
        return torch.zeros(0, dtype=torch.long) if self._buffer is None else self._now().keep.sum(-1)

    @property
    def longest(self) -> int:
        """The position that follows the last token of the fullest row."""
        return int(self._next.max()) + self._steps

    @property
    def nbytes(self) -> int:
        return 0 if self._buffer is None else self._buffer.k.nbytes + self._buffer.v.nbytes

    def following(self, count: int) -> Int[Tensor, "b L"] | None:
        """Positions go on from the last real token of each row, whatever padding came after it."""
        return self._next[:, None] + torch.arange(self._steps, self._steps + count, device=self._next.device)

    def select(self, rows: Int[Tensor, " R"]) -> None:
        """Keep these rows, in this order, repeated where asked."""
        if self._buffer is not None:
            check_rows(rows, len(self._next))
            if len(rows) == 0:
                self._clear()
                return
            self._settle()
            self._next = self._next[rows]
            self._hold(self._now().each(lambda x, axis: x.index_select(0, rows)))

    def join(self, other: "Held") -> None:
        """Take in the rows of another cache below these; the shorter one is padded on the left."""
        if type(other) is not type(self):
            raise ValueError(f"a {type(self).__name__} state cannot take in rows of a {type(other).__name__} one")
        if self._buffer is None or other._buffer is None:
            raise ValueError("an empty state has no rows to join: read something with it first")
        self._settle()
        other._settle()
        total = max(self.columns, other.columns)
        ours, theirs = aligned(self._now(), total), aligned(other._now(), total)
        pairs = [torch.cat([getattr(ours, field.name), getattr(theirs, field.name)]) for field in fields(Columns)]
        self.ragged = self.ragged or other.ragged or self.columns != other.columns
        self.finite_keys = self.finite_keys and other.finite_keys
        self._next = torch.cat([self._next, other._next])
        self.columns, self.capacity = total, max(self.capacity, other.capacity, total)
        self._hold(Columns(*pairs))

    def write(self, call: Call, at: int) -> None:
        """Put the call's keys and values into the columns from `at` on."""
        refuse_gradients(call.k, call.v)
        refuse_tables(call)
        self._settle()
        new = self._new(call)
        buffer = self._room(new, at + new.k.shape[2])
        buffer.put(new, at)
        self.finite_keys = self.finite_keys and finite(new.k)
        self._next = after(self._next, new.positions, new.keep)
        self._foresee()

    def advance(self, k: Float[Tensor, "B G 1 K"], v: Float[Tensor, "B G 1 W"]) -> Columns:
        """Take in one real token per row, right after what is held, and return all that is held.

        Where it stands was written down beforehand: two copies of one column are all that a step costs here.
        """
        refuse_gradients(k, v)
        at = self.columns
        if self._buffer is not None and (k.shape[0], k.dtype) != (self._buffer.k.shape[0], self._buffer.k.dtype):
            raise ValueError(
                f"this state holds {self._buffer.k.shape[0]} rows in {self._buffer.k.dtype}, and the call has "
                f"{k.shape[0]} in {k.dtype}"
            )
        if self._buffer is None or at == self._buffer.k.shape[2]:
            places = (self._next[:, None] + self._steps).to(k.device).expand(k.shape[0], -1)
            self._room(Columns(k, v, places, torch.ones_like(places, dtype=torch.bool)), at + 1)
            self._settle()
            self._next = self._next.to(k.device).expand(k.shape[0])
            self.columns = at
            self._foresee()
        assert self._buffer is not None
        self._buffer.k.narrow(2, at, 1).copy_(k)
        self._buffer.v.narrow(2, at, 1).copy_(v)
        self.columns, self._steps = at + 1, self._steps + 1
        self.finite_keys = self.finite_keys and finite(k)
        return self._now()

    def _settle(self) -> None:
        if self._steps:
            self._next, self._steps = self._next + self._steps, 0

    def _foresee(self) -> None:
        """Where the next tokens will stand, if they come one by one and are real."""
        assert self._buffer is not None
        room = self._buffer.k.shape[2] - self.columns
        ahead = torch.arange(room, device=self._next.device)
        self._buffer.positions[:, self.columns :] = self._next[:, None] + ahead
        self._buffer.keep[:, self.columns :] = True

    def whole(self, call: Call) -> Call:
        """The call with everything held as its keys."""
        now, mask = self._now(), call.mask
        mask = None if mask is None else without_padding(mask)
        if self.ragged:
            mask = padding(keep=now.keep) if mask is None else mask & padding(keep=now.keep)
        if mask is not None:
            mask.check(call.q.shape[0], call.q.shape[1], call.q.shape[2], self.columns)
        # Queries that nobody placed are not compared with keys by position: the mask then refuses to guess.
        positions = None if call.query_positions is None else now.positions
        return replace(call, k=now.k, v=now.v, mask=mask, key_positions=positions, keys_finite=self.finite_keys)

    def _now(self) -> Columns:
        assert self._buffer is not None
        return self._buffer.each(lambda x, axis: x.narrow(axis, 0, self.columns))

    def _new(self, call: Call) -> Columns:
        keep = None if call.mask is None else kept_keys(call.mask)
        self.ragged = self.ragged or keep is not None
        batch, keys, device = call.k.shape[0], call.k.shape[2], call.k.device
        keep = torch.ones(1, keys, dtype=torch.bool, device=device) if keep is None else keep
        positions = self.following(keys) if call.key_positions is None else call.key_positions
        positions = torch.arange(keys, device=device)[None] if positions is None else positions.to(device)
        clean = call.quarantined()
        return Columns(clean.k, clean.v, positions.expand(batch, -1), keep.expand(batch, -1))

    def _room(self, new: Columns, needed: int) -> Columns:
        """The buffer, with room for `needed` columns; past what was reserved it doubles, and what is held is copied."""
        if self._buffer is not None and new.k.shape[0] != self._buffer.k.shape[0]:
            raise ValueError(f"this state holds {self._buffer.k.shape[0]} rows, and the call has {new.k.shape[0]}")
        if self._buffer is None or needed > self._buffer.k.shape[2]:
            self.capacity = max(needed, self.capacity if self._buffer is None else 2 * self.capacity)
            if self._buffer is None:
                self._buffer = self._empty(new)
            else:
                self._hold(self._now())
        self.columns = max(self.columns, needed)
        return self._buffer

    def _hold(self, columns: Columns) -> None:
        """These columns in a buffer of their own, with the room that is reserved."""
        self._buffer = self._empty(columns)
        self._buffer.put(columns, 0)
        self._foresee()

    def _empty(self, like: Columns) -> Columns:
        """Room for `capacity` columns; the system gives memory to those that are written, not to those reserved."""
        size = self.capacity
        return like.each(lambda x, axis: x.new_empty(*x.shape[:axis], size, *x.shape[axis + 1 :]))
