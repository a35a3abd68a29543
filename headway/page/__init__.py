"""Parts of HTML pages that need nothing but themselves: style, tables, charts, trees."""

from headway.page.block import Fact, columns, commands, facts, folded, preformatted, sample
from headway.page.chart import Series, line_chart
from headway.page.number import duration, number, short
from headway.page.points import smoothed, thinned
from headway.page.section import GENERATOR, Section, page
from headway.page.strip import keys, strip
from headway.page.table import table
from headway.page.text import Html, escaped, joined, paragraph, visible
from headway.page.token import Token, legible
from headway.page.tree import Branch, tree

__all__ = [
    "Section",
    "page",
    "GENERATOR",
    "Html",
    "escaped",
    "joined",
    "paragraph",
    "visible",
    "Fact",
    "facts",
    "table",
    "Series",
    "line_chart",
    "smoothed",
    "thinned",
    "Branch",
    "tree",
    "Token",
    "strip",
    "keys",
    "legible",
    "preformatted",
    "sample",
    "folded",
    "columns",
    "commands",
    "number",
    "short",
    "duration",
]
