"""What holds a model up: the part that dominates, where another takes over, and the seconds to expect."""

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from headway.config import Frozen
from headway.cost.compose import price_tree
from headway.cost.input_lengths import fixed_length, writes
from headway.cost.op_tree import Line, lines
from headway.cost.resize import grain, resized
from headway.cost.setting import Setting
from headway.cost.time import PROJECTIONS, SCORES, Bottleneck, bottleneck, group, predict, shares
from headway.cost.time.machine import Machine
from headway.sizes import Number

# Beyond this size nothing is looked for.
FARTHEST = 2**22


@dataclass(frozen=True)
class Limits:
    """The bottleneck of a forward pass, all shares of its dense FLOPs, and where the bottleneck changes.

    overtakes: the length from which on scores and weighted sum cost as much as the projections. dominates: the length
    from which on they are the largest part. width: the width from which on, at this length, the projections cost as
    much as they. None: at no size in sight, or the model has one size only.
    """

    now: Bottleneck
    shares: dict[str, float]
    overtakes: int | None = None
    dominates: int | None = None
    width: int | None = None

    def as_json(self) -> dict[str, Any]:
        changes = {"overtakes": self.overtakes, "dominates": self.dominates, "width": self.width}
        return {**asdict(self.now), "shares": self.shares, "changes": changes}

    def sentences(self) -> list[str]:
        """The part that dominates, and where another takes over."""
        bound = "" if self.now.bound is None else f", {self.now.bound} bound here"
        share = f"{100 * self.now.share:.1f} % of the {self.now.by}"
        found = [f"bottleneck: {self.now.part}: {share}, {self.now.intensity:,.1f} FLOPs per byte{bound}"]
        if self.overtakes is not None:
            found.append(f"scores and weighted sum cost as much as the projections from length {self.overtakes:,} on")
        if self.dominates is not None:
            found.append(f"they are the largest part from length {self.dominates:,} on")
        if self.width is not None:
            found.append(f"at this length the projections cost as much as they from width {self.width:,} on")
        return found


@dataclass(frozen=True)
class Times:
    """Seconds by phase, and of each operation of a forward pass, on a machine that was measured."""

    machine: str
    seconds: dict[str, float]
    operations: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def limits(
    found: Sequence[Line], config: Frozen | None, setting: Setting, machine: Machine | None = None
) -> Limits | None:
    """Of a forward pass; a trace has no other lengths. None where nothing is computed."""
    if not found:
        return None
    known = machine if machine is not None and setting.dtype in machine.rates else None
    now, parts = bottleneck(found, known, dtype=setting.dtype), shares(found)
    if config is None or not {PROJECTIONS, SCORES} <= {part for part, share in parts.items() if share}:
        return Limits(now, parts)
    row = replace(setting, batch=1, lengths=None, source_lengths=None, mask=None, past=0)
    return Limits(now, parts, *_lengths(config, row, parts), width=_width(config, row))


def _lengths(config: Frozen, row: Setting, parts: dict[str, float]) -> tuple[int | None, int | None]:
    """By the dense products of one row: neither masks nor batches change how they grow."""
    if fixed_length(config) is not None:
        return None, None
    largest = next(part for part in parts if part != SCORES)
    found = [_weights(config, replace(row, length=length)) for length in (1, 2, 3)]
    return turning(found, rising=SCORES, falling=PROJECTIONS), turning(found, rising=SCORES, falling=largest)


def _width(config: Frozen, row: Setting) -> int | None:
    """Widths are those at which everything stays in proportion."""
    try:
        step = grain(config)
    except ValueError:
        return None
    found = [_weights(resized(config, "width", step * times), row) for times in (1, 2, 3)]
    count = turning(found, rising=PROJECTIONS, falling=SCORES)
    return None if count is None else step * count


def _weights(config: Frozen, setting: Setting) -> dict[str, int]:
    """Dense FLOPs of each part."""
    found: dict[str, int] = {}
    for line in lines(price_tree(config, setting)):
        found[group(line)] = found.get(group(line), 0) + line.runs * line.operation.forward.flops
    return found


def turning(found: Sequence[dict[str, int]], *, rising: str, falling: str) -> int | None:
    """The smallest n at which `rising` weighs as much as `falling`, from the weights at n = 1, 2, 3.

    Dense products grow as polynomials of the second degree, in length and in width, so that three points tell all.

    >>> turning([{"a": n * n, "b": 5 * n + 1} for n in (1, 2, 3)], rising="a", falling="b")
    6
    """
    first, second, third = (one.get(rising, 0) - one.get(falling, 0) for one in found)
    slope, bend = second - first, third - 2 * second + first

    def ahead(n: int) -> bool:
        return first + (n - 1) * slope + (n - 1) * (n - 2) // 2 * bend >= 0

    high = next((2**power for power in range(FARTHEST.bit_length()) if ahead(2**power)), None)
    return None if high is None else bisect_left(range(high // 2 + 1, high), True, key=ahead) + high // 2 + 1


def times(
    config: Frozen | None, found: Sequence[Line], setting: Setting, past: Number, machine: Machine | None
) -> tuple[Times | None, str]:
    """Expected seconds on the machine that `headway cost --machine` measured; or None, and why there are none."""
    if machine is None:
        return None, ""
    if setting.dtype not in machine.rates:
        return None, f"no predicted times in {setting.dtype}: the machine was measured in {', '.join(machine.rates)}"
    now = predict(found, machine, dtype=setting.dtype)
    seconds = {"forward": now.seconds}
    if config is not None:
        for phase, asked in _asked(config, setting, past).items():
            passed = tuple(lines(price_tree(config, asked)))
            seconds[phase] = predict(passed, machine, phase, dtype=setting.dtype).seconds
    return Times(str(machine), seconds, tuple(one for _, one in now.operations)), ""


def _asked(config: Frozen, setting: Setting, past: Number) -> dict[str, Setting]:
    plain = replace(setting, past=0, training=False)
    found = {"step": replace(plain, training=True)}
    if writes(config):
        found |= {"prefill": plain.prefill(), "decode": plain.decode(past)}
    return found
