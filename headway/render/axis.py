"""The axes and points of a chart: ranges, ticks and their labels, thinning and smoothing of curves."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, floor, isclose, isfinite, log10, nan

from headway.render.numbers import Number, number, short


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


def ticks(low: Number, high: Number, *, most: int = 6) -> list[float]:
    """Round numbers in a range, steps of 1, 2 or 5 times a power of ten.

    >>> ticks(0, 2000), ticks(1.43, 4.2, most=4)
    ([0.0, 500.0, 1000.0, 1500.0, 2000.0], [2.0, 3.0, 4.0])
    """
    if not high > low:
        return [float(low)]
    rough = (high - low) / most
    scale = 10.0 ** floor(log10(rough))
    step = next(times * scale for times in (1, 2, 2.5, 5, 10) if times * scale >= rough * (1 - 1e-9))
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [_clean(place * step, step) for place in range(first, last + 1)]


def _clean(value: float, step: float) -> float:
    """Without the dust of binary fractions: 0.30000000000000004 is 0.3."""
    return round(value, max(0, 2 - floor(log10(step)))) + 0.0


def log_ticks(low: Number, high: Number, *, most: int = 6) -> list[float]:
    """The same on a logarithmic axis: powers of ten, with 2, 3, 5, 7 between where there are few of them.

    >>> log_ticks(0.001, 4), log_ticks(1.4, 7)
    ([0.001, 0.01, 0.1, 1.0], [2.0, 3.0, 5.0, 7.0])
    """
    decades = range(floor(log10(low)), ceil(log10(high)) + 1)
    for times in ((1, 2, 3, 5, 7), (1, 2, 5), (1,)):
        found = [
            float(f"{one}e{power}") for power in decades for one in times if low <= float(f"{one}e{power}") <= high
        ]
        if len(found) <= most:
            break
    else:
        found = found[:: ceil(len(found) / most)]
    return found if len(found) > 1 else ticks(low, high, most=most)


def labels(values: list[float]) -> list[str]:
    """What stands at the marks.

    >>> labels([0.0, 5000.0, 10000.0]), labels([1.5, 2.0]), labels([1e-5, 1e-4])
    (['0', '5 k', '10 k'], ['1.5', '2'], ['1e-5', '1e-4'])
    """
    largest = max((abs(value) for value in values), default=0.0)
    form = short if largest >= 1e4 else _power if 0 < largest < 1e-3 else number
    for digits in range(3, 17):  # as few as tell them apart
        texts = [form(value, digits=digits) for value in values]
        if len(set(texts)) == len(values) and all(map(_exact(digits), values)):
            break
    return texts


def _exact(digits: int) -> Callable[[float], bool]:
    return lambda value: isclose(float(f"{value:.{digits - 1}e}"), value, rel_tol=1e-12)


def _power(value: float, *, digits: int) -> str:
    if not value:
        return "0"
    exponent = floor(log10(abs(value)) + 1e-12)
    return f"{number(value / 10.0**exponent, digits=digits)}e{exponent}"


Point = tuple[Number, Number]


def thinned(points: Sequence[Point], *, most: int = 800) -> list[Point]:
    """Fewer points of the same picture: of each stretch its first, lowest, highest and last, so that no spike is lost.

    >>> thinned([(x, float(x == 500)) for x in range(1000)], most=8)
    [(0, 0.0), (499, 0.0), (500, 1.0), (501, 0.0), (999, 0.0)]
    """
    if len(points) <= most:
        return list(points)
    size = -(-4 * len(points) // most)
    kept: list[int] = []
    for start in range(0, len(points), size):
        stretch = range(start, min(start + size, len(points)))
        # A gap (NaN) would win neither comparison, and has to stay a gap.
        gaps = [place for place in stretch if not isfinite(points[place][1])][:1]
        solid = [place for place in stretch if isfinite(points[place][1])] or [start]
        ends = (min(solid, key=lambda place: points[place][1]), max(solid, key=lambda place: points[place][1]))
        kept += sorted({stretch[0], *ends, *gaps, stretch[-1]})
    return [points[place] for place in kept]


def smoothed(points: Sequence[Point], *, width: int) -> list[Point]:
    """Each point as the mean of `width` points around it, as many before as after, so fewer at the ends.

    >>> smoothed([(0, 1.0), (1, 4.0), (2, 1.0)], width=3)
    [(0, 1.0), (1, 2.0), (2, 1.0)]
    """
    found, last = [], len(points) - 1
    for place, (x, y) in enumerate(points):
        half = min(width // 2, place, last - place)
        found.append((x, _mean(points[place - half : place + half + 1], y)))
    return found


def _mean(around: Sequence[Point], here: Number) -> float:
    values = [y for _, y in around if isfinite(y)]
    return sum(values) / len(values) if isfinite(here) else nan
