"""Caches: what a layer keeps of the tokens it has seen. A state is an argument, owned by the decoding loop.

Every state runs a call of new tokens: it takes in their keys and values, and attends with all it holds. It can
reorder, drop and repeat rows (`select`) and take in the rows of another (`join`).
"""

from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Float, Int
from torch import Tensor

from headway.config import AttentionConfig, Linear, Local, sides
from headway.nn.columns import Columns, check_rows, following_position, refuse_gradients
from headway.nn.held import Core, Held
from headway.ops.attention import Call
from headway.ops.attention.linear import running
from headway.ops.mask.kernel import kept_keys


@runtime_checkable
class State(Protocol):
    """What an attention layer and a decoding loop ask of a cache."""

    @property
    def source(self) -> tuple[Tensor, Tensor] | None:
        """Keys and values that need not be projected again; None where the layer brings its own."""
        ...

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        """How many real tokens each row holds (for a running total: has taken in)."""
        ...

    @property
    def longest(self) -> int:
        """The position that follows the last token of the fullest row."""
        ...

    @property
    def nbytes(self) -> int: ...

    def following(self, count: int) -> Int[Tensor, "b L"] | None:
        """The positions of the next `count` tokens of each row; None where queries have no place of their own."""
        ...

    def attend(self, call: Call, core: Core) -> Float[Tensor, "B H L W"]: ...

    def select(self, rows: Int[Tensor, " R"]) -> None: ...

    def join(self, other: Any) -> None: ...


class Growing(Held):
    """Every key and value seen so far."""

    def __init__(self, *, capacity: int = 64) -> None:
        super().__init__(capacity)

    def attend(self, call: Call, core: Core) -> Float[Tensor, "B H L W"]:
        self.write(call, self.columns)
        return core(self.whole(call))


class Rolling(Held):
    """The last `window` tokens of each row: enough for a causal window of that size, however long the text."""

    def __init__(self, window: int) -> None:
        super().__init__(window)
        self.window = window
        self._oldest = 0  # the column that the next token replaces, once all are in use

    def attend(self, call: Call, core: Core) -> Float[Tensor, "B H L W"]:
        padded = call.mask is not None and kept_keys(call.mask) is not None
        if call.k.shape[2] == 1 and self.columns == self.window and not padded:
            # One token in, one out, in place: nothing held is moved.
            self.write(call, self._oldest)
            self._oldest = (self._oldest + 1) % self.window
            return core(self.whole(call))
        self.write(call, self.columns)
        found = core(self.whole(call))
        if padded or self.columns > self.window:
            self._forget()
        return found

    def join(self, other: Held) -> None:
        if isinstance(other, Rolling) and other.window != self.window:
            raise ValueError(f"a window of {self.window} tokens cannot take in rows of a window of {other.window}")
        self._unroll()
        if isinstance(other, Rolling):
            other._unroll()
        super().join(other)

    def _unroll(self) -> None:
        """Oldest column first again, so that the columns of two caches stand side by side."""
        if self._buffer is not None and self._oldest:
            self._buffer = self._now().each(lambda x, axis: x.roll(-self._oldest, axis))
        self._oldest = 0

    def _forget(self) -> None:
        """Keep the newest `window` real tokens of each row, oldest first; padding counts as older than all of them."""
        now = self._now()
        order = torch.where(now.keep, now.positions, torch.iinfo(torch.long).min).argsort(dim=-1, stable=True)
        newest = order[:, -self.window :]
        self.columns, self.capacity, self._oldest = newest.shape[1], self.window, 0
        self._hold(now.each(lambda x, axis: _gather(x, newest, axis)))


def _gather(x: Tensor, columns: Int[Tensor, "B S"], axis: int) -> Tensor:
    if axis == 1:
        return x.gather(1, columns)
    return x.gather(2, columns[:, None, :, None].expand(-1, x.shape[1], -1, x.shape[3]))


class Cross(Held):
    """Keys and values of a source that does not change: projected once."""

    def __init__(self) -> None:
        super().__init__(capacity=1)
        self._keep: Tensor | None = None  # the padding that the source was written with

    @property
    def source(self) -> tuple[Tensor, Tensor] | None:
        if self._buffer is None:
            return None
        return self.held.k, self.held.v

    @property
    def held(self) -> Columns:
        """The source, once it is written."""
        return self._now()

    def following(self, count: int) -> None:
        return None

    def attend(self, call: Call, core: Core) -> Float[Tensor, "B H L W"]:
        if self._buffer is None:
            self.write(call, 0)
            self._keep = None if call.mask is None else kept_keys(call.mask)
        keep = None if call.mask is None else kept_keys(call.mask)
        if keep is not None and (self._keep is None or not torch.equal(keep, self._keep)):
            raise ValueError("this state holds a source with other padding: make a new Cross state for a new source")
        return core(self.whole(call))


class Recurrent:
    """The running total of linear attention: its size does not depend on how much was read."""

    def __init__(self) -> None:
        self._total: Tensor | None = None
        self._lengths = torch.zeros(1, dtype=torch.long)
        self._next = torch.zeros(1, dtype=torch.long)  # the position of each row's next token

    @property
    def source(self) -> tuple[Tensor, Tensor] | None:
        return None

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        return self._lengths

    @property
    def longest(self) -> int:
        return int(self._next.max())

    @property
    def nbytes(self) -> int:
        return 0 if self._total is None else self._total.nbytes

    def following(self, count: int) -> Int[Tensor, "b L"]:
        return self._next[:, None] + torch.arange(count, device=self._next.device)

    def attend(self, call: Call, core: Core) -> Float[Tensor, "B H L W"]:
        refuse_gradients(call.k, call.v)
        if not isinstance(call.options, Linear):
            raise ValueError("a running total serves linear attention alone: use a Growing state")
        if self._total is not None and len(self._total) != call.k.shape[0]:
            raise ValueError(f"this state holds {len(self._total)} rows, and the call has {call.k.shape[0]}")
        out, self._total = running(call, self._total)
        self._next = following_position(self._next, call)
        keep = None if call.mask is None else kept_keys(call.mask)
        new = torch.tensor([call.k.shape[2]], device=call.k.device) if keep is None else keep.sum(-1)
        self._lengths = (self._lengths.to(call.k.device) + new).expand(call.k.shape[0])
        return out

    def select(self, rows: Int[Tensor, " R"]) -> None:
        if self._total is not None and len(rows) == 0:
            self.__init__()
        elif self._total is not None:
            check_rows(rows, len(self._total))
            self._total, self._lengths, self._next = self._total[rows], self._lengths[rows], self._next[rows]

    def join(self, other: "Recurrent") -> None:
        if not isinstance(other, Recurrent):
            raise ValueError(f"a Recurrent state cannot take in rows of a {type(other).__name__} one")
        if self._total is None or other._total is None:
            raise ValueError("an empty state has no rows to join: read something with it first")
        self._total = torch.cat([self._total, other._total])
        self._next = torch.cat([self._next, other._next])
        self._lengths = torch.cat([self._lengths, other._lengths])


def reach_of(config: AttentionConfig) -> int:
    """How many of the last tokens a causal layer can see at all; 0 where there is no such number."""
    spec = config.mechanism
    if not isinstance(spec, Local) or spec.grid is not None or spec.selected or spec.global_tokens:
        return 0
    return (sides(spec.window)[1] - 1) * sides(spec.dilation)[1] + 1
