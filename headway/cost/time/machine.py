"""This machine, measured once and stored: the rates of its kernels, and the seconds of an operation.

    seconds = overhead of the call + work / rate of its kernel at its size

`measure` writes `headway/machine.json` in the user's cache directory; nothing else measures. `stored` reads it only
where processor, threads and torch are still those it was measured with.
"""

import gc
import os
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import date
from itertools import product
from math import ceil
from pathlib import Path
from typing import Any

import torch

from headway.config.read_file import read_object
from headway.cost.op_tree import Line
from headway.cost.time.kernels import FORWARD, Axes, Grid, Rates, WeightBytes, rates_of, seconds_of
from headway.cost.time.probes import PROBES, Probe
from headway.data.files import write_json
from headway.models.language import Language
from headway.presets.gpt2 import gpt2

PRECISIONS = ("float32", "bfloat16")
BUDGET, ROUNDS = 0.002, 2  # seconds for one point in one round
LONGEST = 3.0  # seconds after which no other round is begun
BLOCK_BUDGET = 0.06  # seconds for one pass of a tiny model
SHORTEST = 1e-4  # seconds: a faster call is repeated inside one measurement until it lasts this long
# What a block of GPT-2 is made of; its own overhead is what its kernels do not explain.
BLOCK = {"product": 6, "norm": 2, "elementwise": 2, "activation": 1, "attention": 1}
KERNELS = frozenset(PROBES)
TINY_PHASES = ("forward", "decoding", "learning", "backward")
OVERHEADS = KERNELS | {f"{part}/{phase}" for part in ("block", "model") for phase in TINY_PHASES}


def measure_rates(dtype: torch.dtype, *, quick: bool = False) -> Rates:
    """All kernels in one precision; `quick`: only to see that it runs, at the smallest sizes.

    Every point is visited in several rounds, so that a slow moment of the machine spoils none of them for good.
    """
    rounds: list[dict[str, list[tuple[float, float]]]] = []
    end = time.perf_counter() + (0.0 if quick else LONGEST)
    with _quiet():
        while not rounds or (len(rounds) < ROUNDS and time.perf_counter() < end):
            rounds.append({name: list(_timed(probe, dtype, quick=quick)) for name, probe in PROBES.items()})
        found = {name: _rated(probe, [one[name] for one in rounds], quick) for name, probe in PROBES.items()}
        overheads = {name: overhead for name, (_, overhead) in found.items()}
        overheads |= block_overheads(dtype, overheads, budget=0.0 if quick else BLOCK_BUDGET)
    return Rates({name: grid for name, (grid, _) in found.items()}, overheads)


def _axes(probe: Probe, quick: bool) -> Axes:
    return {name: knots[: 1 if quick else None] for name, knots in probe.axes.items()}


def _timed(probe: Probe, dtype: torch.dtype, *, quick: bool) -> Iterator[tuple[float, float]]:
    """(work, seconds): of a call that has next to nothing to do, then at every knot."""
    budget = 0.0 if quick else BUDGET
    axes = _axes(probe, quick)
    for place, point in enumerate([tuple(probe.least[name] for name in axes), *product(*axes.values())]):
        with torch.set_grad_enabled(probe.gradients):
            work, call = probe.make(dtype, **dict(zip(axes, point, strict=True)))
            yield work, best(call, budget if place else 4 * budget)


def _rated(probe: Probe, rounds: list[list[tuple[float, float]]], quick: bool) -> tuple[Grid, float]:
    """Rates at all knots from the fastest round of each, and the overhead of a call."""
    works = [work for work, _ in rounds[0]]
    overhead, *fastest = (min(one[place][1] for one in rounds) for place in range(len(works)))
    # Where the call is all there is, noise may exceed the work.
    left = [max(seconds - overhead, seconds / 10) for seconds in fastest]
    return Grid(_axes(probe, quick), tuple(work / each for work, each in zip(works[1:], left, strict=True))), overhead


def best(call: Callable[[], object], budget: float) -> float:
    """Seconds of the fastest of several calls: what slows a call down is somebody else."""
    found = min(_lap(call), _lap(call))
    repeats = max(1, ceil(SHORTEST / max(found, 1e-9)))
    end = time.perf_counter() + budget
    while time.perf_counter() < end:
        found = min(found, _lap(call, repeats))
    return found


def _lap(call: Callable[[], object], repeats: int = 1) -> float:
    start = time.perf_counter()
    for _ in range(repeats):
        call()
    return (time.perf_counter() - start) / repeats


def block_overheads(dtype: torch.dtype, kernels: Mapping[str, float], *, budget: float) -> dict[str, float]:
    """Seconds of a block, and of the model around blocks, that are no kernel's: from models too small for work."""
    few, many = 1, 4
    calls = [_tiny(layers, dtype) for layers in (few, many)]
    found: dict[str, float] = {}
    for phase in TINY_PHASES:
        with torch.set_grad_enabled(phase in ("learning", "backward")):
            small, large = (best(made[phase], budget) for made in calls)
        block = (large - small) / (many - few)
        found[f"model/{phase}"] = max(0.0, small - few * block)
        found[f"block/{phase}"] = block - sum(
            count * kernels.get(f"{kind}/{phase}", kernels[f"{kind}/forward"]) for kind, count in BLOCK.items()
        )
    return found


def _tiny(layers: int, dtype: torch.dtype) -> dict[str, Callable[[], object]]:
    length = 512
    model = Language(gpt2(width=8, heads=2, layers=layers, vocabulary=11, length=length, dropout=0.0)).to(dtype)
    tokens, session = torch.zeros(1, 2, dtype=torch.long), model.session(capacity=length)
    with torch.enable_grad():
        hidden = model.hidden_states(tokens).sum()

    def decoded() -> object:
        nonlocal session
        session = session if session.room else model.session(capacity=length)
        return session.read(tokens[:, :1])

    return {
        "forward": lambda: model.session(capacity=3).read(tokens),
        "decoding": decoded,
        "learning": lambda: model.hidden_states(tokens),
        "backward": lambda: torch.autograd.grad(hidden, list(model.parameters()), retain_graph=True),
    }


@contextmanager
def _quiet() -> Iterator[None]:
    """No garbage collection while the clock runs."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


ADVICE = "`headway cost --machine` measures this machine once, in a few seconds"


@dataclass(frozen=True)
class Machine:
    """Rates by precision, and what they hold for."""

    processor: str
    threads: int
    torch: str
    measured: str
    rates: Mapping[str, Rates]

    def seconds(
        self, line: Line, phase: str = FORWARD, *, dtype: str = "float32", held: WeightBytes | None = None
    ) -> float:
        """An operation as often as it runs, in one phase: forward, learning (forward with gradients), backward, update.

        `held`: what else the model holds, where that is known; a weight that has to come from memory each time is
        slower than one that stays in the cache.
        """
        return seconds_of(self.of(dtype), line, phase, held or WeightBytes.of([line], dtype))

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
        machine = machine_of(read_object(path))
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
