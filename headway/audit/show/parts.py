"""Parts of a page about an audit: the verdicts, a broken law with its counter-example, what was not tried and why."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from headway.audit.report import BROKEN, NOT_APPLICABLE, REFUTED, Example, Finding, Report
from headway.audit.show.layers import by_layer
from headway.audit.show.words import (
    STATUSES,
    counted,
    draw,
    figure,
    first_module,
    having,
    measured,
    not_claimed,
    sentence,
    tokens,
)
from headway.render import (
    Fact,
    Html,
    Table,
    duration,
    escaped,
    facts,
    folded,
    html_table,
    joined,
    keys,
    number,
    paragraph,
    strip,
)


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
    return joined(tried, *map(_unclaimed, having(report, REFUTED)), *_tables(report.findings))


def _unclaimed(one: Finding) -> Html:
    if one.example is None:
        return paragraph(f"{one.law} is not claimed: {not_claimed(one)}.")
    return folded(f"{one.law} is not claimed: a counter-example", counter_example(one.example))


def _tables(findings: Sequence[Finding]) -> list[Html]:
    return [folded(f"Details of {one.law}", details(one)) for one in findings if one.details and not one.broken]
