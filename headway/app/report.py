"""report.html: a run on one page, whether it is under way, was stopped or has finished.

A section is a function of the run in SECTIONS; one that has nothing to say returns None.
"""

from collections.abc import Callable
from pathlib import Path

from headway.app import charts, sections
from headway.app.audit_section import audit
from headway.app.cost_section import cost
from headway.app.heads_section import heads
from headway.app.run import Run, read_run
from headway.data.files import write_whole
from headway.page import Section, page, paragraph

FILE = "report.html"

SECTIONS: list[Callable[[Run], Section | None]] = [
    sections.summary,
    charts.loss,
    charts.measures,
    sections.samples,
    heads,
    sections.model,
    cost,
    audit,
    sections.configuration,
    sections.next_steps,
]


def report(run_directory: Path) -> Path:
    """Write a run's report.html, whole or not at all, and return its path."""
    run = read_run(run_directory)
    parts = [found for write in SECTIONS if (found := _section(write, run)) is not None]
    return write_whole(run.path / FILE, page(run.name, parts, sections.subtitle(run)))


def _section(write: Callable[[Run], Section | None], run: Run) -> Section | None:
    """A section that cannot be written says so in its place: the others are still worth reading."""
    try:
        return write(run)
    except ValueError as error:
        title = write.__name__.replace("_", " ").capitalize()
        return Section(title, paragraph(f"This part is missing: {error}"), write.__name__.replace("_", "-"))
