"""`headway bench train`: whole training steps beside the libraries that people use, same size, batch and precision.

One step is forward, loss, backward, clipping and AdamW, on a GPT without dropout. transformers starts from headway's
own weights, so its losses have to be headway's; x-transformers has a GPT of its own (norms and attention without
biases), of about the same size. And how long training waits for data (`feeding`).
"""

from collections.abc import Callable, Iterator, Mapping
from importlib.util import find_spec

import torch
from torch import Tensor

from headway.bench.agree import Disagreement, agree
from headway.bench.feeding import feeding
from headway.bench.row import Row, Target, unmeasured
from headway.bench.run import Run
from headway.bench.steps import SIZES, Size, contenders
from headway.models import count

FACTORS = {"float32": 1.05, "bfloat16": 1.15}  # how many times the rate of either peer is asked for
TOLERANCE = {"float32": 1e-4, "bfloat16": 2e-2}  # of losses, over the first steps


def characters(run: Run) -> Iterator[Row]:
    """The GPT that trains on a laptop in minutes: small products, where what a library adds to them shows."""
    yield from _both(run, SIZES["characters"])


def subwords(run: Run) -> Iterator[Row]:
    """A larger one, whose head is a good part of the work."""
    yield from _both(run, SIZES["subwords"])


def _both(run: Run, size: Size) -> Iterator[Row]:
    for precision in FACTORS:
        yield beside(run, size, precision)


def beside(run: Run, size: Size, precision: str) -> Row:
    """One row: the same steps by each library."""
    row = Row("train", f"{size.name}, training step", size.shape, precision, unit="tokens/s")
    factor = FACTORS[precision]
    target = Target(f"at least {factor} x both peers", at_least=factor)
    lacking = [name for name in ("transformers", "x_transformers") if find_spec(name) is None]
    if lacking:
        return unmeasured(row, f"{' and '.join(lacking)} not installed", target=target)
    dtype = getattr(torch, precision)
    tokens = size.batch * size.length
    steps = contenders(size, dtype)
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


def _same(steps: Mapping[str, Callable[[], Tensor]], tolerance: float) -> None:
    """Three steps: transformers' losses are headway's, and everybody's fall."""
    losses = {name: torch.stack([step() for _ in range(3)]).double() for name, step in steps.items()}
    agree({name: losses[name] for name in ("transformers", "headway")}, tolerance=tolerance)
    for name, found in losses.items():
        if not found[-1] < found[0]:
            raise Disagreement(f"{name} does not learn: its losses are {found.tolist()}")


CASES: dict[str, Callable[[Run], Iterator[Row]]] = {
    "characters": characters,
    "subwords": subwords,
    "feeding": feeding,
}
