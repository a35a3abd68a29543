"""Which queries and which keys are asked about: their positions, and where they stand in the call."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import torch
from jaxtyping import Int
from torch import Tensor

from headway.ops.values import readable, tracing

# A part of an axis: a slice is a view, a tensor of indices is gathered.
Where = slice | Tensor
ALL = slice(None)


def take(x: Tensor, where: Where, axis: int) -> Tensor:
    """The part of x at `where` along `axis`; an axis of size 1 broadcasts and stays as it is."""
    if x.shape[axis] == 1 or (isinstance(where, slice) and where == ALL):
        return x
    if isinstance(where, slice):
        return x[(ALL,) * (axis % x.ndim) + (where,)]
    return x.index_select(axis, where)


@dataclass(frozen=True)
class Pairs:
    """Positions of queries and keys, and the part of the call they stand for.

    `known` is False where L differs from M and nobody said where queries and keys stand: a mask that needs
    positions then refuses to guess. Whoever makes positions may know more of them (`is_aligned`, `is_consecutive`);
    otherwise their values are read when that is asked.
    """

    query: Int[Tensor, "b L"]
    key: Int[Tensor, "c M"]
    known: bool = True
    counted: bool = False  # made by counting from 0, so no look at the values is needed
    batch: slice = field(default_factory=lambda: ALL)
    rows: Where = field(default_factory=lambda: ALL)
    columns: Where = field(default_factory=lambda: ALL)
    is_aligned: bool | None = None
    is_consecutive: bool | None = None
    start: int | None = None  # of one row with itself, start, start + 1, … : its first position

    @classmethod
    def of(
        cls,
        query: Int[Tensor, "*b L"] | int,
        key: Int[Tensor, "*c M"] | int | None = None,
        *,
        device: torch.device | None = None,
    ) -> "Pairs":
        """Pairs from positions or from lengths; a length n stands for the positions 0 … n-1."""
        if isinstance(query, int) and (key is None or (isinstance(key, int) and key == query)):
            places = torch.arange(query, device=device)[None]
            return cls(places, places, counted=True, start=0)
        return cls(_positions(query, device), _positions(query if key is None else key, device))

    @classmethod
    def counting(cls, queries: int, keys: int, device: torch.device | None = None) -> "Pairs":
        """Positions nobody gave: 0 … L-1 for both where L = M, unknown where L differs from M."""
        if queries == keys:
            return cls.of(queries, device=device)
        return cls(_positions(queries, device), _positions(keys, device), known=False)

    @classmethod
    def rising(cls, positions: Int[Tensor, "b L"]) -> "Pairs":
        """Of one sequence with itself, at positions that rise by one from token to token in every row."""
        return cls(positions, positions, is_aligned=True, is_consecutive=positions.shape[0] == 1)

    @classmethod
    def running(cls, start: int, length: int, device: torch.device | None = None) -> "Pairs":
        """Of one sequence with itself, at start, start + 1, …"""
        found = cls.rising(torch.arange(start, start + length, device=device)[None])
        return replace(found, start=start)

    def real(self) -> "Pairs":
        """The same with positions that can be read; to be asked for under `real_numbers`."""
        if tracing() or (readable(self.query) and readable(self.key)):  # torch.compile stops where one is read
            return self
        if self.start is None:
            raise ValueError("positions that are shapes alone, and not counted, cannot be planned by")
        places = torch.arange(self.start, self.start + self.shape[0])[None]
        return replace(self, query=places, key=places)

    @property
    def shape(self) -> tuple[int, int]:
        return self.query.shape[1], self.key.shape[1]

    def at(self, batch: slice, rows: Where, columns: Where) -> "Pairs":
        """The same for a part of the call; batch, rows and columns index the whole call."""
        query, key = take(self.query, batch, 0), take(self.key, batch, 0)
        # Neighbours of a consecutive call are consecutive, so nobody need look at them.
        neighbours = self.counted or self.is_consecutive
        steady = True if neighbours and _every(rows) and _every(columns) else None
        return Pairs(take(query, rows, 1), take(key, columns, 1), self.known, False, batch, rows, columns, None, steady)

    def positions(self) -> tuple[Int[Tensor, "b 1 L 1"], Int[Tensor, "c 1 1 M"]]:
        """Query and key positions, ready to be compared pair by pair."""
        self.require()
        return self.query[:, None, :, None], self.key[:, None, None, :]

    def require(self) -> None:
        if not self.known:
            queries, keys = self.shape
            raise ValueError(
                f"this compares positions, and {queries} queries against {keys} keys could stand anywhere: "
                "pass query_positions and key_positions"
            )

    @property
    def rises(self) -> bool:
        """Whether it is known without a look that positions rise by one, so that distances are those of indices."""
        return self.counted or bool(self.is_aligned)

    @property
    def ascending(self) -> bool:
        """Whether keys stand in order of position (ties allowed), so that a range of positions is a range of keys."""
        if self.counted or self.is_aligned or self.is_consecutive:
            return True
        return self._once("ascending", lambda: bool((self.key.diff() >= 0).all()))

    @property
    def aligned(self) -> bool:
        """Whether query i and key i stand at one position, strictly rising: causality is then a matter of index."""
        if not self.known or self.shape[0] != self.shape[1]:
            return False
        if self.counted or self.is_aligned is not None:
            return self.rises
        return self._once("aligned", lambda: bool((self.query == self.key).all()) and bool((self.key.diff() > 0).all()))

    @property
    def consecutive(self) -> bool:
        """Whether positions rise by one from token to token and are the same in every row of the batch."""
        if self.counted or self.is_consecutive is not None:
            return self.counted or bool(self.is_consecutive)
        if not self.query.shape[0] == self.key.shape[0] == 1:
            return False
        return self._once(
            "consecutive", lambda: bool((self.query.diff() == 1).all()) and bool((self.key.diff() == 1).all())
        )

    def _once(self, name: str, look: Callable[[], bool]) -> bool:
        """What a look at the values says, kept; torch.compile cannot enter the lock of functools.cached_property."""
        kept = f"_{name}"
        if kept not in vars(self):
            object.__setattr__(self, kept, look())
        return vars(self)[kept]


def _every(where: Where) -> bool:
    """Whether a part of an axis leaves out nothing in between."""
    return isinstance(where, slice) and where.step in (None, 1)


def _positions(given: Tensor | int, device: torch.device | None) -> Int[Tensor, "b n"]:
    if isinstance(given, int):
        return torch.arange(given, device=device)[None]
    return given[None] if given.ndim == 1 else given


@dataclass(frozen=True)
class Spans:
    """For each query the range [low, high) of key *indices* it may see at most, and single keys beside the range.

    `exact`: every key of the range is allowed and no other. Otherwise the range is an upper bound, which is what a
    blockwise computation needs to skip the rest.
    """

    low: Int[Tensor, "b L"]
    high: Int[Tensor, "b L"]
    extra: Int[Tensor, " E"] | None = None
    exact: bool = False

    @classmethod
    def everything(cls, pairs: Pairs, *, exact: bool = False) -> "Spans":
        low = torch.zeros_like(pairs.query[:1])
        return cls(low, torch.full_like(low, pairs.shape[1]), None, exact)

    def __and__(self, other: "Spans") -> "Spans":
        exact = self.exact and other.exact and self.extra is None and other.extra is None
        low, high = torch.maximum(self.low, other.low), torch.minimum(self.high, other.high)
        return Spans(low, torch.maximum(low, high), _union(self.extra, other.extra), exact)

    def __or__(self, other: "Spans") -> "Spans":
        empty, other_empty = self.low >= self.high, other.low >= other.high
        low = torch.where(empty, other.low, torch.where(other_empty, self.low, torch.minimum(self.low, other.low)))
        high = torch.where(empty, other.high, torch.where(other_empty, self.high, torch.maximum(self.high, other.high)))
        return Spans(low, high, _union(self.extra, other.extra))


def _union(one: Tensor | None, other: Tensor | None) -> Tensor | None:
    if one is None or other is None:
        return other if one is None else one
    return torch.cat([one, other]).unique()


def positions_between(pairs: Pairs, first: Tensor | None, last: Tensor | None) -> Spans:
    """The keys whose positions lie between `first` and `last` (both included; None = no bound), as exact ranges.

    Keys that do not stand in order of position have no such range; then everything is the only safe bound.
    """
    if not pairs.ascending:
        return Spans.everything(pairs)
    rows = max(pairs.query.shape[0], pairs.key.shape[0])
    key = pairs.key.expand(rows, -1).contiguous()
    bounds = pairs.query.expand(rows, -1)
    low = torch.zeros_like(bounds) if first is None else _search(key, first.expand(rows, -1), right=False)
    high = torch.full_like(bounds, key.shape[1]) if last is None else _search(key, last.expand(rows, -1), right=True)
    return Spans(low, torch.maximum(low, high), None, exact=True)


def _search(key: Tensor, bounds: Tensor, *, right: bool) -> Tensor:
    return torch.searchsorted(key, bounds.contiguous(), right=right)
