"""What this machine can do, measured in the same run as the rows that are held against it.

    least possible time = max(FLOPs / peak, bytes / bandwidth)        (roofline: Williams, Waterman, Patterson 2009)

Peak is the best rate of a matrix product of that dtype, done in the dtype itself or by way of float32, whichever is
faster here; of whole numbers of 8 bits that of their product, which no narrower one beats. Bandwidth is the best of a
sum, a copy and a triad, counting what is read and what is written.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from headway.bench.measure import Timing, compare, lap, quiet
from headway.cost.time.machine import processor

NOISY = 0.10  # relative spread, or drift of the reference between start and end, above which times prove little
SIDES = (256, 1024, 1536)  # of the matrices multiplied
SLOW = 0.02  # seconds: after a product that takes longer, no larger one is tried
BYTES = 64 * 2**20  # of one array streamed, beyond most caches


@dataclass(frozen=True)
class MachineLimits:
    """The limits, and how steady they were."""

    name: str
    threads: int
    peaks: dict[str, float]  # precision -> FLOP/s
    bandwidth: float  # bytes/s
    reference: Timing  # one fixed product, repeated

    def least_seconds(self, *, flops: int, bytes: int, precision: str) -> float:
        """The roofline: no kernel moving these bytes and multiplying these numbers is faster here.

        >>> MachineLimits("x", 1, {"float32": 1e9}, 1e8, Timing((1.0,))).least_seconds(
        ...     flops=3 * 10**9, bytes=2 * 10**8, precision="float32")
        3.0
        """
        peak = self.peaks[precision] if precision in self.peaks else max(self.peaks.values())
        return max(flops / peak, bytes / self.bandwidth)

    def __str__(self) -> str:
        peaks = ", ".join(f"{rate / 1e9:.0f} GFLOP/s {precision}" for precision, rate in self.peaks.items())
        streamed = f"{self.bandwidth / 1e9:.0f} GB/s"
        return f"{self.name}, {self.threads} threads, {peaks}, {streamed}, torch {torch.__version__}"


def measure(precisions: tuple[str, ...] = ("float32", "bfloat16")) -> MachineLimits:
    """The limits of this machine with the threads torch uses now; two or three seconds."""
    peaks = {precision: peak(getattr(torch, precision)) for precision in precisions} | {"int8": peak_int8()}
    # A narrower number can always be widened first, so no precision is slower than float32.
    peaks = {name: rate if name == "float64" else max(rate, peaks.get("float32", 0.0)) for name, rate in peaks.items()}
    return MachineLimits(processor(), torch.get_num_threads(), peaks, bandwidth(), reference())


def peak(dtype: torch.dtype) -> float:
    """FLOP/s of the best matrix product in this dtype itself."""
    rates = [0.0]
    for side in SIDES:
        a = torch.ones(side, side, dtype=dtype)
        seconds = _best(lambda a=a: a @ a)
        rates.append(2 * side**3 / seconds)
        if seconds > SLOW:
            break
    return max(rates)


def peak_int8() -> float:
    """Operations/s of the best product of 8-bit whole numbers; 0 where torch has none."""
    rates = [0.0]
    for side in SIDES:
        a = torch.ones(side, side, dtype=torch.int8)
        try:
            seconds = _best(lambda a=a: torch.ops.aten._int_mm(a, a))
        except RuntimeError:
            break
        rates.append(2 * side**3 / seconds)
        if seconds > SLOW:
            break
    return max(rates)


def bandwidth() -> float:
    """Bytes/s of the best of a sum (1 array, read), a copy (2 arrays) and a triad c = a + 3 b (3 arrays)."""
    a, b, c = (torch.ones(BYTES // 4) for _ in range(3))
    whole = torch.ones(BYTES)  # 4 arrays in one: nothing of it is left in a cache
    read = 4 * BYTES / _best(whole.sum)
    copied = 2 * BYTES / _best(lambda: b.copy_(a))
    return max(read, copied, 3 * BYTES / _best(lambda: torch.add(a, b, alpha=3, out=c)))


def reference() -> Timing:
    """One fixed float32 product over and over: its spread is the machine's noise, its change over a run the drift."""
    a = torch.ones(512, 512)
    return compare({"product": lambda: a @ a}, budget=0.3, least=15, warmup=3)["product"]


def warnings(before: Timing, after: Timing) -> list[str]:
    """Why times of this run should not be trusted; empty on a steady machine."""
    drift = after.median / before.median - 1
    found = []
    if (noise := max(before.spread or 0.0, after.spread or 0.0)) > NOISY:
        found.append(f"the same product varies by {noise:.0%}, over {NOISY:.0%}: too noisy to conclude from small gaps")
    if abs(drift) > NOISY:
        found.append(f"the same product took {drift:+.0%} at the end of the run, over {NOISY:.0%}: trust ratios only")
    return found


def _best(call: Callable[[], object]) -> float:
    with quiet():
        first = lap(call)
        return min(lap(call) for _ in range(2 if first > SLOW else 6))
