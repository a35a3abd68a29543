"""Tiles for windows, dilated windows and grids, where tokens stand at consecutive positions.

A dilated window is an ordinary one within each class of positions that the step leaves apart, and on a grid a tile is
a rectangle of queries with the rectangle of keys around it.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from headway.config import Local, Pair, sides
from headway.ops.attention.kernels.tiles import ROWS, Tile, length
from headway.ops.mask import Mask
from headway.ops.mask.kernel import is_causal
from headway.ops.mask.pairs import ALL, Pairs, Where

Block = tuple[Where, Where, tuple[int, ...] | None]


def plan_neighbours(spec: Local, mask: Mask | None, pairs: Pairs) -> list[Tile] | None:
    """Tiles that cover the pattern; None where positions are not consecutive and ranges of positions must do."""
    pairs.require()
    pairs = pairs.real()
    _check(spec, pairs)
    grid = spec.grid or (1, pairs.shape[0])
    if not (pairs.consecutive and pairs.aligned) or not pairs.shape[0]:
        return None
    layout = _Layout(spec, grid, pairs, mask)
    if spec.grid is not None and not layout.fits():
        return None
    return layout.tiles()


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
    spec: Local
    grid: Pair
    pairs: Pairs
    mask: Mask | None

    @property
    def first(self) -> int:
        """The index of position 0: how many tokens stand before the sequence."""
        return -int(self.pairs.query[0, 0]) if self.pairs.start is None else -self.pairs.start

    def fits(self) -> bool:
        return self.pairs.shape[0] - self.first == self.grid[0] * self.grid[1] and self.first >= 0

    def tiles(self) -> list[Tile]:
        if not (self.spec.selected or self.spec.global_tokens):
            return [Tile(ALL, *block) for block in self._blocks()]
        wide, stars = self._wide(), self._stars()
        tiles = [Tile(ALL, some, ALL) for some in wide.split(ROWS) if len(some)]
        for rows, columns, alike in self._blocks():
            mine, theirs = _less(rows, wide), _more(columns, stars)
            if length(mine, self.pairs.shape[0]):
                tiles.append(Tile(ALL, mine, theirs, alike if mine is rows and theirs is columns else None))
        return tiles

    def _wide(self) -> Tensor:
        """Queries that see all."""
        return self._chosen(self.pairs.query[0]).nonzero()[:, 0]

    def _stars(self) -> Tensor:
        """Keys that are seen by all."""
        return self._chosen(self.pairs.key[0]).nonzero()[:, 0]

    def _chosen(self, positions: Tensor) -> Tensor:
        chosen = torch.isin(positions, torch.tensor(self.spec.selected, device=positions.device, dtype=torch.long))
        return chosen | (positions < 0) if self.spec.global_tokens else chosen

    def _blocks(self) -> Iterator[Block]:
        reach, step = sides(self.spec.window), sides(self.spec.dilation)
        return self._line(reach[1], step[1]) if self.spec.grid is None else self._plane(reach, step)

    def _line(self, reach: int, step: int) -> Iterator[Block]:
        """Blocks of every step-th token, each with as many keys before (and after, unless nothing is seen there)."""
        total, ahead = self.pairs.shape[0], not self._causal()
        for start in range(step):
            count = len(range(start, total, step))
            for block in range(0, count, ROWS):
                last = min(count, block + ROWS)
                low, high = max(0, block - reach + 1), min(count, last + reach - 1) if ahead else last
                yield _every(start, step, block, last), _every(start, step, low, high), None

    def _plane(self, reach: Pair, step: Pair) -> Iterator[Block]:
        index = torch.arange(self.grid[0] * self.grid[1], device=self.pairs.query.device).view(self.grid) + self.first
        side = [max(8, min(16, size)) for size in reach]
        if self.first:
            yield slice(0, self.first), slice(0, self.first), None
        for row in range(step[0]):
            for column in range(step[1]):
                yield from _rectangles(
                    index[row :: step[0], column :: step[1]], reach, (side[0], side[1]), self._causal()
                )

    def _causal(self) -> bool:
        return is_causal(self.mask)


def _rectangles(index: Tensor, reach: Pair, side: Pair, causal: bool) -> Iterator[Block]:
    rows, columns = index.shape
    for top in range(0, rows, side[0]):
        bottom = min(rows, top + side[0])
        above, below = max(0, top - reach[0] + 1), bottom if causal else min(rows, bottom + reach[0] - 1)
        for left in range(0, columns, side[1]):
            right = min(columns, left + side[1])
            near = slice(max(0, left - reach[1] + 1), min(columns, right + reach[1] - 1))
            alike = (bottom - top, right - left, below - above, near.stop - near.start, top - above, left - near.start)
            yield index[top:bottom, left:right].reshape(-1), index[above:below, near].reshape(-1), alike


def _every(start: int, step: int, first: int, last: int) -> slice:
    return slice(start + first * step, start + (last - 1) * step + 1, step)


def _less(rows: Where, gone: Tensor) -> Where:
    if not len(gone):
        return rows
    index = _index(rows, gone.device)
    left = ~torch.isin(index, gone)
    return rows if bool(left.all()) else index[left]


def _more(columns: Where, stars: Tensor) -> Where:
    if not len(stars):
        return columns
    index = _index(columns, stars.device)
    return torch.cat([index, stars[~torch.isin(stars, index)]])


def _index(where: Where, device: torch.device) -> Tensor:
    return torch.arange(where.start, where.stop, where.step or 1, device=device) if isinstance(where, slice) else where
