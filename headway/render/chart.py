"""Line charts as SVG: they print and need no script; a small script adds the values under the pointer.

The lines are SVG that is stretched to the width of the page (strokes are not), the text around them is HTML: it stays
readable at any width.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, nan

from headway.render.axis import Point, Range, labels, spread, spread_log, thinned
from headway.render.html import Html, escaped
from headway.render.numbers import Number, number

TONES = 8  # colours in the style
HUGE = 1e290
SIZE = 1000  # of the SVG's own coordinates


@dataclass(frozen=True)
class Series:
    """One curve: NaN is a gap. `faint` ones stand behind the others and have no place in the legend."""

    name: str
    points: Sequence[Point]
    tone: int | None = None  # the number of its colour; its place among the series where there is none
    faint: bool = False
    dots: bool = False


def line_chart(title: str, series: Sequence[Series], *, x: str = "step", log: bool = False) -> Html:
    """A figure with a legend, axes and one curve for each series.

    log: offer a logarithmic axis too, where all the values allow one.

    >>> "from 4 to 1.5" in line_chart("Loss", [Series("training", [(0, 4.0), (100, 1.5)])])
    True
    """
    drawn = [_prepared(one, place) for place, one in enumerate(series)]
    values = [y for one in drawn for _, y in one.points if isfinite(y)]
    head = f'<span dir="auto">{escaped(title)}</span>'
    if not values:
        return Html(f'<figure class="chart"><figcaption>{head}</figcaption><p>Nothing to draw yet.</p></figure>')
    across = _across([place for one in drawn for place, y in one.points if isfinite(y)])
    log = log and min(values) > 1 / HUGE and max(values) > min(values)
    spans = [spread(values, room=0.05), *([spread_log(values)] if log else [])]
    switch = '<label class="switch"><input type="checkbox"> logarithmic</label>' if log else ""
    plots = "".join(_plot(title, drawn, across, up, x) for up in spans)
    data = json.dumps([_data(one) for one in drawn], ensure_ascii=False, separators=(",", ":"))
    return Html(
        f'<figure class="chart" data-x="{escaped(x)}" data-series="{escaped(data)}">\n'
        f"<figcaption>{head}{switch}</figcaption>\n{_legend(title, drawn)}\n{plots}</figure>"
    )


def _across(steps: Sequence[Number]) -> Range:
    """The x axis; it begins at 0 where that is near."""
    span = spread(steps, room=0.0)
    near = 0 < min(steps) < 0.5 * max(steps)
    return Range(0.0, span.high) if near else span


def _prepared(one: Series, place: int) -> Series:
    """The series with its points sorted and thinned, and a colour."""
    # Beyond HUGE the difference of two values may overflow.
    finite = [(x, y if abs(y) < HUGE else nan) for x, y in one.points if isfinite(x)]
    points = thinned(sorted(finite, key=lambda point: point[0]))
    return Series(one.name, points, place if one.tone is None else one.tone, one.faint, one.dots)


def _data(one: Series) -> dict[str, object]:
    """What the script reads: the values as text, and their coordinates."""
    shown = [(x, y) for x, y in one.points if isfinite(y)] if not one.faint else []
    return {
        "name": one.name,
        "tone": (one.tone or 0) % TONES,
        "x": [x for x, _ in shown],
        "y": [y for _, y in shown],
        "text": [number(y) for _, y in shown],
    }


def _legend(title: str, series: Sequence[Series]) -> str:
    shown = [one for one in series if not one.faint]
    if len(shown) == 1 and shown[0].name.lower() == title.lower():
        return ""
    items = "".join(f'<li class="{_css_class(one)}" dir="auto">{escaped(one.name)}</li>' for one in shown)
    return f'<ul class="legend">{items}</ul>'


def _css_class(one: Series) -> str:
    tone = one.tone or 0
    return f"tone{tone % TONES}{' faint' if one.faint else ''}{' dashed' if tone // TONES % 2 else ''}"


def _plot(title: str, series: Sequence[Series], across: Range, up: Range, x: str) -> str:
    down, along = up.marks(5), across.marks(6)
    gutter = max((len(text) for text in labels(down)), default=1)
    lines = "".join(f'<path class="grid" d="M0 {SIZE - SIZE * up.at(value):.1f}h{SIZE}"/>' for value in down)
    curves = "".join(_curve(one, across, up) for one in sorted(series, key=lambda one: not one.faint))
    left, below = _marks("bottom", up, down), _marks("left", across, along)
    ends = f'data-left="{across.low!r}" data-right="{across.high!r}" data-low="{up.low!r}" data-high="{up.high!r}"'
    return (
        f'<div class="plot{" log" if up.log else ""}" style="--gutter:{gutter}ch">\n'
        f'<div class="y" aria-hidden="true">{left}</div>\n'
        f'<div class="field" role="img" tabindex="0" aria-label="{escaped(_aria_label(title, series, up, x))}" {ends}>'
        f'<svg viewBox="0 0 {SIZE} {SIZE}" preserveAspectRatio="none" aria-hidden="true">{lines}{curves}</svg></div>\n'
        f'<div class="x" aria-hidden="true">{below}<em>{escaped(x)}</em></div>\n</div>\n'
    )


def _marks(side: str, span: Range, values: list[float]) -> str:
    return "".join(
        f'<span style="{side}:{100 * span.at(value):.2f}%"{" class=last" if span.at(value) > 0.97 else ""}>'
        f"{escaped(text)}</span>"
        for value, text in zip(values, labels(values), strict=True)
    )


def _curve(one: Series, across: Range, up: Range) -> str:
    pieces = list(_pieces(one, across, up))
    path = "".join(f"M{'L'.join(piece)}" if len(piece) > 1 else f"M{piece[0]}h0" for piece in pieces)
    dots = "".join(f"M{place}h0" for piece in pieces for place in piece) if one.dots and len(one.points) <= 60 else ""
    # A line of no length with round ends is a dot, and stays round where the drawing is stretched.
    lone = "".join(f"M{piece[0]}h0" for piece in pieces if len(piece) == 1)
    marks = f'<path class="dots {_css_class(one)}" d="{dots or lone}"/>' if dots or lone else ""
    return f'<path class="curve {_css_class(one)}" d="{path}"/>{marks}' if path else ""


def _pieces(one: Series, across: Range, up: Range) -> Iterator[list[str]]:
    """Stretches without a gap, as coordinates."""
    piece: list[str] = []
    for x, y in one.points:
        height = up.place(y)
        if height is None:
            if piece:
                yield piece
            piece = []
        else:
            piece.append(f"{SIZE * across.at(x):.1f} {SIZE - SIZE * height:.1f}")
    if piece:
        yield piece


def _aria_label(title: str, series: Sequence[Series], up: Range, x: str) -> str:
    """The chart in a sentence, for screen readers."""
    curves = [
        f"{one.name} from {number(points[0][1])} to {number(points[-1][1])} over {x} {number(points[0][0])} to "
        f"{number(points[-1][0])}, lowest {number(min(y for _, y in points))}"
        for one in series
        if not one.faint and (points := [(place, y) for place, y in one.points if isfinite(y)])
    ]
    return f"Line chart of {title}{', logarithmic' if up.log else ''}: {'; '.join(curves)}"
