"""Times as people write them."""

import re

UNITS = {"s": 1, "sec": 1, "m": 60, "min": 60, "h": 3600, "d": 86400}
_PART = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)")


def read_seconds(text: str) -> float:
    """A time in seconds.

    >>> read_seconds("90s"), read_seconds("1h30min"), read_seconds("1.5 d")
    (90.0, 5400.0, 129600.0)
    """
    total, at = 0.0, 0
    lower = text.strip().lower()
    while at < len(lower) and (part := _PART.match(lower, at)) and part[2] in UNITS:
        total, at = total + float(part[1]) * UNITS[part[2]], part.end()
    if at < len(lower) or not 0 < total < float("inf"):
        raise ValueError(f"a budget is a time such as 90s, 20min, 2h or 1d, not {text!r}")
    return total
