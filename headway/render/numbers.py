"""Numbers as people read them: measures, counts, durations, bytes, shares."""

from math import floor, isfinite, log10

MISSING = "–"

Number = int | float


def number(value: object, *, digits: int = 5) -> str:
    """A measure in a few digits; whole numbers in full.

    >>> number(1.469712), number(10745088), number(0.00012345678), number(3e-7), number(None), number(float("nan"))
    ('1.4697', '10,745,088', '0.00012346', '3e-7', '–', 'NaN')
    """
    if value is None:
        return MISSING
    if isinstance(value, bool | str) or not isinstance(value, int | float):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if not isfinite(value):
        return "NaN" if value != value else "∞" if value > 0 else "−∞"
    if value and not 1e-5 <= abs(value) < 1e9:
        mantissa, exponent = f"{value:.{digits - 1}e}".split("e")
        return f"{_trimmed(mantissa)}e{int(exponent)}"
    places = max(0, digits - 1 - floor(log10(abs(value)))) if value else 0
    return _trimmed(f"{value:,.{places}f}")


def _trimmed(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


def short(value: Number, *, digits: int = 3) -> str:
    """A count in three digits or so.

    >>> short(812), short(10745088), short(25000), short(1.5e9)
    ('812', '10.7 M', '25 k', '1.5 G')
    """
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(value) >= scale:
            return f"{number(float(value) / scale, digits=digits)} {unit}"
    return number(value, digits=digits)


def duration(seconds: Number | None) -> str:
    """Time in its two largest units.

    >>> duration(0.4), duration(45), duration(151), duration(3900), duration(190000), duration(None)
    ('0.4 s', '45 s', '2 min 31 s', '1 h 05 min', '2 d 04 h', '–')
    """
    if seconds is None or not isfinite(seconds):
        return MISSING
    if seconds < 10:
        return f"{_trimmed(f'{max(seconds, 0):.1f}')} s"
    whole = round(seconds)
    for unit, size, below, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part:02d} {below}"
    return f"{whole} s"


def seconds(value: Number) -> str:
    """A measured time in its unit; `duration` is for what takes minutes and hours.

    >>> seconds(0.0000132), seconds(0.25), seconds(12.345), seconds(7200)
    ('13.2 µs', '250.0 ms', '12.3 s', '2.0 h')
    """
    if value >= 3600:
        return f"{value / 3600:,.1f} h"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            return f"{value / scale:.1f} {unit}"
    return f"{value / 1e-9:.1f} ns"


def step_time(value: Number) -> str:
    """The time of a training step, in three digits.

    >>> step_time(0.01234), step_time(2.5)
    ('12.3 ms', '2.5 s')
    """
    return f"{1e3 * value:.3g} ms" if value < 1 else f"{value:.3g} s"


def byte_size(count: Number) -> str:
    """Bytes in three digits; k M G T are powers of 1,000.

    >>> byte_size(497759232), byte_size(17), byte_size(2**40)
    ('497.8 MB', '17 B', '1.1 TB')
    """
    for unit, scale in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if count >= scale:
            return f"{count / scale:,.1f} {unit}"
    return f"{count:,.0f} B"


def percent(part: Number) -> str:
    """
    >>> percent(1 / 3), percent(1e-5)
    ('33.3 %', '0.0 %')
    """
    return f"{100 * part:.1f} %"
