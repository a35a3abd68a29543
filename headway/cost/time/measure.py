"""Timing the probes, and what a block of ours takes beyond its kernels."""

import gc
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from itertools import product
from math import ceil

import torch

from headway.cost.time.probes import PROBES, Probe
from headway.cost.time.rates import Axes, Grid, Rates
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
