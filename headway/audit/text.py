"""An audit in a terminal: a table of the laws, the counter-examples drawn on the tokens, and one line at the end."""

import io
import re
import textwrap
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isfinite
from typing import Any

from rich.cells import cell_len, set_cell_size

from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, REFUTED, STATUSES, Example, Finding, Report, Strip
from headway.render import Token, duration, legible
from headway.render.table import Amount, Cell, Table, print_tables
from headway.render.text import printable
from headway.render.tokens import MARKS, shortened, signs

WIDTH = 100
ROWS = 12  # of a law's own table
COLOURS = {HOLDS: "32", BROKEN: "1;31", NOT_APPLICABLE: "2", REFUTED: "33"}
HEADS = ("law", "verdict", "trials", "largest deviation", "tolerance", "first module")


def lines(report: Report, sentences: Mapping[str, str], *, colour: bool = False, width: int = WIDTH) -> list[str]:
    """The report for a terminal that is `width` columns wide; `sentences` says each law in words."""
    found = list(_laws(report, colour, width))
    for one in report.broken:
        found += ["", *explain(one, sentences, seed=report.seed, colour=colour, width=width)]
    found += _reasons("Not claimed", [(one.law, not_claimed(one)) for one in having(report, REFUTED)], width)
    found += _reasons("Not applicable", [(one.law, one.why) for one in having(report, NOT_APPLICABLE)], width)
    found += _reasons(
        "Remarks on laws that hold", [(one.law, one.why) for one in having(report, HOLDS) if one.why], width
    )
    found += _listed("Notes", report.notes, width)
    last = _painted(summary(report), COLOURS[HOLDS if report.holds else BROKEN], colour and bool(report.findings))
    return [*found, "", last]


def explain(
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
    for line in _rendered(laws_table(report), width):
        yield _verdict_painted(line, colour)


def laws_table(report: Report) -> Table:
    """The verdicts, a row for each law."""
    kind = " (quick)" if report.quick else ""
    return Table(f"{one_line(report.target)}: {one_line(report.model)}{kind}", HEADS, [_row(one) for one in report])


def _row(one: Finding) -> tuple[Cell, ...]:
    tolerance = one.tolerance if one.broken else None
    return (
        one_line(one.law),
        one.status,
        one.trials,
        *(None if value is None else Amount(value, text=figure(value)) for value in (one.deviation, tolerance)),
        one_line(one.module) or None,
    )


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


GAP = "  "
LONGEST = 24  # columns of one token
KEEP = 6  # tokens at each end of a stretch that is marked alike
# An invisible letter that is read from left to right: after Hebrew or Arabic, it keeps the tokens in their order.
LEFT_TO_RIGHT = "\u200e"


def row(tokens: Sequence[Token], *, width: int) -> Iterator[str]:
    """Lines of places, tokens and marks; the last where there are marks.

    >>> for line in row([Token("to"), Token("be", ("changed",), place=1)], width=80):
    ...     print(line)
    0   1
    to  be
        ^
    """
    columns = [_column(one) for one in shortened(tokens, keep=KEEP)]
    for piece in _wrapped(columns, width):
        for line in zip(*piece, strict=True):
            if text := _joined(line):
                yield text


def legend(tokens: Iterable[Token]) -> str:
    """
    >>> legend([Token("a", ("broken",)), Token("b", ("changed",))])
    '^ changed   ! result deviates'
    """
    found = {mark for one in tokens for mark in one.marks}
    return "   ".join(f"{sign} {meaning}" for mark, (sign, meaning) in MARKS.items() if mark in found)


def _column(one: Token) -> tuple[str, str, str]:
    """A place, a token and its marks, all as wide as the widest of them."""
    text = one.text if one.more else legible(one.text, longest=LONGEST)
    cells = (str(one.place), text, signs(one.marks))
    wide = min(max(map(cell_len, cells)), LONGEST)
    place, token, marks = (set_cell_size(cell, wide) for cell in cells)
    turned = any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in token)
    return place, f"{token}{LEFT_TO_RIGHT}" if turned else token, marks


def _wrapped(columns: Sequence[tuple[str, str, str]], width: int) -> Iterator[list[tuple[str, str, str]]]:
    piece: list[tuple[str, str, str]] = []
    used = 0
    for column in columns:
        wide = cell_len(column[0]) + len(GAP)
        if piece and used + wide - len(GAP) > width:
            yield piece
            piece, used = [], 0
        piece.append(column)
        used += wide
    if piece:
        yield piece


def _joined(cells: Iterable[str]) -> str:
    return GAP.join(cells).rstrip(f" {LEFT_TO_RIGHT}")


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
