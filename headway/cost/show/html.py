"""A sheet in a notebook: the sums first, the tables folded below."""

from headway.cost.sheet import Sheet
from headway.cost.show.report import report, sentences, sums, title
from headway.render import Fact, Html, escaped, facts, folded, html_table, joined, number, paragraph, short

# A notebook has no style sheet of ours: only what makes numbers readable.
STYLE = (
    "<style>.headway-cost .facts{display:flex;flex-wrap:wrap;gap:.4rem 1.6rem;margin:.4rem 0}"
    ".headway-cost dt{opacity:.7;font-weight:400}.headway-cost dd{margin:0;font-weight:600}"
    ".headway-cost dd.note{font-weight:400;opacity:.7;font-size:.85em}"
    ".headway-cost table{font-variant-numeric:tabular-nums}.headway-cost .number{text-align:right}"
    ".headway-cost caption{text-align:left}.headway-cost .scroll{overflow-x:auto}</style>"
)


def html(sheet: Sheet) -> str:
    """What `_repr_html_` gives."""
    return f'{STYLE}<div class="headway-cost"><strong>{escaped(title(sheet))}</strong>{body(sheet)}</div>'


def body(sheet: Sheet) -> Html:
    """The parts without a frame, for any page."""
    tables = [folded(one.title, html_table(one)) for one in report(sheet)]
    return joined(cards(sheet), *map(paragraph, sentences(sheet)), *tables, *map(paragraph, sheet.notes))


def cards(sheet: Sheet) -> Html:
    """The sums, in a few digits with all of them below."""
    found = [Fact(name, short(value), number(value)) for name, value in sums(sheet).items() if value is not None]
    return facts(f"The price of {sheet.name}", found)
