"""What a run's steps really took: watched from outside of the loop, at the events that it gives."""

import sys
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from headway.training.loop import TrainingEvent


@dataclass(frozen=True)
class Measured:
    """Of the steps that were watched: median seconds of one, tokens (or images) of one, bytes at their peak.

    memory: what the process took beyond what it held before the first step, with the weights (which it held);
    process: all of it, code and data too.
    """

    steps: int
    seconds: float
    tokens: float
    memory: int | None = None
    process: int | None = None


class Watch:
    """Looks at the clock when an event comes and when its handling ends; between two lines of training lie steps alone.

    Validations, samples and checkpoints come as events of their own, and their time is in no step.
    """

    def __init__(self, step: int, tokens: int, *, held: int = 0) -> None:
        """`held`: bytes of a step's peak that are held already, before the first."""
        self._step, self._first, self._held = step, (step, tokens), held
        self._last = self._first
        self._laps: list[tuple[int, float]] = []  # steps, seconds
        self._before = _forget_peak()
        self._since = time.perf_counter()

    def see(self, event: TrainingEvent) -> None:
        """An event has come."""
        seconds, steps = time.perf_counter() - self._since, event.row["step"] - self._step
        if event.kind == "train":
            if steps > 0:
                self._laps.append((steps, seconds))
            self._last = event.row["step"], event.row["tokens"]
        self._step = event.row["step"]

    def rest(self) -> None:
        """It has been looked at: from here on the loop works again."""
        self._since = time.perf_counter()

    def measured(self) -> Measured | None:
        """None where no line of training came."""
        (first, before), (last, tokens) = self._first, self._last
        if not self._laps or last <= first:
            return None
        peak = _peak()
        memory = None if peak is None or self._before is None else max(0, peak - self._before) + self._held
        each = median(seconds / steps for steps, seconds in self._laps)
        return Measured(last - first, each, (tokens - before) / (last - first), memory, peak)


def _forget_peak() -> int | None:
    """Bytes that the process holds now; where the system can, its peak is counted from here on. None: it cannot."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return None
    return _status("VmRSS")


def _peak() -> int | None:
    """The most bytes that the process held since then."""
    found = _status("VmHWM")
    if found is not None:
        return found
    import resource  # which not every system has

    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _status(name: str) -> int | None:
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(f"{name}:")), None)
