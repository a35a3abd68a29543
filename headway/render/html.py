"""HTML pages in one file that loads nothing else, and their parts: escaped text, sections, facts, tables, trees."""

import re
from base64 import b64encode
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from math import isfinite
from typing import NewType

from headway.render.numbers import number
from headway.render.style import SCRIPT, STYLE
from headway.render.table import Amount, Table
from headway.render.text import visible

GENERATOR = '<meta name="generator" content="headway">'
Html = NewType("Html", str)  # escaped already; any other text goes through `escaped`


def escaped(text: object) -> Html:
    """Text as HTML, good between tags and within the quotes of an attribute.

    >>> escaped('</script><a href="x">&')
    '&lt;/script&gt;&lt;a href=&quot;x&quot;&gt;&amp;'
    """
    return Html(escape(visible(str(text)), quote=True))


def paragraph(text: str) -> Html:
    """One paragraph; Hebrew or Arabic in it keeps its own direction.

    >>> paragraph("1 < 2")
    '<p dir="auto">1 &lt; 2</p>'
    """
    return Html(f'<p dir="auto">{escaped(text)}</p>')


def joined(*parts: Html) -> Html:
    """Several parts, one below the other."""
    return Html("\n".join(part for part in parts if part))


@dataclass(frozen=True)
class Section:
    """A part of a page. `script` and `style` are for a part that does what no other does; the same is taken once."""

    title: str
    html: Html
    id: str
    script: str = ""
    style: str = ""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"[a-z][a-z0-9-]*", self.id):
            raise ValueError(f"a section's id is lower-case letters, digits and hyphens, not {self.id!r}")


