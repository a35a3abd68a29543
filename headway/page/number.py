"""Numbers as people read them."""

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
