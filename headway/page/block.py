"""Texts as they are, cards of facts, commands to copy."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.page.text import Html, escaped


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
