"""The order of examples, and the batches of every step.

The order is a pure function of the seed, so that the state of the data is one number, the step.

Position p is in epoch ⌊p / count⌋, and each epoch is a permutation of all examples. It is computed, not stored: a
Feistel network (Luby and Rackoff 1988) permutes the numbers of b bits, 2ᵇ⁻¹ < count ≤ 2ᵇ, and a number that is no
example is permuted again until it is one (cycle walking, Black and Rogaway 2002).

>>> Order(5, seed=0).rows(0, 5)[0].tolist()
[0, 4, 2, 3, 1]
"""

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

import numpy as np

from headway.data.batch import Batch, Examples

ROUNDS, FEW = 6, 24  # few bits need more rounds until every permutation of them is as likely as any other
POOL = 4096  # positions that are ordered together
_SIGN = np.uint64((1 << 63) - 1)
_TIMES = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of SplitMix64
_STEP = np.uint64(0x9E3779B97F4A7C15)


class Order:
    """Which examples stand at which positions; with `sizes`, similar ones share a batch as far as chance allows.

    With sizes, pools of some thousand positions are sorted by size and cut into batches, and the batches are shuffled.
    """

    def __init__(
        self, count: int, *, seed: int, sizes: np.ndarray | None = None, batch: int = 1, pool: int = POOL
    ) -> None:
        if count < 1:
            raise ValueError(f"an order needs at least one example, not {count}")
        if sizes is not None and len(sizes) != count:
            raise ValueError(f"{len(sizes)} sizes were given for {count} examples")
        self.count, self.seed, self.sizes, self.batch = count, seed, sizes, batch
        self.pool = max(pool // batch, 1) * batch
        # A step asks for a few positions; the arithmetic costs as much for a few as for thousands.
        self._kept = lru_cache(maxsize=2)(self._pool)

    def rows(self, first: int, last: int) -> tuple[np.ndarray, np.ndarray]:
        """The examples at positions first … last - 1, and for each a key of 63 bits that no other position has."""
        positions = np.arange(first, last, dtype=np.int64)
        if last <= first:
            return positions, positions.copy()
        pools = range(first // self.pool, (last - 1) // self.pool + 1)
        found = self._kept(pools[0]) if len(pools) == 1 else np.concatenate([self._kept(pool) for pool in pools])
        start = pools[0] * self.pool
        return found[first - start : last - start].copy(), keys_of(self.seed, positions)

    def _pool(self, pool: int) -> np.ndarray:
        positions = np.arange(pool * self.pool, (pool + 1) * self.pool, dtype=np.int64)
        rows = permuted(positions % self.count, self.count, keys=mixed(_word(self.seed), positions // self.count))
        if self.sizes is None:
            return rows
        parts = [self._alike(rows[part], int(positions[part.start])) for part in self._epochs(positions)]
        return np.concatenate(parts)

    def _epochs(self, positions: np.ndarray) -> Iterator[slice]:
        """The parts of a pool that belong to one epoch each, so that sorting never moves a row to another epoch."""
        first, last = int(positions[0]), int(positions[-1]) + 1
        cuts = [first, *range((first // self.count + 1) * self.count, last, self.count), last]
        for start, stop in pairwise(cuts):
            yield slice(start - first, stop - first)

    def _alike(self, rows: np.ndarray, first: int) -> np.ndarray:
        """The same rows, each batch filled from neighbours in size; which batch gets which size is drawn."""
        assert self.sizes is not None
        ranked = rows[np.argsort(self.sizes[rows], kind="stable")]
        # Batches are counted from position 0, so an epoch may begin and end within one.
        number = np.arange(first, first + len(rows)) // self.batch
        drawn = mixed(mixed(_word(self.seed), np.array([first // self.count])), number)
        places = np.lexsort((number, drawn))
        found = np.empty_like(rows)
        found[places] = ranked
        return found


def keys_of(seed: int, positions: np.ndarray) -> np.ndarray:
    """A number of 63 bits for each position; of one seed no two are equal, since every line below can be undone."""
    x = positions.astype(np.uint64) * _STEP + scrambled(_word(seed) + _STEP) & _SIGN
    for shift, times in zip((30, 27), _TIMES, strict=True):
        x = (x ^ x >> np.uint64(shift)) * times & _SIGN
    return (x ^ x >> np.uint64(31)).astype(np.int64)


def permuted(numbers: np.ndarray, count: int, *, keys: np.ndarray) -> np.ndarray:
    """Where a permutation of 0 … count - 1 sends these numbers; each has the key of its permutation."""
    found = _network(numbers.astype(np.uint64), count, keys)
    while (outside := np.flatnonzero(found >= count)).size:
        found[outside] = _network(found[outside], count, keys[outside])
    return found.astype(np.int64)


def _network(x: np.ndarray, count: int, keys: np.ndarray) -> np.ndarray:
    """A permutation of the numbers of as many bits as count - 1 has: (left, right) -> (right, left + f(right)).

    The halves may differ by a bit; they change places in each round, and after an even number are what they were.
    """
    bits = (count - 1).bit_length()
    low, high = bits - bits // 2, bits // 2
    left, right = x >> np.uint64(low), x & _ones(low)
    for turn in range(ROUNDS if bits > 7 else FEW):
        drawn = scrambled(keys ^ right ^ np.uint64(turn << 48))
        left, right = right, left + drawn & _ones(high if turn % 2 == 0 else low)
    return left << np.uint64(low) | right


def mixed(key: np.ndarray, numbers: np.ndarray) -> np.ndarray:
    """64 bits that look drawn at random, for a key and each number."""
    return scrambled(scrambled(numbers.astype(np.uint64) + _STEP) ^ scrambled(key + _STEP))


def scrambled(x: np.ndarray) -> np.ndarray:
    """The finaliser of SplitMix64 (Steele, Lea and Flood 2014)."""
    for shift, times in zip((30, 27), _TIMES, strict=True):
        x = (x ^ x >> np.uint64(shift)) * times
    return x ^ x >> np.uint64(31)


def _ones(bits: int) -> np.uint64:
    return np.uint64((1 << bits) - 1)


def _word(seed: int) -> np.ndarray:
    """As an array, because numpy warns of a single number that overflows."""
    return np.array([seed % (1 << 64)], dtype=np.uint64)


@dataclass
class Loader:
    """What one process reads: its slice of each step's examples, in `parts` batches.

    Position p of the order belongs to step p // batch, whatever the number of processes and parts; so neither changes
    what is learned.
    """

    examples: Examples
    order: Order
    batch: int  # examples of a step, of all processes
    parts: int = 1
    rank: int = 0
    size: int = 1
    waited: float = 0.0  # seconds that whoever asked had to wait

    def step(self, step: int) -> list[Batch]:
        """The batches of one step."""
        share = self.batch // (self.size * self.parts)
        starts = [self.batch * step + share * (self.rank * self.parts + part) for part in range(self.parts)]
        return [self.examples.batch(*self.order.rows(start, start + share)) for start in starts]

    def steps(self, first: int, last: int) -> Iterator[list[Batch]]:
        """The same for step after step."""
        with ThreadPoolExecutor(1, thread_name_prefix="feed") as ahead:
            coming = ahead.submit(self.step, first)
            for step in range(first, last):
                begun = time.perf_counter()
                found = coming.result()
                self.waited += time.perf_counter() - begun
                if step + 1 < last:
                    coming = ahead.submit(self.step, step + 1)
                yield found


def check_shares(batch: int, size: int, parts: int) -> None:
    """Refuse a batch that cannot be shared out equally."""
    if batch % (size * parts):
        raise ValueError(
            f"batch {batch} cannot be shared by {size} processes of {parts} parts each: choose a multiple of "
            f"{size * parts}"
        )
