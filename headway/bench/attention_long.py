"""Attention that must grow with L and not with L²: local, dilated, selected, global and linear.

Dense causal SDPA computes something else, so these are held to their own equation first, and raced against it after.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.bench.agree import agree
from headway.bench.attention_inputs import MIB, WIDTH, AttentionInputs, Equation, Function
from headway.bench.measure import peak_memory
from headway.bench.row import Row, Target, counted
from headway.bench.run import Bench
from headway.ops.attention import attend
from headway.ops.mask import Mask, causal, dilated, global_tokens, selected, window

WINDOW = 256
STEP = 4
CHOSEN = tuple(range(0, 4096, 256))  # sixteen tokens that see and are seen by all
GLOBAL = 16
DENSE = "torch SDPA, dense causal"


@dataclass(frozen=True)
class Pattern:
    """A local pattern under causality: its options, and the mask that says the same."""

    name: str
    mask: Mask
    options: dict[str, Any] = field(default_factory=dict)
    first: int = 0  # the position of the first token: below 0 for global ones

    def __call__(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        places = torch.arange(self.first, self.first + q.shape[2])
        options = {"window": WINDOW, **self.options}
        if self.first:
            options |= {"query_positions": places, "key_positions": places}
        return attend(q, k, v, mask=causal(), mechanism="local", **options)

    def pairs(self, length: int) -> int:
        places = torch.arange(self.first, self.first + length)
        return (self.mask & causal()).count(places, places)

    @property
    def equation(self) -> Equation:
        return Equation(mask=self.mask & causal(), first=self.first)


LOCAL = Pattern(f"local window {WINDOW}", window(WINDOW))
PATTERNS = (
    Pattern(f"dilated window {WINDOW} step {STEP}", dilated(WINDOW, dilation=STEP), {"dilation": STEP}),
    Pattern(f"window {WINDOW} + {len(CHOSEN)} selected", window(WINDOW) | selected(CHOSEN), {"selected": CHOSEN}),
    Pattern(f"window {WINDOW} + {GLOBAL} global", window(WINDOW) | global_tokens(), {"global_tokens": True}, -GLOBAL),
)


def local(run: Bench) -> Iterator[Row]:
    """The causal window: against dense, and against itself at half the length."""
    length = 2048 if run.quick else 16384
    for precision, backward, times in (("float32", False, 8), ("float32", True, 8), ("bfloat16", True, 6)):
        yield _beside_dense(run, LOCAL, AttentionInputs(length, precision=precision, backward=backward), times)
    for backward in (False, True):
        problem = AttentionInputs(length, backward=backward)
        yield from _memory(run, LOCAL.name, LOCAL, problem)
        yield _growth(run, LOCAL.name, LOCAL, LOCAL.equation, problem, LOCAL.pairs(length))


def patterns(run: Bench) -> Iterator[Row]:
    """The windows that are not plain, there."""
    length = 2048 if run.quick else 16384
    for pattern in PATTERNS:
        for backward in (False, True):
            problem = AttentionInputs(length, backward=backward)
            yield _beside_dense(run, pattern, problem, 4)
            yield from _memory(run, pattern.name, pattern, problem)


def linear(run: Bench) -> Iterator[Row]:
    """Causal linear attention: each doubling of the length, in time and memory."""
    lengths = (2048, 4096, 8192) if run.quick else (8192, 16384, 32768)
    name, equation = "linear causal", Equation(mask=causal(), linear=True)
    function = partial(attend, mask=causal(), mechanism="linear")
    for backward in (False, True):
        for length in lengths:
            problem = AttentionInputs(length, backward=backward)
            # A query and a key each meet a K x W total: as much work as WIDTH pairs of one token.
            yield _growth(run, name, function, equation, problem, length * WIDTH)
            yield _memory_growth(name, function, problem)


def _row(name: str, problem: AttentionInputs) -> Row:
    return Row("attention", f"{name}, {problem.direction}", problem.shape, problem.precision)


def _beside_dense(run: Bench, pattern: Pattern, problem: AttentionInputs, times: int) -> Row:
    dense = partial(F.scaled_dot_product_attention, is_causal=True)
    # The targets are stated at L = 16,384; dense attention has less to lose at a shorter length.
    target = None if run.quick else Target(f"at least {times} x as fast as dense", at_most=1 / times)
    return run.race(
        _row(pattern.name, problem),
        {DENSE: problem.call(dense), "headway": problem.call(pattern)},
        check=lambda: pattern.equation.verify("headway", pattern, problem, length=1280),
        flops=problem.flops(pattern.pairs(problem.length)),
        bytes=problem.bytes,
        target=target,
        # A dense call may take a minute where bfloat16 has no instructions of its own: few rounds then, or one.
        longest=8 * run.seconds,
        warmup=0,
    )


def _memory(run: Bench, name: str, function: Function, problem: AttentionInputs) -> Iterator[Row]:
    """Beyond the output, beside |k|; and beside itself at half the length."""
    growth = _memory_growth(name, function, problem)
    assert growth.headway is not None
    yield counted(
        replace(_row(name, problem), model=f"{name}, {problem.direction}, memory beyond the output", unit="MiB"),
        growth.headway,
        {"|k|": problem.tensors[1].nbytes / MIB},
        target=None if run.quick else Target("at most half of |k|", at_most=0.5),
    )
    yield growth


def _memory_growth(name: str, function: Function, problem: AttentionInputs) -> Row:
    half = replace(problem, length=problem.length // 2)
    return counted(
        replace(_row(name, problem), model=f"{name}, {problem.direction}, growth of memory", unit="MiB"),
        peak_memory(problem.call(function)).beyond / MIB,
        {f"headway at L{half.length}": peak_memory(half.call(function)).beyond / MIB},
        target=Target("linear: at most 2.1 x at twice the length", at_most=2.1),
    )


def _growth(run: Bench, name: str, function: Function, equation: Equation, problem: AttentionInputs, pairs: int) -> Row:
    half = replace(problem, length=problem.length // 2)

    def check() -> None:
        equation.verify("headway", function, problem, length=640)
        with torch.no_grad():  # causal: what comes later cannot change the first half
            whole = function(*problem.tensors)[:, :, : half.length]
            agree({f"headway at L{half.length}": function(*half.tensors), f"at L{problem.length}": whole})

    return run.race(
        replace(_row(name, problem), model=f"{name}, {problem.direction}, growth of time"),
        {f"headway at L{half.length}": half.call(function), "headway": problem.call(function)},
        check=check,
        flops=problem.flops(pairs),
        bytes=problem.bytes,
        target=Target("at most 2.3 x at twice the length", at_most=2.3),
    )
