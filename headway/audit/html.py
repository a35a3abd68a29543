"""An audit on a page: the verdicts, a broken law with its counter-example, the deviation by module."""

import re
from collections.abc import Mapping, Sequence
from math import isfinite, log10, nan
from typing import Any

from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, REFUTED, Example, Finding, ModuleDeviation, Report
from headway.audit.text import (
    STATUSES,
    counted,
    draw,
    figure,
    first_module,
    having,
    measured,
    not_claimed,
    sentence,
    summary,
    tokens,
)
from headway.render import (
    Fact,
    Html,
    Section,
    Series,
    Table,
    duration,
    escaped,
    facts,
    folded,
    html_table,
    joined,
    keys,
    line_chart,
    number,
    page,
    paragraph,
    strip,
)
from headway.render.text import printable


def document(report: Report, sentences: Mapping[str, str], *, health: Section | None = None) -> str:
    """The whole page: the verdicts, a section for each broken law, the others, and the model's health where given."""
    rest = others(report)
    found = [(one, broken(one, sentences, seed=report.seed)) for one in report.broken]
    sections = [
        Section("Verdict", overview(report, sentences), "verdict"),
        *(Section(f"Broken: {one.law}", html, place_of(one)) for one, html in found),
        *([Section("The other laws", rest, "others")] if rest else []),
        *([health] if health is not None else []),
    ]
    return page(f"Audit of {printable(report.target)}", sections, f"{printable(report.model)}. {_sentence(report)}")


def _sentence(report: Report) -> str:
    kind = ", a quick search" if report.quick else ""
    return sentence(f"{summary(report)}{kind}, seed {report.seed}")


def section(report: Report, sentences: Mapping[str, str]) -> Section:
    """The same as one section of another page."""
    parts = [
        Html(f'<h3 id="{place_of(one)}">Broken: {escaped(one.law)}</h3>\n{broken(one, sentences, seed=report.seed)}')
        for one in report.broken
    ]
    return Section("Audit", joined(overview(report, sentences), *parts, others(report)), "audit")


def overview(report: Report, sentences: Mapping[str, str]) -> Html:
    """How many laws hold, each with its verdict, and all the figures folded away."""
    told = "No law was examined."
    parts = (_verdicts(report, sentences), folded("All figures", _figures(report))) if report.findings else ()
    return joined(_cards(report), *parts or (paragraph(told),), *map(paragraph, report.notes))


def _cards(report: Report) -> Html:
    counts = [Fact(status, f"{len(having(report, status)):,}", _names(report, status)) for status in STATUSES]
    trials = Fact("trials", f"{sum(one.trials for one in report):,}", f"in {duration(report.seconds)}")
    return facts("The verdict", [*(one for one in counts if one.value != "0" or one.name == BROKEN), trials])


def _names(report: Report, status: str) -> str:
    return ", ".join(one.law for one in having(report, status)) if status == BROKEN else ""


def _verdicts(report: Report, sentences: Mapping[str, str]) -> Html:
    items = "\n".join(_verdict(one, sentences.get(one.law, "")) for one in report)
    return Html(f'<ul class="verdicts" aria-label="The laws">\n{items}</ul>')


def _verdict(one: Finding, law: str) -> str:
    """The verdict is a word, and its colour says it again."""
    name = f'<a href="#{place_of(one)}">{escaped(one.law)}</a>' if one.broken else escaped(one.law)
    tried = f"{counted(one.trials, 'trial')} · " if one.trials else ""
    figures = f"{tried}deviation {figure(one.deviation)}" if one.deviation is not None else tried.removesuffix(" · ")
    first = f"First module: {first_module(one)}." if one.broken and one.module else ""
    said = "".join(f'<span class="said" dir="auto">{escaped(text)}</span>' for text in (law, first) if text)
    return (
        f'<li><b class="pill {one.status.replace(" ", "-")}">{escaped(one.status)}</b>'
        f'<span class="law" dir="auto">{name}</span><span class="figures">{escaped(figures)}</span>{said}</li>'
    )


def place_of(one: Finding) -> str:
    """Where on the page a broken law is told.

    >>> place_of(Finding("dtype drift", "broken"))
    'law-dtype-drift'
    """
    return f"law-{re.sub(r'[^a-z0-9]+', '-', one.law.lower()).strip('-')}"


def _figures(report: Report) -> Html:
    heads = ["law", "verdict", "trials", "largest deviation", "tolerance", "first module", "seconds"]
    rows = [
        [one.law, one.status, one.trials, figure(one.deviation), figure(one.tolerance), one.module or None, one.seconds]
        for one in report
    ]
    return html_table(Table("Deviations are relative to the largest number of a result", heads, rows))