def page(title: str, sections: Sequence[Section], subtitle: str = "") -> str:
    """The whole page as text.

    The browser is told (Content-Security-Policy) to fetch nothing, and to run no script but the page's own.

    >>> page("A run", [Section("Loss", Html("<p>1.7</p>"), "loss")]).count("<section")
    1
    """
    ids = [section.id for section in sections]
    if twice := next((one for one in ids if ids.count(one) > 1), None):
        raise ValueError(f"two sections have the id {twice!r}")
    scripts = list(dict.fromkeys([SCRIPT, *(section.script for section in sections if section.script)]))
    styles = "".join(dict.fromkeys([STYLE, *(section.style for section in sections if section.style)]))
    assert "</style" not in styles.lower(), "a style cannot contain its own end"
    body = "\n".join(_section(section) for section in sections)
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_policy(scripts)}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
{GENERATOR}
<link rel="icon" href="data:,">
<title>{escaped(title)}</title>
<style>{styles}</style>
</head>
<body>
<header>
<h1 dir="auto">{escaped(title)}</h1>
{f'<p class="subtitle" dir="auto">{escaped(subtitle)}</p>' if subtitle else ""}
{_navigation(sections)}
</header>
<main>
{body}
</main>
{"".join(f"<script>{script}</script>" for script in scripts)}
</body>
</html>
"""


def _section(section: Section) -> str:
    heading = f'<h2 id="{section.id}-title">{escaped(section.title)}</h2>'
    return f'<section id="{section.id}" aria-labelledby="{section.id}-title">\n{heading}\n{section.html}\n</section>'


def _navigation(sections: Sequence[Section]) -> str:
    if len(sections) < 3:  # all of it is in sight
        return ""
    links = "".join(f'<li><a href="#{section.id}">{escaped(section.title)}</a></li>' for section in sections)
    return f'<nav aria-label="Sections"><ul>{links}</ul></nav>'


def _policy(scripts: Sequence[str]) -> str:
    for script in scripts:
        assert "</script" not in script.lower(), "a script cannot contain its own end"
    hashes = " ".join(f"'sha256-{b64encode(sha256(one.encode()).digest()).decode()}'" for one in scripts)
    return f"default-src 'none'; img-src data:; style-src 'unsafe-inline'; script-src {hashes}"


@dataclass(frozen=True)
class Fact:
    """A number or word that stands on a card, its name above and a remark below."""

    name: str
    value: str
    note: str = ""


def facts(caption: str, cards: Sequence[Fact]) -> Html:
    """Cards side by side.

    >>> facts("The run", [Fact("steps", "2,000")]).count("<dt")
    1
    """
    return Html(f'<dl class="facts" aria-label="{escaped(caption)}">\n{"".join(_card(card) for card in cards)}</dl>')


def _card(card: Fact) -> str:
    note = f'<dd class="note" dir="auto">{escaped(card.note)}</dd>' if card.note else ""
    return f'<div><dt>{escaped(card.name)}</dt><dd dir="auto">{escaped(card.value)}</dd>{note}</div>\n'


def preformatted(text: str, *, label: str) -> Html:
    """Text with its own lines and spaces; long lines wrap.

    >>> preformatted("a\\n  b", label="A file")
    '<pre tabindex="0" role="region" aria-label="A file" dir="auto">a\\n  b</pre>'
    """
    # A line break right after <pre> is dropped by browsers.
    start = "\n" if text.startswith("\n") else ""
    return Html(
        f'<pre tabindex="0" role="region" aria-label="{escaped(label)}" dir="auto">{start}{escaped(text)}</pre>'
    )


def sample(prompt: str, text: str, *, label: str) -> Html:
    """What a model wrote: the prompt, and the text after it.

    >>> "<b>To be</b> or not" in sample("To be", " or not", label="Sample")
    True
    """
    first = f"<b>{escaped(prompt)}</b>" if prompt else ""
    start = "\n" if text.startswith("\n") and not prompt else ""
    head = f'<pre class="sample" tabindex="0" role="region" aria-label="{escaped(label)}" dir="auto">'
    return Html(f"{head}{start}{first}{escaped(text)}</pre>")


def folded(summary: str, html: Html, *, open: bool = False) -> Html:
    """A part that is closed until somebody opens it."""
    return Html(
        f'<details class="folded"{" open" if open else ""}><summary>{escaped(summary)}</summary>\n{html}</details>'
    )


def columns(*parts: Html) -> Html:
    """Parts side by side where the page is wide enough."""
    return Html(f'<div class="columns">{"".join(f"<div>{part}</div>" for part in parts)}</div>')


def commands(lines: Sequence[tuple[str, str]]) -> Html:
    """Commands for a terminal, each under what it does; one click selects a command.

    >>> commands([("the model as a tree", "headway info m")]).count("<code>")
    1
    """
    rows = "".join(f"<dt>{escaped(what)}</dt><dd><code>{escaped(command)}</code></dd>\n" for what, command in lines)
    return Html(f'<dl class="commands">\n{rows}</dl>')


def html_table(one: Table, *, best: object = None) -> Html:
    """A table of text and numbers; the first cell of a row is its head, None is a dash.

    best: the first cell of the row to stand out.

    >>> '<td class="number">1.7</td>' in html_table(Table("Losses", ["step", "loss"], [[200, 1.7]]))
    True
    """
    numeric = [_numeric(row[place] for row in one.rows) for place in range(len(one.columns))]
    named = zip(one.columns, numeric, strict=True)
    heads = "".join(f'<th scope="col"{_class(right)}>{escaped(name)}</th>' for name, right in named)
    columns = (_column([row[place] for row in one.rows], aligned=right) for place, right in enumerate(numeric))
    marked = [best is not None and row[0] == best for row in one.rows]
    body = "\n".join(_row(row, numeric, mark) for row, mark in zip(zip(*columns, strict=True), marked, strict=True))
    return Html(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{escaped(one.title)}">\n<table>\n'
        f"<caption>{escaped(one.title)}</caption>\n<thead><tr>{heads}</tr></thead>\n<tbody>\n{body}\n</tbody>\n"
        "</table>\n</div>"
    )


def _numeric(cells: Iterable[object]) -> bool:
    found = [cell for cell in cells if cell is not None]
    return bool(found) and all(isinstance(cell, int | float | Amount) and not isinstance(cell, bool) for cell in found)


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


@dataclass(frozen=True)
class Branch:
    """A line of a tree: a name, what it is, a number, and its share of the whole as a bar."""

    name: str
    note: str = ""
    value: str = ""
    share: int | float | None = None
    children: "tuple[Branch, ...]" = ()
    open: bool = False


def tree(caption: str, roots: Sequence[Branch]) -> Html:
    """The tree as nested lists.

    >>> tree("A model", [Branch("head", "17 × 5", "85")]).count("<li>")
    1
    """
    return Html(f'<div class="tree" role="group" aria-label="{escaped(caption)}">\n{_list(roots)}\n</div>')


def _list(branches: Sequence[Branch]) -> str:
    return "<ul>" + "\n".join(f"<li>{_branch(one)}</li>" for one in branches) + "</ul>"


def _branch(one: Branch) -> str:
    if not one.children:
        return f'<div class="line">{_line(one)}</div>'
    state = " open" if one.open else ""
    return f'<details{state}><summary><span class="line">{_line(one)}</span></summary>\n{_list(one.children)}</details>'


def _line(one: Branch) -> str:
    bar = "" if one.share is None else f'<i class="bar" style="--share:{100 * min(max(one.share, 0), 1):.2f}%"></i>'
    parts = (("name", one.name), ("note", one.note), ("value", one.value))
    return "".join(f'<span class="{kind}" dir="auto">{escaped(text)}</span>' for kind, text in parts if text) + bar
