"""The deviation by module, in the order in which they finish: logarithmic bars, the first that went wrong marked."""

from collections.abc import Sequence
from math import isfinite, log10, nan

from headway.audit.report import Finding, Layer
from headway.audit.show.words import figure
from headway.render import Html, Series, escaped, folded, joined, line_chart, paragraph

MOST = 24  # bars that are shown at once
BEFORE = 6  # of them before the first that went wrong
COLOURS = " Red is the first that went wrong, orange what was given deviating inputs."


def by_layer(finding: Finding) -> Html:
    """The bars; of a deep model those around the first, a curve of all, and all of them folded away."""
    layers = finding.layers
    if not layers:
        return Html("")
    first, scale = first_of(finding), _Scale(layers, finding.tolerance)
    start = min(max(0, (first or 0) - BEFORE), max(0, len(layers) - MOST))
    near = _bars(layers, range(start, min(len(layers), start + MOST)), first, scale)
    parts = [
        Html("<h4>Deviation by module, in the order in which they finish</h4>"),
        paragraph(scale.told() + (COLOURS if first is not None else "")),
        near,
    ]
    if len(layers) > MOST:
        parts += [_curve(layers), _all(layers, first, scale)]
    return joined(*parts)


def first_of(finding: Finding) -> int | None:
    """The place of the first module that went wrong: a module that is called again goes wrong once, first."""
    named = [place for place, one in enumerate(finding.layers) if one.module == finding.module and finding.module]
    deviating = [place for place in named if _over(finding.layers[place].deviation, finding.tolerance)]
    return next(iter(deviating or named), None)


def _over(deviation: float, tolerance: float | None) -> bool:
    """Whether rounding does not explain it; NaN is explained by nothing."""
    return not deviation <= (tolerance or 0.0)


class _Scale:
    """Where a deviation ends on the track: from a tenth of the smallest that is worth showing to the largest."""

    def __init__(self, layers: Sequence[Layer], tolerance: float | None) -> None:
        found = [one.deviation for one in layers if isfinite(one.deviation) and one.deviation > 0]
        self.tolerance = tolerance if tolerance and isfinite(tolerance) else None
        known = [*found, *([self.tolerance] if self.tolerance else [])] or [1.0]
        # Below a thousandth of the rounding, differences mean nothing.
        self.low = max(min(known), 1e-3 * self.tolerance if self.tolerance else 0.0) / 10
        self.high = max(known)

    def share(self, deviation: float) -> float:
        """Percent of the track; a deviation without a number fills it."""
        if not isfinite(deviation):
            return 100.0
        if deviation <= self.low:
            return 0.0
        return min(100.0, 100.0 * log10(deviation / self.low) / log10(self.high / self.low))

    def told(self) -> str:
        line = f"; the thin line is what rounding explains of the result, {figure(self.tolerance)}"
        ends = f"from {figure(self.low)} to {figure(self.high)}"
        return f"Relative to the module's largest number; logarithmic, {ends}{line if self.tolerance else ''}."


def _bars(layers: Sequence[Layer], places: range, first: int | None, scale: _Scale) -> Html:
    rows = "\n".join(_bar(layers[place], place == first, scale) for place in places)
    limit = f' style="--limit:{scale.share(scale.tolerance):.1f}%"' if scale.tolerance else ""
    return Html(f'<ol class="bars"{limit} aria-label="Deviation by module">\n{rows}</ol>')


def _bar(one: Layer, first: bool, scale: _Scale) -> str:
    look = "first" if first else "" if one.agreed else "after"
    pill = ' <b class="pill">first to go wrong</b>' if first else ""
    entered = "what went in agrees" if one.agreed else "what went in deviates already"
    return (
        f'<li class="{look}" title="{escaped(f"{one.module}: {figure(one.deviation)}; {entered}")}">'
        f'<span dir="auto">{escaped(one.module or "the model")} <span class="kind">{escaped(one.kind)}</span>{pill}'
        f'</span><span class="track" style="--share:{scale.share(one.deviation):.1f}%"></span>'
        f'<span class="value">{escaped(figure(one.deviation))}</span></li>'
    )


def _curve(layers: Sequence[Layer]) -> Html:
    """Powers of ten, module by module; no deviation at all is a gap."""
    powers = [log10(one.deviation) if isfinite(one.deviation) and one.deviation > 0 else nan for one in layers]
    name = "power of ten of the deviation"
    return line_chart("Through the whole model", [Series(name, list(enumerate(powers, 1)))], x="module")


def _all(layers: Sequence[Layer], first: int | None, scale: _Scale) -> Html:
    bars = _bars(layers, range(len(layers)), first, scale)
    held = f'<div class="scroll" tabindex="0" role="region" aria-label="All modules">{bars}</div>'
    return folded(f"All {len(layers):,} modules", Html(held))
