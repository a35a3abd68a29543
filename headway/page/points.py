"""Points of a curve, made fewer or smoother without lying about them."""

from collections.abc import Sequence
from math import isfinite, nan

from headway.page.number import Number

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
