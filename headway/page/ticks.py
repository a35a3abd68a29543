"""Where an axis has its marks, and what they say."""

from collections.abc import Callable
from math import ceil, floor, isclose, log10

from headway.page.number import Number, number, short


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
