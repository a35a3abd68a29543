"""An audit on one page that needs nothing else."""

from collections.abc import Mapping

from headway.audit.report import Report
from headway.audit.show.parts import broken, others, overview, place_of
from headway.audit.show.words import sentence, summary
from headway.render import Html, Section, escaped, joined, page
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
