"""Numbers and sentences of an audit that the terminal and the page have in common."""

from collections.abc import Iterator
from math import isfinite

from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, REFUTED, Finding, Report, Strip
from headway.render import Token, duration

STATUSES = (HOLDS, BROKEN, NOT_APPLICABLE, REFUTED)
MISSING = "–"


def figure(value: float | None) -> str:
    """A deviation: its power of ten is what matters.

    >>> figure(3.2e-16), figure(0.0), figure(None), figure(float("nan")), figure(float("inf"))
    ('3.2e-16', '0', '–', 'NaN', 'inf')
    """
    if value is None:
        return MISSING
    if value != value:
        return "NaN"
    return f"{value:.1e}" if value else "0"


def counted(count: int, thing: str) -> str:
    """
    >>> counted(1, "trial"), counted(1200, "law")
    ('1 trial', '1,200 laws')
    """
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def summary(report: Report) -> str:
    """The whole audit in one line."""
    if not report.findings:
        return "no law was examined"
    told = ", ".join(_told(report, status) for status in STATUSES if having(report, status))
    trials = sum(one.trials for one in report)
    return f"{counted(len(report.findings), 'law')}: {told}; {counted(trials, 'trial')} in {duration(report.seconds)}"


def _told(report: Report, status: str) -> str:
    found = having(report, status)
    word = "hold" if status == HOLDS and len(found) > 1 else status
    names = f" ({', '.join(one.law for one in found)})" if status == BROKEN else ""
    return f"{len(found):,} {word}{names}"


def having(report: Report, status: str) -> list[Finding]:
    return [one for one in report if one.status == status]


def measured(finding: Finding) -> str:
    """How far the results are apart, and how far rounding alone would bring them."""
    if finding.deviation is None:
        return ""
    if not isfinite(finding.deviation):
        return f"The deviation is {figure(finding.deviation)}: one of two results that should be equal is no number."
    told = f"The largest deviation is {figure(finding.deviation)} of the largest number compared"
    if finding.tolerance is None:
        return f"{told}."
    return f"{told}; rounding, as measured on this very model, explains up to {figure(finding.tolerance)}."


def first_module(finding: Finding) -> str:
    """The first module that went wrong with its kind, "" where it could not be told."""
    kind = next((one.kind for one in finding.layers if one.module == finding.module), "")
    return f"{finding.module} ({kind})" if finding.module and kind else finding.module


def not_claimed(finding: Finding) -> str:
    """What is known of a law that the model need not obey."""
    return finding.why or (
        finding.example.sentence if finding.example else "the model need not obey it, and no counter-example was found"
    )


def sentence(text: str) -> str:
    """
    >>> sentence("results change"), sentence("Done."), sentence("")
    ('Results change.', 'Done.', '')
    """
    return f"{text[0].upper()}{text[1:]}{'' if text.endswith(('.', '!', '?')) else '.'}" if text else ""


def tokens(strip: Strip) -> list[Token]:
    """The row as boxes."""
    told = zip(strip.tokens, strip.marks, strip.deviations, strict=True)
    return [Token(text, tuple(marks.split()), deviation, place) for place, (text, marks, deviation) in enumerate(told)]


def draw(finding: Finding, seed: int) -> Iterator[tuple[str, str]]:
    """What the counter-example was drawn from, by name: enough to draw it again."""
    case = finding.example.case if finding.example else {}
    yield from ((name, str(value)) for name, value in ({"seed": seed} | case).items())
