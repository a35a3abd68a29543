"""Examples and batches: what every kind of data looks like to the training loop.

The order of examples is a pure function of the seed, and all that is random in an example (masked words, negatives,
shifted images) is drawn from that example's own key. So the state of the data is one number, the step; and two
processes that share a batch see what one process would have seen.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Protocol, runtime_checkable

import numpy as np
import torch
from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Tensors for a model, and for each loss how many things it is a mean of."""

    inputs: dict[str, Tensor]
    counts: dict[str, int]


@runtime_checkable
class Examples(Protocol):
    """Data that can be asked for any of its examples at any time."""

    def __len__(self) -> int:
        """How many examples one pass has."""
        ...

    @property
    def sizes(self) -> np.ndarray | None:
        """About how many tokens each example has, so that similar ones share a batch; None: all alike."""
        ...

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        """These examples together; `keys[i]` is the seed of all that is random in example `rows[i]`."""
        ...


@dataclass(frozen=True, eq=False)
class Ragged:
    """Row i is flat[starts[i] : starts[i + 1]].

    >>> Ragged.of([[4, 2], [], [7]])[2].tolist()
    [7]
    """

    flat: np.ndarray
    starts: np.ndarray

    @classmethod
    def of(cls, rows: Sequence[Sequence[int] | np.ndarray], *, dtype: type = np.int32) -> "Ragged":
        starts = np.zeros(len(rows) + 1, dtype=np.int64)
        np.cumsum([len(row) for row in rows], out=starts[1:])
        return cls(np.fromiter(chain.from_iterable(rows), dtype=dtype, count=int(starts[-1])), starts)

    @classmethod
    def joined(cls, parts: Iterable["Ragged"]) -> "Ragged":
        """The rows of all parts."""
        kept = list(parts)
        lengths = np.concatenate([part.lengths for part in kept]) if kept else np.zeros(0, dtype=np.int64)
        flat = np.concatenate([part.flat for part in kept]) if kept else np.zeros(0, dtype=np.int32)
        return cls(flat, np.concatenate([[0], lengths.cumsum()]).astype(np.int64))

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        return self.flat[self.starts[row] : self.starts[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.starts)

    def between(self, first: int, last: int) -> "Ragged":
        """Rows first … last - 1, on the same memory."""
        starts = self.starts[first : last + 1]
        return Ragged(self.flat[starts[0] : starts[-1]], starts - starts[0])

    def where(self, wanted: np.ndarray) -> "Ragged":
        """The rows for which `wanted` is True."""
        starts = np.concatenate([[0], self.lengths[wanted].cumsum()])
        return Ragged(self.flat[np.repeat(wanted, self.lengths)], starts)


def padded(rows: Sequence[np.ndarray], value: int) -> Tensor:
    """The rows as one tensor of int64, filled up at their ends.

    >>> padded([np.array([3, 5]), np.array([7])], 0).tolist()
    [[3, 5], [7, 0]]
    """
    found = np.full((len(rows), max(map(len, rows))), value, dtype=np.int64)
    for place, row in zip(found, rows, strict=True):
        place[: len(row)] = row
    return torch.from_numpy(found)


def kept(rows: Sequence[np.ndarray]) -> Tensor:
    """Where `padded` rows have something real."""
    lengths = torch.tensor([len(row) for row in rows])
    return torch.arange(int(lengths.max()))[None] < lengths[:, None]
