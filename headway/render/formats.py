"""Tables as Markdown, LaTeX (booktabs), CSV and JSON, and the choice among them."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from headway.render.html import Section, html_table, joined, page, paragraph
from headway.render.table import Amount, Table, cell_text, cell_value
from headway.render.text import visible

TEXT, JSON, CSV, LATEX, MARKDOWN, HTML = "text", "json", "csv", "latex", "markdown", "html"

_LATEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "×": r"$\times$", "·": r"$\cdot$", "⌈": r"$\lceil$",
    "⌉": r"$\rceil$", "–": "--", "µ": r"\textmu{}", "²": r"$^2$", "³": r"$^3$", "→": r"$\to$", "≥": r"$\ge$",
    "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", '"': r"\textquotedbl{}",
}  # fmt: skip


def markdown(tables: Sequence[Table]) -> str:
    """Pipes between cells; numbers to the right.

    >>> print(markdown([Table("Sizes", ("part", "bytes"), (("a|b", 1234),))]))
    ### Sizes
    <BLANKLINE>
    | part | bytes |
    | --- | ---: |
    | a\\|b | 1,234 |
    """
    return "\n\n".join(_markdown(one) for one in tables)


def _markdown(one: Table) -> str:
    rule = ["---:" if one.numeric(place) else "---" for place in range(len(one.columns))]
    rows = [[*map(_piped, one.columns)], rule, *([_piped(cell_text(cell)) for cell in row] for row in one.rows)]
    head = f"### {visible(one.title)}\n\n" if one.title else ""
    return head + "\n".join(f"| {' | '.join(row)} |" for row in rows)


def _piped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("|", "\\|").replace("\n", " ")


def latex(tables: Sequence[Table]) -> str:
    """One table environment each, for the packages booktabs and textcomp.

    >>> print(latex([Table("100 %", ("a_b", "n"), (("x", 1), ("sum", 1234)), total=True)]))
    \\begin{table}
    \\centering
    \\caption{100 \\%}
    \\begin{tabular}{lr}
    \\toprule
    a\\_b & n \\\\
    \\midrule
    x & 1 \\\\
    \\midrule
    sum & 1{,}234 \\\\
    \\bottomrule
    \\end{tabular}
    \\end{table}
    """
    return "\n\n".join(_latex(one) for one in tables)


def _latex(one: Table) -> str:
    aligned = "".join("r" if one.numeric(place) else "l" for place in range(len(one.columns)))
    rows = [_latex_row(row) for row in one.rows]
    rows = [*rows[:-1], r"\midrule", *rows[-1:]] if one.total and len(rows) > 1 else rows
    head = [
        r"\begin{table}",
        r"\centering",
        *([rf"\caption{{{latex_escaped(one.title)}}}"] if one.title else []),
        *([rf"\label{{{one.label}}}"] if one.label else []),
        rf"\begin{{tabular}}{{{aligned}}}",
    ]
    body = [r"\toprule", _latex_row(one.columns), r"\midrule", *rows, r"\bottomrule"]
    return "\n".join([*head, *body, r"\end{tabular}", r"\end{table}"])


def _latex_row(cells: Sequence[object]) -> str:
    return " & ".join(_latex_cell(cell) for cell in cells) + r" \\"


def _latex_cell(cell: object) -> str:
    text = latex_escaped(cell_text(cell))
    return text.replace(",", "{,}") if isinstance(cell, int) else text


def latex_escaped(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(_LATEX.get(character, character) for character in visible(text))


def csv_text(one: Table) -> str:
    """One table with its heads; numbers in full, without separators.

    >>> csv_text(Table("", ("part", "bytes"), (("a,b", 1234), ("c", None))))
    'part,bytes\\n"a,b",1234\\nc,\\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(one.columns)
    writer.writerows([cell_value(cell) for cell in row] for row in one.rows)
    return out.getvalue()


def chosen(**asked: bool) -> str:
    """The one format that was asked for.

    >>> chosen(json=False, csv=True)
    'csv'
    """
    found = [name for name, wanted in asked.items() if wanted]
    if len(found) > 1:
        raise ValueError(f"one format at a time: --{found[0]} or --{found[1]}")
    return found[0] if found else TEXT


def json_text(record: Any, *, indent: int | None = 2) -> str:
    """An object as JSON: NaN and infinities are null, which JSON has a word for.

    >>> json_text({"loss": float("nan"), "size": [Amount(5, "bytes")]}, indent=None)
    '{"loss": null, "size": [5]}\\n'
    """
    return json.dumps(_plain(record), indent=indent, ensure_ascii=False, allow_nan=False, default=str) + "\n"


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    if isinstance(value, Amount):
        return _plain(value.value)
    return None if isinstance(value, float) and not isfinite(value) else value


def records(one: Table) -> list[dict[str, Any]]:
    """The rows of a table as objects, for JSON.

    >>> records(Table("", ("part", "bytes"), [("a", None)]))
    [{'part': 'a', 'bytes': None}]
    """
    return [dict(zip(one.columns, row, strict=True)) for row in one.rows]


def tables_page(title: str, tables: Sequence[Table], sentences: Sequence[str] = ()) -> str:
    """Tables on one HTML page, a section each; the sentences stand below."""
    named = [
        Section(one.title or title, html_table(one), f"table-{place}") for place, one in enumerate(tables, start=1)
    ]
    below = [Section("Notes", joined(*map(paragraph, sentences)), "notes")] if sentences else []
    return page(title, [*named, *below])


def formatted(
    kind: str,
    *,
    record: Any,
    tables: Sequence[Table],
    flat: Table | None = None,
    title: str = "",
    sentences: Sequence[str] = (),
    indent: int | None = 2,
) -> str:
    """A result as a file has it: JSON is `record`, CSV the table `flat` (by default the first), HTML a page."""
    if kind == JSON:
        return json_text(record, indent=indent)
    if kind == CSV:
        return csv_text(flat or tables[0]) if flat or tables else ""
    if kind == HTML:
        return tables_page(title or (tables[0].title if tables else "") or "headway", tables, sentences)
    return (latex(tables) if kind == LATEX else markdown(tables)) + "\n"
