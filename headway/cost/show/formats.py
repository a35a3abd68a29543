"""The same tables as Markdown, as LaTeX (booktabs), and as comma-separated values."""

import csv
import io
from collections.abc import Sequence

from headway.cost.show.table import Cell, Table, plain, shown
from headway.page import visible

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
    rows = [[*map(_piped, one.columns)], rule, *([_piped(shown(cell)) for cell in row] for row in one.rows)]
    return f"### {visible(one.title)}\n\n" + "\n".join(f"| {' | '.join(row)} |" for row in rows)


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
    head = [r"\begin{table}", r"\centering", rf"\caption{{{escaped(one.title)}}}", rf"\begin{{tabular}}{{{aligned}}}"]
    body = [r"\toprule", _latex_row(one.columns), r"\midrule", *rows, r"\bottomrule"]
    return "\n".join([*head, *body, r"\end{tabular}", r"\end{table}"])


def _latex_row(cells: Sequence[Cell]) -> str:
    return " & ".join(_latex_cell(cell) for cell in cells) + r" \\"


def _latex_cell(cell: Cell) -> str:
    text = escaped(shown(cell))
    return text.replace(",", "{,}") if isinstance(cell, int) else text


def escaped(text: str) -> str:
    """Text that LaTeX prints as it stands."""
    return "".join(_LATEX.get(character, character) for character in visible(text))


def comma_separated(one: Table) -> str:
    """One table with its heads; numbers in full, without separators.

    >>> comma_separated(Table("", ("part", "bytes"), (("a,b", 1234), ("c", None))))
    'part,bytes\\n"a,b",1234\\nc,\\n'
    """
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(one.columns)
    writer.writerows([plain(cell) for cell in row] for row in one.rows)
    return out.getvalue()
