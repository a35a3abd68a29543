"""What fits into a given memory: the largest batch, or the longest text."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from headway.config import Frozen, SentenceConfig, nearest
from headway.config.kinds import kinds_where
from headway.cost.input_lengths import position_rows, why_unwritten
from headway.cost.memory import peak
from headway.cost.setting import Setting

PHASES = ("step", "forward", "generate")
MOST = 2**40  # nothing larger is looked for
_UNITS = {"": 1, "k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12}
_BINARY = {"ki": 2**10, "mi": 2**20, "gi": 2**30, "ti": 2**40}


def read_bytes(text: str | int) -> int:
    """Bytes from text: K, M, G, T (also KB …) count in thousands, KiB, MiB, GiB, TiB in 1,024s.

    >>> read_bytes("8G"), read_bytes("1.5 GiB"), read_bytes("512")
    (8000000000, 1610612736, 512)
    """
    if isinstance(text, int) and not isinstance(text, bool):
        text = str(text)
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]i?)?b?\s*", str(text).replace("_", "").replace(",", "").lower())
    size = int(float(found[1]) * (_UNITS | _BINARY)[found[2] or ""]) if found else 0
    if size < 1:
        raise ValueError(
            f"{text!r} is no amount of memory: write a number above 0 and a unit, such as 8G, 800MB or 7.5GiB (K, M, "
            "G, T count in thousands, KiB, MiB, GiB, TiB in 1,024s)"
        )
    return size


@dataclass(frozen=True)
class Fit:
    """The largest that fits, the bytes it takes, and those of one more (None where there can be no more)."""

    what: str
    phase: str
    memory: int
    count: int
    bytes: int
    more: int | None

    @property
    def sentence(self) -> str:
        """In words."""
        if not self.count:
            return (
                f"not even a {self.what} of 1 fits into {self.memory:,} bytes: its {self.phase} takes {self.bytes:,}; "
                "take a smaller model, half precision, or checkpointing"
            )
        end = f"one more would take {self.more:,}" if self.more is not None else "the model takes no more"
        return f"a {self.what} of {self.count:,} takes {self.bytes:,} of {self.memory:,} bytes; {end}"

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "sentence": self.sentence}


def largest(
    config: Frozen, setting: Setting, memory_bytes: int, what: str = "batch", phase: str = "step", *,
    optimiser: str = "adamw", new: int = 0,
) -> Fit:  # fmt: skip
    """The largest batch or length whose phase fits into the memory: it fits, and one more does not."""
    _check(config, what, phase)

    @lru_cache
    def needs(count: int) -> int:
        return peak(config, _sized(setting, what, count), phase, optimiser=optimiser, new=new)

    low = _searched(needs, memory_bytes, _most(config, what))
    more = None if low == _most(config, what) else needs(low + 1)
    return Fit(what, phase, memory_bytes, low, needs(max(low, 1)), more)


def _searched(needs: Callable[[int], int], memory: int, most: int) -> int:
    """The largest count up to `most` that needs no more than the memory; 0 where not even 1 does.

    What is needed grows nearly in proportion, so the line through two counts says where to look next; a halving in
    between keeps the search short where it does not.
    """
    low, high = 0, 1
    known = {1: needs(1)}
    if known[1] > memory:
        return 0
    while high < most and known[high] <= memory:
        low, high = high, min(most, max(2 * high, _aimed(known, low, high, memory)))
        known[high] = needs(high)
    if known[high] <= memory:
        return high
    halve = False
    while high - low > 1:
        middle = (low + high) // 2 if halve else min(max(_aimed(known, low, high, memory), low + 1), high - 1)
        known[middle] = needs(middle)
        low, high = (middle, high) if known[middle] <= memory else (low, middle)
        halve = not halve
    return low


def _aimed(known: dict[int, int], low: int, high: int, memory: int) -> int:
    """Where the line through two counts meets the memory."""
    if low not in known or known[high] <= known[low]:
        return (low + high) // 2
    return low + (memory - known[low]) * (high - low) // (known[high] - known[low])


def _sized(setting: Setting, what: str, count: int) -> Setting:
    plain = replace(setting, lengths=None, source_lengths=None)
    return replace(plain, batch=count) if what == "batch" else replace(plain, length=count)


def _most(config: Frozen, what: str) -> int:
    """Texts cannot be longer than a table of positions."""
    if what == "batch":
        return MOST
    rows = config.limit if isinstance(config, SentenceConfig) else position_rows(config)
    return MOST if rows is None else rows


def _check(config: Frozen, what: str, phase: str) -> None:
    kind = config.kind_or_name()
    if what not in ("batch", "length"):
        raise ValueError(f"the largest batch or length can be found, not {what!r}{nearest(what, ('batch', 'length'))}")
    if phase not in PHASES:
        raise ValueError(f"there is no phase {phase!r}{nearest(phase, PHASES)}; there are {', '.join(PHASES)}")
    if what == "length" and kind in kinds_where(lambda one: one.reads == "images"):
        raise ValueError(f"a {kind} model's length follows from its image: ask for the largest batch")
    if phase == "generate" and (why := why_unwritten(config)):
        raise ValueError(f"a {kind} model writes no text ({why}); there are step and forward")
