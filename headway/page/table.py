"""Tables: a caption, heads of columns and rows, numbers to the right."""

from collections.abc import Iterable, Sequence
from math import isfinite

from headway.page.number import number
from headway.page.text import Html, escaped


def table(caption: str, columns: Sequence[str], rows: Sequence[Sequence[object]], *, best: object = None) -> Html:
    """A table of text and numbers; the first cell of a row is its head, None is a dash.

    best: the first cell of the row to stand out.

    >>> '<td class="number">1.7</td>' in table("Losses", ["step", "loss"], [[200, 1.7]])
    True
    """
    if wrong := next((row for row in rows if len(row) != len(columns)), None):
        raise ValueError(f"a row of {len(wrong)} cells does not fit {len(columns)} columns: {list(wrong)}")
    numeric = [_numeric(row[place] for row in rows) for place in range(len(columns))]
    named = zip(columns, numeric, strict=True)
    heads = "".join(f'<th scope="col"{_class(right)}>{escaped(name)}</th>' for name, right in named)
    texts = zip(
        *(_column([row[place] for row in rows], aligned=numeric[place]) for place in range(len(columns))), strict=True
    )
    marked = [best is not None and row[0] == best for row in rows]
    body = "\n".join(_row(row, numeric, one) for row, one in zip(texts, marked, strict=True))
    return Html(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(caption)}">\n<table>\n'
        f"<caption>{escaped(caption)}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
        "</table>\n</div>"
    )


def _numeric(cells: Iterable[object]) -> bool:
    found = [cell for cell in cells if cell is not None]
    return bool(found) and all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in found)


def _column(cells: Sequence[object], *, aligned: bool) -> list[str]:
    """The cells as text; fractions in a column of numbers have as many digits as one another, for the eye to compare.

    >>> _column([5.49, 5.5109, None], aligned=True)
    ['5.4900', '5.5109', '–']
    """
    texts = [number(cell) for cell in cells]
    plain = [isinstance(cell, float) and isfinite(cell) for cell in cells]
    if not aligned or any("e" in text for text, fraction in zip(texts, plain, strict=True) if fraction):
        return texts
    places = max((len(text.partition(".")[2]) for text, one in zip(texts, plain, strict=True) if one), default=0)
    return [f"{cell:,.{places}f}" if one else text for cell, text, one in zip(cells, texts, plain, strict=True)]


def _row(texts: Sequence[str], numeric: Sequence[bool], marked: bool) -> str:
    looks = [_class(right) if right else ' dir="auto"' for right in numeric]
    first, *rest = (f"{look}>{escaped(text)}" for look, text in zip(looks, texts, strict=True))
    cells = "".join(f"<td{inside}</td>" for inside in rest)
    return f'<tr{" class=best" if marked else ""}><th scope="row"{first}</th>{cells}</tr>'


def _class(right: bool) -> str:
    return ' class="number"' if right else ""