def broken(finding: Finding, sentences: Mapping[str, str], *, seed: int = 0) -> Html:
    """One law that does not hold: what it says, the counter-example, where it begins, and by how much."""
    said = sentences.get(finding.law, "")
    first = f"The first module that went wrong is {first_module(finding)}." if finding.module else ""
    texts = [paragraph(text) for text in (first, measured(finding), sentence(finding.why)) if text]
    shown = counter_example(finding.example) if finding.example else Html("")
    drawn = folded(
        "How it was drawn", html_table(Table("The draw", ["", ""], [list(one) for one in draw(finding, seed)]))
    )
    return joined(paragraph(said) if said else Html(""), shown, *texts, by_layer(finding), details(finding), drawn)


def counter_example(example: Example) -> Html:
    """The sentence, the rows of tokens and what their marks mean."""
    rows = [(one.title, tokens(one)) for one in example.strips]
    boxes = [strip(title, boxes) for title, boxes in rows]
    return joined(paragraph(sentence(example.sentence)), *boxes, keys(token for _, boxes in rows for token in boxes))


def details(finding: Finding) -> Html:
    """The law's own table, where it has one."""
    if not finding.details:
        return Html("")
    heads = list(dict.fromkeys(name for one in finding.details for name in one))
    rows = [[_cell(one.get(name)) for name in heads] for one in finding.details]
    return html_table(Table(f"Details of {finding.law}", heads, rows))


def _cell(value: Any) -> object:
    return figure(value) if isinstance(value, float) else number(value) if isinstance(value, bool) else value


def others(report: Report) -> Html:
    """Laws that could not be tried, laws that nobody claims, and the tables of laws that hold."""
    reasons = [[one.law, one.why] for one in having(report, NOT_APPLICABLE)]
    tried = (
        html_table(Table("Not applicable: these could not be tried here", ["law", "why"], reasons))
        if reasons
        else Html("")
    )
    remarks = [[one.law, one.why] for one in having(report, HOLDS) if one.why]
    remarked = html_table(Table("Remarks on laws that hold", ["law", "why"], remarks)) if remarks else Html("")
    return joined(tried, remarked, *map(_unclaimed, having(report, REFUTED)), *_tables(report.findings))


def _unclaimed(one: Finding) -> Html:
    if one.example is None:
        return paragraph(f"{one.law} is not claimed: {not_claimed(one)}.")
    return folded(f"{one.law} is not claimed: a counter-example", counter_example(one.example))


def _tables(findings: Sequence[Finding]) -> list[Html]:
    return [folded(f"Details of {one.law}", details(one)) for one in findings if one.details and not one.broken]


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
        paragraph(scale.caption() + (COLOURS if first is not None else "")),
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

    def __init__(self, layers: Sequence[ModuleDeviation], tolerance: float | None) -> None:
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

    def caption(self) -> str:
        line = f"; the thin line is what rounding explains of the result, {figure(self.tolerance)}"
        ends = f"from {figure(self.low)} to {figure(self.high)}"
        return f"Relative to the module's largest number; logarithmic, {ends}{line if self.tolerance else ''}."


def _bars(layers: Sequence[ModuleDeviation], places: range, first: int | None, scale: _Scale) -> Html:
    rows = "\n".join(_bar(layers[place], place == first, scale) for place in places)
    limit = f' style="--limit:{scale.share(scale.tolerance):.1f}%"' if scale.tolerance else ""
    return Html(f'<ol class="bars"{limit} aria-label="Deviation by module">\n{rows}</ol>')


def _bar(one: ModuleDeviation, first: bool, scale: _Scale) -> str:
    look = "first" if first else "" if one.agreed else "after"
    pill = ' <b class="pill">first to go wrong</b>' if first else ""
    entered = "what went in agrees" if one.agreed else "what went in deviates already"
    return (
        f'<li class="{look}" title="{escaped(f"{one.module}: {figure(one.deviation)}; {entered}")}">'
        f'<span dir="auto">{escaped(one.module or "the model")} <span class="kind">{escaped(one.kind)}</span>{pill}'
        f'</span><span class="track" style="--share:{scale.share(one.deviation):.1f}%"></span>'
        f'<span class="value">{escaped(figure(one.deviation))}</span></li>'
    )


def _curve(layers: Sequence[ModuleDeviation]) -> Html:
    """Powers of ten, module by module; no deviation at all is a gap."""
    powers = [log10(one.deviation) if isfinite(one.deviation) and one.deviation > 0 else nan for one in layers]
    name = "power of ten of the deviation"
    return line_chart("Through the whole model", [Series(name, list(enumerate(powers, 1)))], x="module")


def _all(layers: Sequence[ModuleDeviation], first: int | None, scale: _Scale) -> Html:
    bars = _bars(layers, range(len(layers)), first, scale)
    held = f'<div class="scroll" tabindex="0" role="region" aria-label="All modules">{bars}</div>'
    return folded(f"All {len(layers):,} modules", Html(held))
