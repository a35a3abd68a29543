"""An audit in a terminal: a table of the laws, the counter-examples drawn on the tokens, and one line at the end."""

import io
import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, REFUTED, Example, Finding, Report
from headway.audit.show.rows import legend, row
from headway.audit.show.words import (
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
from headway.render.table import Cell, Table, print_tables
from headway.render.text import printable

WIDTH = 100
ROWS = 12  # of a law's own table
COLOURS = {HOLDS: "32", BROKEN: "1;31", NOT_APPLICABLE: "2", REFUTED: "33"}
HEADS = ("law", "verdict", "trials", "largest deviation", "tolerance", "first module")


def lines(report: Report, sentences: Mapping[str, str], *, colour: bool = False, width: int = WIDTH) -> list[str]:
    """The report for a terminal that is `width` columns wide; `sentences` says each law in words."""
    found = list(_laws(report, colour, width))
    for one in report.broken:
        found += ["", *explained(one, sentences, seed=report.seed, colour=colour, width=width)]
    found += _reasons("Not claimed", [(one.law, not_claimed(one)) for one in having(report, REFUTED)], width)
    found += _reasons("Not applicable", [(one.law, one.why) for one in having(report, NOT_APPLICABLE)], width)
    found += _listed("Notes", report.notes, width)
    last = _painted(summary(report), COLOURS[HOLDS if report.holds else BROKEN], colour and bool(report.findings))
    return [*found, "", last]


def explained(
    finding: Finding, sentences: Mapping[str, str], *, seed: int = 0, colour: bool = False, width: int = WIDTH
) -> list[str]:
    """One broken law: what it says, the counter-example, where it went wrong first, and by how much."""
    head = _painted(f"{printable(finding.law)} is {finding.status}", COLOURS[finding.status], colour)
    said = sentences.get(finding.law, "")
    found = [f"{head}: {printable(said)}" if said else head]
    if finding.example is not None:
        found += _example(finding.example, width)
    first = f"The first module that went wrong: {first_module(finding)}." if finding.module else ""
    drawn = "Drawn with " + ", ".join(f"{name} {value}" for name, value in draw(finding, seed)) + "."
    for text in (first, measured(finding), sentence(finding.why), drawn):
        found += _paragraph(text, width, "  ")
    return [*found, *_details(finding, width)]


def _example(example: Example, width: int) -> Iterator[str]:
    yield from _paragraph(sentence(example.sentence), width, "  ")
    boxes = [tokens(strip) for strip in example.strips]
    for strip, one in zip(example.strips, boxes, strict=True):
        yield from _paragraph(f"{strip.title}:", width, "  ")
        yield from (f"    {line}" for line in row(one, width=max(width - 4, 20)))
    if marks := legend(token for one in boxes for token in one):
        yield f"  {marks}"


def _laws(report: Report, colour: bool, width: int) -> Iterator[str]:
    """The table; the colour comes afterwards, since the words have to stand in columns first."""
    kind = " (quick)" if report.quick else ""
    rows = [_row(one) for one in report]
    title = f"{one_line(report.target)}: {one_line(report.model)}{kind}"
    for line in _rendered(Table(title, HEADS, rows), width):
        yield _verdict_painted(line, colour)


def _row(one: Finding) -> tuple[Cell, ...]:
    deviation = None if one.deviation is None else figure(one.deviation)
    tolerance = figure(one.tolerance) if one.broken and one.tolerance is not None else None
    return (one_line(one.law), one.status, one.trials, deviation, tolerance, one_line(one.module) or None)


def one_line(text: str) -> str:
    """Text that keeps to its line."""
    return " ".join(printable(text).split())


def _rendered(one: Table, width: int) -> list[str]:
    from rich.console import Console

    console = Console(
        file=io.StringIO(), width=width, force_terminal=False, color_system=None, markup=False, emoji=False
    )
    print_tables(console, "", [one])
    return [line.rstrip() for line in console.file.getvalue().splitlines()]  # pyright: ignore


def _verdict_painted(line: str, colour: bool) -> str:
    found = re.match(rf"(\S.*?  +)({'|'.join(COLOURS)})(?= |$)", line) if colour else None
    if found is None:
        return line
    return f"{found[1]}{_painted(found[2], COLOURS[found[2]], colour)}{line[found.end() :]}"


def _painted(text: str, code: str, colour: bool) -> str:
    return f"\x1b[{code}m{text}\x1b[0m" if colour else text


def _details(finding: Finding, width: int) -> Iterator[str]:
    if not finding.details:
        return
    heads = list(dict.fromkeys(name for one in finding.details for name in one))
    rows = [[cell(one.get(name)) for name in heads] for one in finding.details[:ROWS]]
    yield ""
    yield from (
        f"  {line}".rstrip() for line in _rendered(Table("", [one_line(name) for name in heads], rows), width - 2)
    )
    if (more := len(finding.details) - ROWS) > 0:
        yield f"  … and {more:,} more rows"


def cell(value: Any) -> Cell:
    """A value of a law's own table.

    >>> cell(3.2e-16), cell(7), cell(["a"]), cell(None)
    ('3.2e-16', 7, "['a']", None)
    """
    if isinstance(value, float):
        return figure(value)
    return value if value is None or (isinstance(value, int) and not isinstance(value, bool)) else one_line(str(value))


def _reasons(title: str, pairs: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    yield from _listed(title, [f"{law}: {why}" for law, why in pairs], width)


def _listed(title: str, texts: Sequence[str], width: int) -> Iterator[str]:
    if texts:
        yield from ("", f"{title}:")
    for text in texts:
        yield from _paragraph(text, width, "  ", hanging="    ")


def _paragraph(text: str, width: int, indent: str, hanging: str = "") -> list[str]:
    """Lines that fit; words that are longer are broken."""
    return textwrap.wrap(printable(text), max(width, 20), initial_indent=indent, subsequent_indent=hanging or indent)
