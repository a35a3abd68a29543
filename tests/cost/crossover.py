"""The size at which one part of a model overtakes another, by a search: what `headway.cost.limits` finds otherwise."""

from collections.abc import Callable, Iterable

from headway.cost.op_tree import Line
from headway.cost.time import FORWARD, PROJECTIONS, SCORES, WHOLE, Weigh, dense_flops, group
from headway.cost.time.machine import Machine


def by_seconds(machine: Machine, phase: str = FORWARD, *, dtype: str = "float32") -> Weigh:
    """A weight for `shares` and `crossover`: seconds on this machine."""
    return lambda line: sum(machine.seconds(line, one, dtype=dtype) for one in WHOLE[phase])


def crossover(
    sized: Callable[[int], Iterable[Line]],
    *,
    rising: str = SCORES,
    falling: str = PROJECTIONS,
    weigh: Weigh = dense_flops,
    step: int = 1,
    most: int = 2**22,
) -> int | None:
    """The smallest size at which `rising` weighs as much as `falling`; None where that is beyond `most`.

    For self-attention with four projections 2 L² D = 4 L D², so that L = 2 D; over widths the two change places.
    Sizes are multiples of `step`; doubled until it is passed, then halved in between, so the price is asked for no size
    beyond twice the answer.
    """

    def passed(count: int) -> bool:
        found = {rising: 0.0, falling: 0.0}
        for line in sized(count * step):
            if (name := group(line)) in found:
                found[name] += weigh(line)
        return found[rising] >= found[falling]

    low, high = 0, 1
    while not passed(high):
        low, high = high, 2 * high
        if high * step > most:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if passed(middle) else (middle, high)
    return high * step
