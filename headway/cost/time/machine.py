"""This machine, measured once and remembered: what its kernels reach, and how long an operation will take on it.

    seconds = overhead of the call + work / rate of its kernel at its size

`measure` writes `headway/machine.json` in the user's cache directory; nothing else measures, and `stored` reads it only
where processor, threads and torch are still those it was measured with.
"""

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

import torch

from headway.cost.part import Line
from headway.cost.time.kernels import FORWARD, Held, seconds_of
from headway.cost.time.measure import KERNELS, OVERHEADS, PRECISIONS, measure_rates
from headway.cost.time.rates import Rates, rates_of
from headway.data.files import write_json

ADVICE = "`headway cost --machine` measures this machine once, in a few seconds"


@dataclass(frozen=True)
class Machine:
    """Rates by precision, and what they hold for."""

    processor: str
    threads: int
    torch: str
    measured: str
    rates: Mapping[str, Rates]

    def seconds(self, line: Line, phase: str = FORWARD, *, dtype: str = "float32", held: Held | None = None) -> float:
        """An operation as often as it runs, in one phase: forward, learning (forward with gradients), backward, update.

        `held`: what else the model holds, where that is known; a weight that has to come from memory each time is
        slower than one that stays in the cache.
        """
        return seconds_of(self.of(dtype), line, phase, held or Held.of([line], dtype))

    def of(self, dtype: str) -> Rates:
        """The rates of one precision."""
        if dtype not in self.rates:
            raise ValueError(
                f"times in {dtype} are not known here: the machine was measured in {', '.join(self.rates)}"
            )
        return self.rates[dtype]

    def peak(self, dtype: str = "float32") -> float:
        """FLOP/s of the largest product that was measured."""
        grid = self.of(dtype).grids["product/forward"]
        return 2 * grid.at(**{name: knots[-1] for name, knots in grid.axes.items()})

    def bandwidth(self, dtype: str = "float32") -> float:
        """Bytes/s to and from memory, beyond every cache."""
        return self.of(dtype).grids["memory/forward"].values[-1]

    def ridge(self, dtype: str = "float32") -> float:
        """FLOPs per byte above which products, not memory, are the limit (Williams, Waterman, Patterson 2009)."""
        return self.peak(dtype) / self.bandwidth(dtype)

    def __str__(self) -> str:
        peaks = ", ".join(f"{self.peak(dtype) / 1e9:.0f} GFLOP/s {dtype}" for dtype in self.rates)
        memory = f"{self.bandwidth(next(iter(self.rates))) / 1e9:.0f} GB/s"
        threads = f"{self.threads} thread{'s' if self.threads > 1 else ''}"
        return f"{self.processor}, {threads}, {peaks}, {memory}, torch {self.torch}, measured {self.measured}"

    def as_json(self) -> dict[str, Any]:
        rates = {dtype: rates.as_json() for dtype, rates in self.rates.items()}
        return {**vars(self), "rates": rates}


def measure(say: Callable[[str], None] = lambda line: None, *, quick: bool = False) -> Machine:
    """Measure this machine with the threads that torch uses now, and remember it."""
    rates = {}
    for dtype in PRECISIONS:
        say(f"measuring {dtype}")
        rates[dtype] = measure_rates(getattr(torch, dtype), quick=quick)
    machine = Machine(processor(), torch.get_num_threads(), torch.__version__, date.today().isoformat(), rates)
    path = place()
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, machine.as_json())
    say(f"{machine}; kept in {path}")
    return machine


def place() -> Path:
    """The file that remembers the machine: in XDG_CACHE_HOME, or in ~/.cache."""
    cache = os.environ.get("XDG_CACHE_HOME")
    return Path(cache if cache else Path.home() / ".cache") / "headway" / "machine.json"


def stored() -> tuple[Machine | None, str]:
    """The machine as it was measured; or None, and one sentence on why there is none."""
    path = place()
    if not path.exists():
        return None, f"no predicted times: {ADVICE}"
    try:
        machine = machine_of(json.loads(path.read_text(encoding="utf-8")))
    except (ValueError, KeyError, TypeError, AttributeError, OSError) as error:
        return None, f"no predicted times: {path} cannot be read ({type(error).__name__}: {error}); {ADVICE}"
    changed = _changed(machine)
    return (None, f"no predicted times: {changed}; {ADVICE}") if changed else (machine, "")


def machine_of(found: Mapping[str, Any]) -> Machine:
    """The machine that `as_json` wrote."""
    rates = {str(dtype): rates_of(one) for dtype, one in found["rates"].items()}
    lacking = sorted({kernel for one in rates.values() for kernel in KERNELS - one.grids.keys()})
    lacking += sorted({name for one in rates.values() for name in OVERHEADS - one.overheads.keys()})
    if lacking:
        raise ValueError(f"it knows nothing of {', '.join(lacking)}")
    return Machine(str(found["processor"]), int(found["threads"]), str(found["torch"]), str(found["measured"]), rates)


def _changed(machine: Machine) -> str:
    """What is no longer as it was measured, in words; empty where nothing changed."""
    now = {"processor": processor(), "threads": torch.get_num_threads(), "torch": torch.__version__}
    then = {name: getattr(machine, name) for name in now}
    changed = [f"{name} {then[name]}, now {now[name]}" for name in now if then[name] != now[name]]
    return f"it was measured with {'; '.join(changed)}" if changed else ""


def processor() -> str:
    """The processor's name, as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    named = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return named[0] if named else platform.processor() or platform.machine()
