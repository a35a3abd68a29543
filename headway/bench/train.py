"""`headway bench train`: whole training steps beside the libraries that people use, same size, batch and precision.

One step is forward, loss, backward, clipping and AdamW, on a GPT without dropout. A plain model in forty lines of
PyTorch (`bench.plain`) and transformers start from headway's own weights, so their losses have to be headway's;
x-transformers has a GPT of its own (norms and attention without biases), of about the same size. And how long training
waits for data (`feeding`). Each library runs in a process of its own, with its own settings, and all take turns.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor

from headway.bench.agree import Disagreement, agree
from headway.bench.contender_process import ContenderProcess
from headway.bench.row import Row, Target, unmeasured
from headway.bench.run import Bench
from headway.bench.sizes import SIZES
from headway.bench.training_steps import PEERS, contender, feeding
from headway.models import count

# How many times the rate of every peer is asked for.
FACTORS = {"float32": {"characters": 1.05, "subwords": 1.1, "medium": 1.1}, "bfloat16": dict.fromkeys(SIZES, 1.15)}
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}  # of losses, over the first steps


def characters(run: Bench) -> Iterator[Row]:
    """The GPT that trains on a laptop in minutes: small products, where what a library adds to them shows."""
    yield from _both(run, "characters")


def subwords(run: Bench) -> Iterator[Row]:
    """A larger one, whose head is a good part of the work."""
    yield from _both(run, "subwords")


def medium(run: Bench) -> Iterator[Row]:
    """One whose products are large enough for the processor's units: what is left is memory."""
    yield from _both(run, "medium")


def _both(run: Bench, name: str) -> Iterator[Row]:
    for precision in FACTORS:
        yield beside(run, name, precision)


def beside(run: Bench, name: str, precision: str, *, apart: bool = True) -> Row:
    """One row: the same steps by each library, each in a process of its own."""
    size = SIZES[name]
    row = Row("train", f"{size.name}, training step", size.shape, precision, unit="tokens/s")
    factor = FACTORS[precision][name]
    target = Target(f"at least {factor} x every peer", at_least=factor)
    lacking = [name for name in ("transformers", "x_transformers") if find_spec(name) is None]
    if lacking:
        return unmeasured(row, f"{' and '.join(lacking)} not installed", target=target)
    dtype = getattr(torch, precision)
    tokens = size.batch * size.length
    make = partial(ContenderProcess, contender) if apart else contender
    steps: dict[str, Any] = {one: make(one, size, dtype) for one in (*PEERS, "headway")}
    try:
        return run.race(
            row,
            steps,
            check=lambda: _same(steps, TOLERANCE[precision]),
            # Each weight meets each token once forward and twice backward.
            flops=6 * tokens * count(size.config),
            target=target,
            figure=lambda seconds: tokens / seconds,
            longest=run.seconds if run.quick else 30.0,
            warmup=3,
        )
    finally:
        for step in steps.values() if apart else ():
            step.close()


def _same(steps: Mapping[str, Callable[[], Tensor]], tolerance: float) -> None:
    """Three steps: the losses of those who began with headway's weights are headway's, and everybody's fall."""
    losses = {name: torch.stack([step() for _ in range(3)]).double() for name, step in steps.items()}
    agree({name: losses[name] for name in ("plain PyTorch", "transformers", "headway")}, tolerance=tolerance)
    for name, found in losses.items():
        if not found[-1] < found[0]:
            raise Disagreement(f"{name} does not learn: its losses are {found.tolist()}")


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "characters": characters,
    "subwords": subwords,
    "medium": medium,
    "feeding": feeding,
}
