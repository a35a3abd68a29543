"""Masks that relate the positions of queries and keys."""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from headway.ops.mask.base import Mask, Reach
from headway.ops.mask.pairs import Pairs, Spans, positions_between

Grid = tuple[int, int]


@dataclass(frozen=True)
class Full(Mask):
    """Everybody sees everybody."""

    @property
    def shifts(self) -> bool:
        return True

    @property
    def reach(self) -> Reach:
        return math.inf, math.inf

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        return torch.ones(1, 1, *pairs.shape, dtype=torch.bool, device=pairs.query.device)

    def spans(self, pairs: Pairs) -> Spans:
        return Spans.everything(pairs, exact=True)


@dataclass(frozen=True)
class Causal(Mask):
    """A query sees keys at its own and earlier positions."""

    @property
    def shifts(self) -> bool:
        return True

    @property
    def reach(self) -> Reach:
        return math.inf, 0

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        query, key = pairs.positions()
        return query >= key

    def spans(self, pairs: Pairs) -> Spans:
        pairs.require()
        return positions_between(pairs, None, pairs.query)


@dataclass(frozen=True)
class Window(Mask):
    """|i - j| < size; on a grid, in both axes. With a step: only every step-th position, `size` of them each way."""

    size: Grid
    step: Grid
    grid: Grid | None

    @property
    def shifts(self) -> bool:
        return self.grid is None

    @property
    def reach(self) -> Reach | None:
        far = (self.size[1] - 1) * self.step[1]
        return (far, far) if self.grid is None else None

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        query, key = pairs.positions()
        if self.grid is None:
            return _near(query - key, self.size[1], self.step[1])
        columns = self.grid[1]
        rows_near = _near(query // columns - key // columns, self.size[0], self.step[0])
        columns_near = _near(query % columns - key % columns, self.size[1], self.step[1])
        return rows_near & columns_near & _on(self.grid, query) & _on(self.grid, key)

    def spans(self, pairs: Pairs) -> Spans:
        pairs.require()
        if self.grid is None:
            reach = (self.size[1] - 1) * self.step[1]
            found = positions_between(pairs, pairs.query - reach, pairs.query + reach)
            return replace(found, exact=found.exact and self.step[1] == 1)
        columns, reach = self.grid[1], (self.size[0] - 1) * self.step[0]
        row = pairs.query // columns
        return replace(positions_between(pairs, (row - reach) * columns, (row + reach + 1) * columns - 1), exact=False)


@dataclass(frozen=True)
class Tiles(Mask):
    """A query sees the keys of its own tile: positions in windows that do not overlap."""

    size: Grid
    grid: Grid | None

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        query, key = pairs.positions()
        if self.grid is None:
            return query // self.size[1] == key // self.size[1]
        same = self._tile(query) == self._tile(key)
        return same & _on(self.grid, query) & _on(self.grid, key)

    def _tile(self, position: Tensor) -> Tensor:
        columns = (self.grid or (1, 1))[1]
        across = -(-columns // self.size[1])
        return (position // columns // self.size[0]) * across + position % columns // self.size[1]

    def spans(self, pairs: Pairs) -> Spans:
        pairs.require()
        length = self.size[1] if self.grid is None else self.size[0] * self.grid[1]
        start = pairs.query // length * length
        found = positions_between(pairs, start, start + length - 1)
        return replace(found, exact=found.exact and self.grid is None)


@dataclass(frozen=True)
class Global(Mask):
    """Tokens at negative positions stand outside the sequence: they see all and are seen by all."""

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        query, key = pairs.positions()
        return (query < 0) | (key < 0)

    def spans(self, pairs: Pairs) -> Spans:
        pairs.require()
        return _stars(pairs, pairs.query < 0, pairs.key < 0)


@dataclass(frozen=True, eq=False)
class Selected(Mask):
    """Tokens at chosen positions see all and are seen by all."""

    points: Int[Tensor, " E"]

    def at(self, pairs: Pairs) -> Bool[Tensor, "#B #H L M"]:
        pairs.require()
        points = self.points.to(pairs.query.device)
        return _chosen(pairs.query, points)[:, None, :, None] | _chosen(pairs.key, points)[:, None, None, :]

    def spans(self, pairs: Pairs) -> Spans:
        pairs.require()
        points = self.points.to(pairs.query.device)
        return _stars(pairs, _chosen(pairs.query, points), _chosen(pairs.key, points))


def _near(difference: Tensor, size: int, step: int) -> Tensor:
    near = difference.abs() <= (size - 1) * step
    return near if step == 1 else near & (difference % step == 0)


def _on(grid: Grid, position: Tensor) -> Tensor:
    """Whether a position lies on the grid at all; a global token does not."""
    return (position >= 0) & (position < grid[0] * grid[1])


def _chosen(positions: Int[Tensor, "b n"], points: Int[Tensor, " E"]) -> Bool[Tensor, "b n"]:
    return torch.isin(positions, points)


def _stars(pairs: Pairs, rows: Bool[Tensor, "b L"], columns: Bool[Tensor, "c M"]) -> Spans:
    """Spans of a star: some rows see all; the others see the starred columns alone."""
    high = torch.where(rows, pairs.shape[1], 0)
    return Spans(torch.zeros_like(high), high, columns.any(0).nonzero()[:, 0], exact=False)
