"""A tree whose branches open and close."""

from collections.abc import Sequence
from dataclasses import dataclass

from headway.page.text import Html, escaped


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
