"""Masks that know places in the call: padding, segments, packed texts, any table."""

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.ops.mask.base import Mask, Reach
from headway.ops.mask.pairs import Pairs, Spans, positions_between, take
from headway.ops.values import tracing


class _OfColumns(Mask):
    """A mask that names the keys of one call, and so means nothing beside keys that a cache holds."""

    @property
    def by_index(self) -> bool:
        return True


@dataclass(frozen=True, eq=False)
class Keep(_OfColumns):
    """Key padding: a key that is not kept is seen by nobody."""

    keep: Bool[Tensor, "B M"]

    @property
    def batch(self) -> int:
        return self.keep.shape[0]

    @property
    def reach(self) -> Reach | None:
        """Tiles leave out keys that nobody keeps; torch.compile must not read which, and takes them all."""
        return (math.inf, math.inf) if tracing() else None

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        kept = take(take(self.keep, pairs.batch, 0), pairs.columns, 1)
        return kept[:, None, None, :].expand(-1, 1, pairs.shape[0], pairs.shape[1])

    def spans(self, pairs: Pairs) -> Spans:
        count, any_kept = self.keep.sum(-1), self.keep.any(-1)
        low = self.keep.int().argmax(-1)
        high = torch.where(any_kept, self.keep.shape[1] - self.keep.int().flip(-1).argmax(-1), low)
        exact = bool((high - low == count).all())
        rows = pairs.shape[0]
        return Spans(low[:, None].expand(-1, rows), high[:, None].expand(-1, rows), None, exact)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        if self.keep.shape[0] not in (1, batch) or self.keep.shape[1] != keys:
            raise ValueError(f"padding for {_shape(self.keep)} (B M) does not fit a batch of {batch} with {keys} keys")


@dataclass(frozen=True, eq=False)
class Segments(_OfColumns):
    """Packed sequences: a query sees the keys of its own segment."""

    query: Int[Tensor, "b L"]
    key: Int[Tensor, "c M"]

    @property
    def batch(self) -> int:
        return max(self.query.shape[0], self.key.shape[0])

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        query = take(take(self.query, pairs.batch, 0), pairs.rows, 1)
        key = take(take(self.key, pairs.batch, 0), pairs.columns, 1)
        return query[:, None, :, None] == key[:, None, None, :]

    def spans(self, pairs: Pairs) -> Spans:
        return positions_between(Pairs(self.query, self.key), self.query, self.query)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        for name, ids, length in (("queries", self.query, queries), ("keys", self.key, keys)):
            if ids.shape[0] not in (1, batch) or ids.shape[1] != length:
                raise ValueError(f"segments of {_shape(ids)} do not fit a batch of {batch} with {length} {name}")


@dataclass(frozen=True)
class Packed(_OfColumns):
    """Texts of these lengths one after the other, in every row alike: a query sees the keys of its own text."""

    lengths: tuple[int, ...]

    @cached_property
    def _bounds(self) -> tuple[Int[Tensor, " L"], Int[Tensor, " L"]]:
        """For each token, where its text begins and where it ends."""
        sizes = torch.tensor(self.lengths, dtype=torch.long)
        ends = sizes.cumsum(0)
        return (ends - sizes).repeat_interleave(sizes), ends.repeat_interleave(sizes)

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        starts = self._bounds[0].to(pairs.query.device)
        query, key = take(starts, pairs.rows, 0), take(starts, pairs.columns, 0)
        return (query[:, None] == key)[None, None].expand(1, 1, *pairs.shape)

    def spans(self, pairs: Pairs) -> Spans:
        low, high = (bound.to(pairs.query.device)[None] for bound in self._bounds)
        return Spans(low, high, None, exact=True)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        total = sum(self.lengths)
        if not queries == keys == total:
            given = f"{queries} queries and {keys} keys"
            raise ValueError(f"packed texts of {len(self.lengths)} lengths have {total} tokens together, not {given}")


@dataclass(frozen=True, eq=False)
class Given(_OfColumns):
    """Any boolean table, broadcastable to B H L M."""

    allow: Bool[Tensor, "B H L M"]

    @property
    def batch(self) -> int:
        return self.allow.shape[0]

    @property
    def heads(self) -> int:
        return self.allow.shape[1]

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        rows = take(take(self.allow, pairs.batch, 0), pairs.rows, 2)
        found = take(rows, pairs.columns, 3)
        return found.expand(-1, -1, *pairs.shape)

    def check(self, batch: int, heads: int, queries: int, keys: int) -> None:
        sizes = (batch, heads, queries, keys)
        if any(have not in (1, want) for have, want in zip(self.allow.shape, sizes, strict=True)):
            raise ValueError(f"mask of shape {_shape(self.allow)} does not broadcast to B H L M = {sizes}")


def _shape(x: Tensor) -> str:
    return " x ".join(str(size) for size in x.shape)
