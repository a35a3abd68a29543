"""What the ways of using a model cost: a pass, a step of training, a prompt, one more token, a whole generation."""

from collections.abc import Callable
from dataclasses import replace

from headway.config import Frozen
from headway.cost.compose import price_tree
from headway.cost.optimiser import optimiser_cost
from headway.cost.part import backward, forward, parameters
from headway.cost.setting import Setting
from headway.sizes import NOTHING, Cost, Number

# Kinds of model that write one token after the other.
WRITERS = ("language", "seq2seq", "recurrent")


def phases(config: Frozen, setting: Setting, *, new: int = 0, optimiser: str = "adamw") -> dict[str, Cost]:
    """forward; backward; step (both with dropout and loss, and the optimiser); of writers prefill, decode (one token
    after `past` held ones, or after these), and generate (`new` tokens after the prompt)."""
    plain = replace(setting, training=False, past=0)
    taught = price_tree(config, replace(plain, training=True))
    found = {
        "forward": forward(price_tree(config, plain)),
        "backward": backward(taught),
        "step": forward(taught) + backward(taught) + optimiser_cost(optimiser, parameters(taught)),
    }
    if config.kind_or_name() not in WRITERS:
        return found
    found["prefill"] = forward(price_tree(config, plain.prefill()))
    found["decode"] = _decoded(config, plain, setting.past or setting.length)
    if new:
        found["generate"] = found["prefill"] + generated(lambda past: _decoded(config, plain, past), plain.length, new)
    return found


def _decoded(config: Frozen, setting: Setting, past: Number) -> Cost:
    return forward(price_tree(config, setting.decode(past)))


def generated(decode: Callable[[int], Cost], length: int, new: int) -> Cost:
    """The tokens after the first, which the prompt gives: Σ decode(past) for past = length … length + new - 2.

    Where the price grows evenly with the past, it is an arithmetic series.
    """
    first, last = length, length + new - 2
    if last < first:
        return NOTHING
    ends, middle = (decode(first), decode(last)), decode((first + last) // 2)
    if last - first > 8 and _even(ends, middle, first, last):
        return Cost(*(_series(a, b, last - first + 1) for a, b in zip(_all(ends[0]), _all(ends[1]), strict=True)))
    total = NOTHING
    for past in range(first, last + 1):
        total = total + decode(past)
    return total


def _all(cost: Cost) -> tuple[int, ...]:
    assert cost.executed is not None
    return cost.dense, cost.useful, cost.executed, cost.other


def _series(first: int, last: int, count: int) -> int:
    return (first + last) * count // 2


def _even(ends: tuple[Cost, Cost], middle: Cost, first: int, last: int) -> bool:
    """Whether the middle lies exactly on the line between the ends."""
    at = (first + last) // 2
    return all(
        (z - a) * (last - first) == (b - a) * (at - first)
        for a, b, z in zip(_all(ends[0]), _all(ends[1]), _all(middle), strict=True)
    )
