"""`headway bench attention`: the targets of the attention mechanisms, H = 8, K = 64, B = 1.

Softmax, padding and modified scores stand here; what must grow with L and not with L² in `attention_long`.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from headway.bench.agree import agree
from headway.bench.attention_inputs import HEADS, MIB, AttentionInputs, Equation, Function
from headway.bench.attention_long import linear, local, patterns
from headway.bench.measure import peak_memory
from headway.bench.row import Row, Target, counted
from headway.bench.run import Bench
from headway.ops.attention import attend
from headway.ops.bias import Relative
from headway.ops.mask import Mask, causal, padding
from headway.ops.mask.pairs import Pairs

PEER = "torch SDPA"
SHORTEST = 2.0  # ms: below it the time of a call is mostly the call itself
CAP = 20.0


@dataclass(frozen=True)
class Kind:
    """Options for SDPA and for headway that ask for the same, and how many pairs they allow in a head."""

    problem: AttentionInputs
    theirs: dict[str, Any] = field(default_factory=dict)
    ours: dict[str, Any] = field(default_factory=dict)
    pairs: int = 0
    extra: Tensor | None = None  # read besides q, k and v


def full(problem: AttentionInputs) -> Kind:
    return Kind(problem, pairs=problem.length**2)


def causal_only(problem: AttentionInputs) -> Kind:
    return Kind(problem, {"is_causal": True}, {"mask": causal()}, causal().count(problem.length))


def boolean(problem: AttentionInputs) -> Kind:
    draw = torch.Generator().manual_seed(5)
    table = torch.rand(1, 1, problem.length, problem.length, generator=draw) < 0.75
    return Kind(problem, {"attn_mask": table}, {"mask": table}, int(table.sum()), table)


def biased(problem: AttentionInputs) -> Kind:
    bias = replace(problem, backward=False).random(problem.heads, problem.length, problem.length, seed=7)
    return Kind(problem, {"attn_mask": bias}, {"bias": bias}, problem.length**2, bias)


def grouped(problem: AttentionInputs) -> Kind:
    return Kind(replace(problem, kv_heads=2), {"enable_gqa": True}, pairs=problem.length**2)


def cross(problem: AttentionInputs) -> Kind:
    keys = problem.length * 3 // 4
    return Kind(replace(problem, keys=keys), pairs=problem.length * keys)


KINDS: dict[str, Callable[[AttentionInputs], Kind]] = {
    "full": full,
    "causal": causal_only,
    "boolean mask": boolean,
    "bias": biased,
    "grouped heads": grouped,
    "cross": cross,
}


def softmax(run: Bench) -> Iterator[Row]:
    """The fast path beside torch's, wherever torch keeps its flash kernel."""
    directions = (("float32", False), ("float32", True), ("bfloat16", False), ("bfloat16", True))
    for precision, backward in directions[: 3 if run.quick else 4]:
        for length in (512,) if run.quick else (512, 1024) if backward else (512, 2048):
            for name, kind in KINDS.items():
                yield _beside_sdpa(run, name, kind(AttentionInputs(length, precision=precision, backward=backward)))


def _beside_sdpa(run: Bench, name: str, kind: Kind) -> Row:
    problem = kind.problem
    row = run.race(
        Row("attention", f"softmax {name}, {problem.direction}", problem.shape, problem.precision),
        {
            PEER: problem.call(partial(F.scaled_dot_product_attention, **kind.theirs)),
            "headway": problem.call(partial(attend, **kind.ours)),
        },
        flops=problem.flops(kind.pairs),
        bytes=problem.bytes + (0 if kind.extra is None else kind.extra.nbytes),
        target=Target(f"at most 1.05 x {PEER}", at_most=1.05),
    )
    if row.headway is not None and row.peers[PEER] < SHORTEST:
        return replace(row, target=None, verdict=None, note=f"no target: {PEER} takes under {SHORTEST:g} ms")
    return row


def padded(run: Bench) -> Iterator[Row]:
    """A quarter of the keys padded, on either side, beside causal attention alone."""
    lengths = (256, 1024) if run.quick else (256, 512, 1024, 2048, 4096)
    for backward in (False, True):
        for length in lengths:
            for side in ("left", "right"):
                problem = AttentionInputs(length, backward=backward)
                mask = causal() & padding(lengths=[length * 3 // 4], total=length, side=side)
                yield _beside_causal(run, problem, mask, f"causal + padding on the {side}")


def _beside_causal(run: Bench, problem: AttentionInputs, mask: Mask, name: str) -> Row:
    ours = problem.call(partial(attend, mask=mask))
    tabulated = problem.call(partial(F.scaled_dot_product_attention, attn_mask=mask.table(problem.length)))
    return run.race(
        Row("attention", f"softmax {name}, {problem.direction}", problem.shape, problem.precision),
        {"headway, causal alone": problem.call(partial(attend, mask=causal())), "headway": ours},
        check=lambda: agree({f"{PEER}, one table": tabulated(), "headway": ours()}),
        flops=problem.flops(mask.count(problem.length)),
        bytes=problem.bytes,
        target=Target("at most 1.3 x causal alone", at_most=1.3),
    )


def modified(run: Bench) -> Iterator[Row]:
    """Scores and widths that no flash kernel serves: time beside the plain path, memory beside one L x M tensor."""
    length = 1024 if run.quick else 2048
    for backward in (False, True):
        plain = AttentionInputs(length, backward=backward)
        yield from _beside_plain(run, "score cap", plain, plain, partial(attend, softcap=CAP), Equation(softcap=CAP))
        for width in (32, 128):
            problem = replace(plain, value_width=width)
            yield from _beside_plain(run, "value width", plain, problem, attend, Equation())
    weight = torch.randn(32, HEADS, generator=torch.Generator().manual_seed(11)).requires_grad_()
    plain, equation = AttentionInputs(length, backward=True), Equation(bias=relative_table)
    yield from _beside_plain(run, "learned bias", plain, plain, attend_relative, equation, weight)


def relative_table(weight: Tensor, query_positions: Tensor, key_positions: Tensor) -> Tensor:
    return Relative(weight).table((weight,), Pairs.of(query_positions, key_positions))


def attend_relative(q: Tensor, k: Tensor, v: Tensor, weight: Tensor) -> Tensor:
    return attend(q, k, v, bias=Relative(weight))


def _beside_plain(
    run: Bench,
    name: str,
    plain: AttentionInputs,
    problem: AttentionInputs,
    function: Function,
    equation: Equation,
    *extra: Tensor,
) -> Iterator[Row]:
    row = Row("attention", f"softmax {name}, {problem.direction}", problem.shape, problem.precision)
    ours = problem.call(function, *extra)
    timed = run.race(
        row,
        {"headway, plain": plain.call(attend), "headway": ours},
        check=lambda: equation.verify("headway", function, problem, *extra, length=640),
        flops=problem.flops(problem.length**2),
        bytes=problem.bytes,
        target=Target("at most 3 x the plain path", at_most=3.0),
    )
    yield timed
    if timed.headway is not None:
        scores = problem.heads * problem.length**2 * problem.gradient.element_size() / MIB
        yield counted(
            replace(row, model=f"{row.model}, memory beyond the output", unit="MiB"),
            peak_memory(ours).beyond / MIB,
            {"one B H L M tensor": scores},
            target=Target("no L x M tensor alive: below one", at_most=1.0),
        )


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    "softmax": softmax,
    "local": local,
    "patterns": patterns,
    "linear": linear,
    "padding": padded,
    "modified": modified,
}
