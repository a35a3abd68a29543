"""Times of several contenders, taken in turns, so that whatever slows the machine slows all of them; peak memory.

    round 1: B A C    round 2: C A B    …    one time per contender and round, the order drawn anew by a fixed seed

A ratio is the median of the rounds' ratios: a slow second that hits one round cannot move it, where a ratio of medians
mixes rounds.

Peak memory is the live tensor bytes of one call, beyond what was alive before it. torch's profiler reports every
allocation and release of the CPU allocator, so scratch that a kernel takes and returns inside one operator counts
too; a dispatch mode sees only the tensors between operators. Blocks that were alive before the call are neither counted
nor, when the call frees them, credited. What a library takes from malloc itself (oneDNN's own buffers) is invisible.
"""

import gc
import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from math import ceil, sqrt
from statistics import median, quantiles
from typing import Any

from torch import Tensor

from headway.observe.allocations import recorded, replay

SHORTEST = 1e-3  # seconds: a faster call is repeated inside one measurement until it lasts this long


@dataclass(frozen=True)
class Timing:
    """One figure per round, and what they say together.

    >>> timing = Timing((1.0, 2.0, 3.0, 4.0, 5.0))
    >>> timing.median, round(timing.spread, 3), round(timing.error, 3)
    (3.0, 0.667, 0.468)
    """

    rounds: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.rounds)

    @property
    def spread(self) -> float | None:
        """Interquartile range / median; None for a single round, which has none."""
        if len(self.rounds) < 2:
            return None
        low, _, high = quantiles(self.rounds, n=4, method="inclusive")
        return (high - low) / self.median

    @property
    def error(self) -> float | None:
        """Half the 95 % interval of the median, relative to it: 1.57 · spread / √rounds (McGill et al. 1978)."""
        return None if self.spread is None else 1.57 * self.spread / sqrt(len(self.rounds))

    def over(self, other: "Timing") -> "Timing":
        """The rounds' ratios, this / other.

        >>> Timing((2.0, 9.0, 4.0)).over(Timing((1.0, 3.0, 2.0))).median
        2.0
        """
        return Timing(tuple(ours / theirs for ours, theirs in zip(self.rounds, other.rounds, strict=True)))


def orders(names: list[str], *, seed: int = 0) -> Iterator[list[str]]:
    """The order of every round: all names, drawn anew each time, the same for the same seed."""
    draw = random.Random(seed)
    while True:
        yield draw.sample(names, len(names))


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection while the clock runs."""
    was_on = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def lap(call: Callable[[], object], repeats: int = 1) -> float:
    """Seconds of one call, averaged over back-to-back repeats."""
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def compare(
    contenders: Mapping[str, Callable[[], object]],
    *,
    budget: float = 2.0,
    longest: float | None = None,
    least: int = 7,
    most: int = 200,
    warmup: int = 1,
    seed: int = 0,
    pause: float = 0.0,
) -> dict[str, Timing]:
    """Times every contender once a round, `least` to `most` rounds, for about `budget` seconds.

    Where `least` rounds would take more than `longest` seconds (by default four budgets) there are fewer, never none.
    Before each of its measurements there is a `pause`, in seconds.

    >>> contenders = {"sum": lambda: sum(range(9)), "max": lambda: max(range(9))}
    >>> timings = compare(contenders, budget=0.0, longest=9.0, least=3)
    >>> {name: len(timing.rounds) for name, timing in timings.items()}
    {'sum': 3, 'max': 3}
    """
    if least < 1 or most < least or not contenders:
        given = f"{len(contenders)} contenders, least={least}, most={most}"
        raise ValueError(f"compare needs a contender and 1 <= least <= most; got {given}")
    rounds: dict[str, list[float]] = {name: [] for name in contenders}
    with quiet():
        warm = {name: min((lap(call) for _ in range(warmup)), default=SHORTEST) for name, call in contenders.items()}
        repeats = {name: max(1, ceil(SHORTEST / max(seconds, 1e-9))) for name, seconds in warm.items()}
        longest = 4 * budget if longest is None else longest
        start = time.perf_counter()
        for done, order in enumerate(orders(list(contenders), seed=seed)):
            enough = budget if done >= least else longest
            if done >= most or (done and time.perf_counter() - start >= enough):
                break
            for name in order:
                time.sleep(pause)
                rounds[name].append(lap(contenders[name], repeats[name]))
    return {name: Timing(tuple(seconds)) for name, seconds in rounds.items()}


@dataclass(frozen=True)
class PeakMemory:
    """Bytes: the peak of the call, and the part of it that the call returned."""

    peak: int
    output: int

    @property
    def beyond(self) -> int:
        """Peak beyond the output: what the call needed and did not give."""
        return self.peak - self.output


def peak_memory(call: Callable[[], Any]) -> PeakMemory:
    """Runs the call once and reads its allocations.

    >>> import torch
    >>> x = torch.ones(256, 256)
    >>> peak_memory(lambda: x @ x)
    PeakMemory(peak=262144, output=262144)
    """
    result, changes = recorded(call)
    peak, live = replay(changes)
    returned = {tensor.untyped_storage().data_ptr() for tensor in tensors(result)}
    return PeakMemory(peak, sum(live.get(pointer, 0) for pointer in returned))


def tensors(result: Any) -> Iterator[Tensor]:
    """Every tensor in nested lists, tuples and dicts."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        yield from tensors(list(result.values()))
    elif isinstance(result, list | tuple):
        for item in result:
            yield from tensors(item)
