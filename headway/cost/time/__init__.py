"""Expected seconds, and the part of a model that dominates.

By FLOPs (of the dense matrix products) nothing needs to be known of a machine; by seconds a measured one is asked:

>>> from headway.cost.op_tree import leaf, lines, series
>>> from headway.ops.linear import linear_price
>>> tree = series("", leaf("up", linear_price(3, 5, 7, bias=False)), leaf("down", linear_price(3, 7, 5, bias=False)))
>>> [line.operation.forward.flops for line in lines(tree)]
[210, 210]
>>> intensity(next(lines(tree)))  # 210 FLOPs, 4 · (15 + 21 + 35) bytes
0.7394366197183099
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from headway.cost.op_tree import Line
from headway.cost.setting import BYTES
from headway.cost.time.kernels import BACKWARD, DECODING, FORWARD, LEARNING, UPDATE, WeightBytes, executed
from headway.cost.time.machine import Machine

STEP = "step"
# What a user asks for -> the phases that it is made of.
WHOLE = {FORWARD: (FORWARD,), "prefill": (FORWARD,), "decode": (DECODING,), STEP: (LEARNING, BACKWARD, UPDATE)}

PROJECTIONS, SCORES, FEEDFORWARD, HEAD = "projections", "scores and weighted sum", "feed-forward", "head"
PLURALS = {"norm": "norms", "activation": "activations", "embedding": "embeddings", "convolution": "convolutions"}
HEADS = frozenset({"head", "classifier", "pooler", "transform", "decoder_bias"})

Weigh = Callable[[Line], float]


@dataclass(frozen=True)
class Predicted:
    """Seconds in all, and of each operation in the order in which they run."""

    seconds: float
    operations: tuple[tuple[Line, float], ...]
    around: float  # of the model itself, that are no operation's


def predict(lines: Iterable[Line], machine: Machine, phase: str = FORWARD, *, dtype: str = "float32") -> Predicted:
    """Seconds of a pass: forward, prefill, decode, or a whole training step (forward, backward, optimiser)."""
    if phase not in WHOLE:
        raise ValueError(f"there is no pass {phase!r}; there are {', '.join(WHOLE)}")
    found, overheads = tuple(lines), machine.of(dtype).overheads
    try:
        held = WeightBytes.of(found, dtype)
        each = tuple(
            (line, sum(machine.seconds(line, one, dtype=dtype, held=held) for one in WHOLE[phase])) for line in found
        )
    except TypeError:
        raise ValueError("seconds need numbers, and a size of this price is a symbol") from None
    around = sum(overheads.get(f"model/{one}", 0.0) for one in WHOLE[phase])
    return Predicted(around + sum(seconds for _, seconds in each), each, around)


def intensity(line: Line, *, dtype: str = "float32") -> float:
    """FLOPs per byte that passes through memory, forwards: products as they are executed, and all else."""
    return _intensity([line], dtype)


def _intensity(lines: Iterable[Line], dtype: str) -> float:
    flops = moved = 0.0
    for line in lines:
        one = line.operation
        flops += line.runs * (2 * executed(one.forward) + float(one.forward.other))
        entries = one.reads + one.writes + (0 if one.kind == "embedding" else one.parameters + one.borrowed)
        moved += line.runs * float(entries) * BYTES[dtype]
    return flops / moved if moved else 0.0


def _bound(found: float, machine: Machine, dtype: str) -> str:
    return "compute" if found >= machine.ridge(dtype) else "memory"


def group(line: Line) -> str:
    """The part of a model that an operation belongs to, in the words of a report."""
    names, kind = line.path.split("."), line.operation.kind
    if kind == "attention":
        return SCORES
    if kind != "product":
        return PLURALS.get(kind, kind)
    if "feedforward" in names:
        return FEEDFORWARD
    if HEADS.intersection(names):
        return HEAD
    return PROJECTIONS if {"attention", "cross"}.intersection(names) else "other products"


def dense_flops(line: Line) -> float:
    """Its dense matrix products forwards, as often as it runs."""
    return float(line.runs * line.operation.forward.flops)


def shares(lines: Iterable[Line], weigh: Weigh = dense_flops) -> dict[str, float]:
    """The share of each part of the model, the largest first; the shares add up to 1."""
    found: dict[str, float] = {}
    for line in lines:
        found[group(line)] = found.get(group(line), 0.0) + weigh(line)
    whole = sum(found.values())
    ordered = sorted(found, key=lambda name: -found[name])
    return {name: found[name] / whole if whole else 0.0 for name in ordered}


@dataclass(frozen=True)
class Bottleneck:
    """The part that dominates: its share of the FLOPs (of the seconds, on a known machine), and what limits it."""

    part: str
    share: float
    by: str
    intensity: float
    bound: str | None = None


def bottleneck(
    lines: Sequence[Line], machine: Machine | None = None, phase: str = FORWARD, *, dtype: str = "float32"
) -> Bottleneck:
    """By FLOPs without a machine, by seconds with one."""
    weigh: Weigh = dense_flops
    if machine is not None:
        seconds = {id(line): value for line, value in predict(lines, machine, phase, dtype=dtype).operations}
        weigh = lambda line: seconds[id(line)]  # noqa: E731
    found = shares(lines, weigh)
    if not found:
        raise ValueError("a price without operations has no bottleneck")
    part = next(iter(found))
    of_part = _intensity([line for line in lines if group(line) == part], dtype)
    limit = None if machine is None else _bound(of_part, machine, dtype)
    return Bottleneck(part, found[part], "FLOPs" if machine is None else "seconds", of_part, limit)
