"""What a cache promises: it stores keys and values, and never attends."""

from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from headway.ops.attention.call import learning


@dataclass(frozen=True, eq=False)
class CachedKV:
    """Everything in a cache, the tokens that were just appended included.

    keep: which of the columns are real tokens; None where all are. positions: None for 0, 1, 2 … in every row. total:
    the running sum of the tokens before these, where a cache stores that instead of their keys.
    """

    k: Float[Tensor, "B G M K"]
    v: Float[Tensor, "B G M W"]
    keep: Bool[Tensor, "B M"] | None = None
    positions: Int[Tensor, "B M"] | None = None
    total: Tensor | None = None


@runtime_checkable
class Cache(Protocol):
    """What an attention layer and a decoding loop ask of a cache. It is an argument, owned by the decoding loop."""

    @property
    def lengths(self) -> Int[Tensor, " B"]:
        """How many real tokens each row holds (a sum: has taken in)."""
        ...

    @property
    def longest(self) -> int:
        """The position that follows the last token of the fullest row."""
        ...

    @property
    def nbytes(self) -> int: ...

    def following(self, count: int) -> Int[Tensor, "b L"]:
        """The positions of the next `count` tokens of each row."""
        ...

    def append(
        self,
        k: Float[Tensor, "B G L K"],
        v: Float[Tensor, "B G L W"],
        keep: Bool[Tensor, "b L"] | None = None,
        positions: Int[Tensor, "p L"] | None = None,
    ) -> CachedKV:
        """Store tokens (`keep` True = real; without positions they follow those stored); return everything stored."""
        ...

    def select(self, rows: Int[Tensor, " R"]) -> None:
        """Keep these rows, in this order, repeated where asked."""
        ...

    def join(self, other: Any) -> None:
        """Take in the rows of another cache of the same kind, below these."""
        ...

    def mark(self) -> Any:
        """Something to `rewind` to, before what is appended next."""
        ...

    def rewind(self, mark: Any) -> None: ...


@dataclass(frozen=True, eq=False)
class BlockCache:
    """The caches of one block: of its self-attention, and of the source that it attends to."""

    own: Cache | None = None
    cross: Cache | None = None
    parts: tuple[Cache, ...] = field(init=False)  # those that there are

    def __post_init__(self) -> None:
        object.__setattr__(self, "parts", tuple(one for one in (self.own, self.cross) if one is not None))


def refuse_gradients(k: Tensor, v: Tensor) -> None:
    if learning(k, v):
        raise ValueError("a cache keeps numbers, not gradients: read with it under torch.no_grad()")


def check_rows(rows: Tensor, count: int) -> None:
    whole = isinstance(rows, Tensor) and rows.ndim == 1 and rows.dtype == torch.long
    if not whole or (len(rows) and not (int(rows.min()) >= 0 and int(rows.max()) < count)):
        raise ValueError(f"select takes a tensor of whole row numbers from 0 to {count - 1}, not {rows}")


def check_same(cache: object, other: object) -> None:
    if type(other) is not type(cache):
        raise ValueError(f"a {type(cache).__name__} cannot take in rows of a {type(other).__name__}")


@dataclass
class NextPositions:
    """Where the next token of each row stands, counted on without touching a tensor while all rows go on alike."""

    first: Int[Tensor, " b"] = field(default_factory=lambda: torch.zeros(1, dtype=torch.long))
    steps: int = 0

    def following(self, count: int) -> Int[Tensor, "b L"]:
        return self.first[:, None] + torch.arange(self.steps, self.steps + count, device=self.first.device)

    @property
    def longest(self) -> int:
        return int(self.first.max()) + self.steps

    def after(self, positions: Int[Tensor, "B L"], keep: Bool[Tensor, "B L"]) -> "NextPositions":
        """Once these are read: after the last real token of each row, whatever padding came behind it."""
        last = torch.where(keep, positions, -1).amax(-1) + 1
        before = (self.first + self.steps).to(last.device)
        return NextPositions(torch.maximum(before.expand(len(last)), last))

    def on(self, count: int) -> "NextPositions":
        return NextPositions(self.first, self.steps + count)

    def rows(self, rows: Tensor) -> "NextPositions":
        return NextPositions(self.first.expand(max(len(self.first), int(rows.max()) + 1))[rows], self.steps)

    def join(self, other: "NextPositions", ours: int, theirs: int) -> "NextPositions":
        return NextPositions(torch.cat([one.now.expand(n) for one, n in ((self, ours), (other, theirs))]))

    @property
    def now(self) -> Int[Tensor, " b"]:
        return self.first + self.steps
