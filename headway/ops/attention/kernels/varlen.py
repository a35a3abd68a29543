"""Texts packed one after the other, without padding: each run of equally long texts is attended to as a batch.

    row of 11 tokens, lengths 2 2 2 5   ->   a batch of 3 texts of 2 tokens, and a batch of 1 text of 5

The batches are views of the row, so nothing is copied on the way in, and no pair of two texts is ever computed.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from itertools import groupby
from operator import and_

import torch
from jaxtyping import Shaped
from torch import Tensor

from headway.ops.attention.call import Call
from headway.ops.mask import Mask
from headway.ops.mask.by_index import Keep
from headway.ops.mask.pairs import Pairs
from headway.ops.values import real_numbers


@dataclass(frozen=True)
class PackedRun:
    """So many texts of one length, from one token on."""

    start: int
    count: int
    length: int

    @property
    def tokens(self) -> int:
        return self.count * self.length

    def rows(self, x: Shaped[Tensor, "b T"], batch: int) -> Shaped[Tensor, "N S"]:
        """Of something that each token has, one row for each text."""
        part = x[:, self.start : self.start + self.tokens].expand(batch, -1)
        return part.unflatten(1, (self.count, self.length)).flatten(0, 1)


def runs(lengths: tuple[int, ...]) -> Iterator[PackedRun]:
    """Neighbours of one length together; a text without tokens has nothing to compute.

    >>> [(run.count, run.length) for run in runs((2, 2, 0, 3, 2))]
    [(2, 2), (1, 3), (1, 2)]
    """
    start = 0
    for length, group in groupby(lengths):
        run = PackedRun(start, len(list(group)), length)
        start += run.tokens
        if length:
            yield run


def in_runs(call: Call, lengths: tuple[int, ...], rest: tuple[Mask, ...], attend: Callable[[Call], Tensor]) -> Tensor:
    """attend(run) for every run of texts of these lengths, put together again in the order of tokens.

    `rest` is what the mask demands besides.
    """
    parts = list(runs(lengths))
    sizes = [run.tokens for run in parts]
    # One split and one concatenation: slices would each bring a gradient of the whole row.
    pieces = zip(parts, *(x.split(sizes, 2) for x in (call.q, call.k, call.v)), strict=True)
    gathered = [_joined(attend(_alone(call, rest, *piece)), call.q.shape[0]) for piece in pieces]
    return (gathered[0] if len(gathered) == 1 else torch.cat(gathered, 1)).movedim(1, 2)


def _alone(call: Call, rest: tuple[Mask, ...], run: PackedRun, q: Tensor, k: Tensor, v: Tensor) -> Call:
    """The call of one run: its texts as a batch, under what is left of the mask."""
    mask, positions = call.once(f"run {run.start}", lambda: _conditions(call, run, rest))
    q, k, v = (_batch(x, run) for x in (q, k, v))
    return replace(call, q=q, k=k, v=v, mask=mask, positions=positions, shared=None)


def _conditions(call: Call, run: PackedRun, rest: tuple[Mask, ...]) -> tuple[Mask | None, Pairs | None]:
    with real_numbers():
        return conditions(run, rest, call.pairs, call.q.shape[0], biased=call.bias is not None)


def conditions(
    run: PackedRun, rest: tuple[Mask, ...], pairs: Pairs, batch: int, *, biased: bool = False
) -> tuple[Mask | None, Pairs | None]:
    """What is left of the mask for the texts of a run, and positions where counting from 0 does not serve."""
    kept = [Keep(run.rows(part.keep, batch)) if isinstance(part, Keep) else part for part in rest]
    mask = reduce(and_, kept) if kept else None
    asking = [part for part in rest if not isinstance(part, Keep)]
    if not biased and (not asking or (pairs.counted and all(part.shifts for part in asking))):
        return mask, None
    return mask, Pairs.of(_once(run.rows(pairs.query, batch)), _once(run.rows(pairs.key, batch)))


def _once(rows: Tensor) -> Tensor:
    """Positions that start again in each text are the same in every row, and need not be compared row by row."""
    return rows[:1] if bool((rows == rows[:1]).all()) else rows


def _batch(x: Shaped[Tensor, "B H T K"], run: PackedRun) -> Shaped[Tensor, "N H S K"]:
    return x.unflatten(2, (run.count, run.length)).movedim(2, 1).flatten(0, 1)


def _joined(x: Shaped[Tensor, "N H S W"], batch: int) -> Shaped[Tensor, "B T H W"]:
    """Tokens before heads: so the kernel left them in memory, and so the layer wants them."""
    return x.unflatten(0, (batch, -1)).movedim(2, 3).flatten(1, 2)
