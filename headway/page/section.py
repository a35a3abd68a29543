"""A page: its title and its sections, in one file that asks for nothing else."""

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from headway.page.script import SCRIPT
from headway.page.style import STYLE
from headway.page.text import Html, escaped

GENERATOR = '<meta name="generator" content="headway">'


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
