"""An axis: what it spans, and where a value stands on it."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import isclose, isfinite, log10

from headway.page.number import Number
from headway.page.ticks import log_ticks, ticks


@dataclass(frozen=True)
class Range:
    """What an axis spans, and whether by logarithms."""

    low: Number
    high: Number
    log: bool = False

    def place(self, value: Number) -> float | None:
        """From 0 to 1; None where the axis has no such value."""
        if not isfinite(value) or (self.log and value <= 0):
            return None
        low, high, here = (log10(one) if self.log else one for one in (self.low, self.high, value))
        return (here - low) / (high - low)

    def marks(self, most: int) -> list[float]:
        return (log_ticks if self.log else ticks)(self.low, self.high, most=most)

    def at(self, value: Number) -> float:
        """The same of a value that is known to have a place."""
        place = self.place(value)
        assert place is not None
        return place


def spread(values: Sequence[Number], *, room: float) -> Range:
    """An axis for these values, with some room beyond them; a constant stands in the middle.

    >>> spread([1.0, 3.0], room=0.5), spread([4.0], room=0.0)
    (Range(low=0.0, high=4.0, log=False), Range(low=2.0, high=6.0, log=False))
    """
    low, high = min(values), max(values)
    if isclose(low, high, rel_tol=1e-12, abs_tol=1e-290):
        wide = abs(low) or 1.0
        return Range(low - 0.5 * wide, high + 0.5 * wide)
    return Range(low - room * (high - low), high + room * (high - low))


def spread_log(values: Sequence[Number]) -> Range:
    """A logarithmic axis for positive values that differ."""
    low, high = min(values), max(values)
    more = (high / low) ** 0.05
    return Range(low / more, high * more, log=True)
