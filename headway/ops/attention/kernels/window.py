"""Tiles for windows, dilated windows and grids, where tokens stand at consecutive positions.

A dilated window is an ordinary one within each class of positions that the step leaves apart, and on a grid a tile is
a rectangle of queries with the rectangle of keys around it.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

from headway.config import Local, Pair, sides
from headway.ops.attention.kernels.tiles import ROWS, Tile
from headway.ops.mask import Mask
from headway.ops.mask.kernel import is_causal
from headway.ops.mask.pairs import ALL, Pairs, Where
from headway.ops.values import constant, real_numbers, tracing

Indices = range | list[int]  # some tokens of the call, in order
Block = tuple[Indices, Indices, tuple[int, ...] | None]


def plan_neighbours(spec: Local, mask: Mask | None, pairs: Pairs) -> list[Tile] | None:
    """Tiles that cover the pattern; None where positions are not consecutive and ranges of positions must do."""
    pairs.require()
    if pairs.start is None and tracing():
        return None  # where the first token stands would have to be read
    pairs = pairs.real()
    _check(spec, pairs)
    if not (pairs.consecutive and pairs.aligned) or not pairs.shape[0]:
        return None
    total, start = pairs.shape[0], int(pairs.query[0, 0]) if pairs.start is None else pairs.start
    if spec.grid is not None and (start > 0 or total + start != spec.grid[0] * spec.grid[1]):
        return None
    return _tiles(
        sides(spec.window), sides(spec.dilation), spec.grid, tuple(spec.selected), spec.global_tokens, start, total,
        is_causal(mask), ROWS, device=pairs.query.device,
    )  # fmt: skip


def _check(spec: Local, pairs: Pairs) -> None:
    """Refuse a grid that the tokens on it do not fill."""
    if spec.grid is None:
        return
    rows, columns = spec.grid
    if pairs.start is None:
        on_grid = int((pairs.query >= 0).sum(-1).max())
    else:
        on_grid = max(0, pairs.shape[0] + min(0, pairs.start))
    if on_grid > rows * columns:
        raise ValueError(f"a grid of {rows} x {columns} has {rows * columns} positions; {on_grid} queries want one")


@dataclass(frozen=True)
class _Layout:
    """All that the tiles depend on; `start` is the position of the first of `total` tokens."""

    reach: Pair
    step: Pair
    grid: Pair | None
    selected: tuple[int, ...]
    global_tokens: bool
    start: int
    total: int
    causal: bool
    rows: int

    def tiles(self) -> Iterator[Block]:
        """Tokens that see all have tiles of their own; keys that all see are in every tile."""
        wide = self._seen_by_all()
        for first in range(0, len(wide), self.rows):
            yield wide[first : first + self.rows], range(self.total), None
        gone = set(wide)
        for rows, columns, alike in self._blocks():
            mine = [one for one in rows if one not in gone] if not gone.isdisjoint(rows) else rows
            inside = set(columns) if wide else ()
            more = [one for one in wide if one not in inside]
            theirs = [*columns, *more] if more else columns
            if mine:
                yield mine, theirs, alike if mine is rows and theirs is columns else None

    def _seen_by_all(self) -> list[int]:
        before = range(min(self.total, max(0, -self.start))) if self.global_tokens else ()
        chosen = {point - self.start for point in self.selected}
        return sorted({*before, *(one for one in chosen if 0 <= one < self.total)})

    def _blocks(self) -> Iterator[Block]:
        return self._line(self.reach[1], self.step[1]) if self.grid is None else self._plane(self.grid)

    def _line(self, reach: int, step: int) -> Iterator[Block]:
        """Blocks of every step-th token, each with as many keys before (and after, unless nothing is seen there)."""
        for start in range(min(step, self.total)):
            count = len(range(start, self.total, step))
            for block in range(0, count, self.rows):
                last = min(count, block + self.rows)
                low, high = max(0, block - reach + 1), last if self.causal else min(count, last + reach - 1)
                yield _every(start, step, block, last), _every(start, step, low, high), None

    def _plane(self, grid: Pair) -> Iterator[Block]:
        first = -self.start
        if first:
            yield range(first), range(first), None
        for row in range(min(self.step[0], grid[0])):
            for column in range(min(self.step[1], grid[1])):
                yield from self._rectangles(range(row, grid[0], self.step[0]), range(column, grid[1], self.step[1]))

    def _rectangles(self, rows: range, columns: range) -> Iterator[Block]:
        """Rectangles of the tokens at these rows and columns of the grid, each with the rectangle that it sees."""
        assert self.grid is not None
        side = [max(8, min(16, size)) for size in self.reach]
        for top in range(0, len(rows), side[0]):
            bottom = min(len(rows), top + side[0])
            above = max(0, top - self.reach[0] + 1)
            below = bottom if self.causal else min(len(rows), bottom + self.reach[0] - 1)
            for left in range(0, len(columns), side[1]):
                right = min(len(columns), left + side[1])
                near = slice(max(0, left - self.reach[1] + 1), min(len(columns), right + self.reach[1] - 1))
                sizes = (bottom - top, right - left, below - above, near.stop - near.start)
                yield (
                    self._places(rows[top:bottom], columns[left:right]),
                    self._places(rows[above:below], columns[near]),
                    (*sizes, top - above, left - near.start),
                )

    def _places(self, rows: range, columns: range) -> list[int]:
        assert self.grid is not None
        return [row * self.grid[1] + column - self.start for row in rows for column in columns]


@constant
def _tiles(*layout: Any, device: torch.device) -> list[Tile]:
    """The tiles of a `_Layout`: arithmetic, done once for all layers and passes over sequences of one length."""
    with torch.inference_mode(False), real_numbers():
        blocks = _Layout(*layout).tiles()
        return [Tile(ALL, _where(rows, device), _where(columns, device), alike) for rows, columns, alike in blocks]


def _every(start: int, step: int, first: int, last: int) -> range:
    return range(start + first * step, start + (last - 1) * step + 1, step)


def _where(indices: Indices, device: torch.device) -> Where:
    """A slice where it can be one: that is a view, and an index gathers."""
    if isinstance(indices, range):
        return slice(indices.start, indices.stop, indices.step)
    return torch.tensor(indices, dtype=torch.long, device=device)
