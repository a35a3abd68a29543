"""The page of a record: every head small, one large, two beside each other; what is drawn is computed in the page.

The numbers lie in the page as text that no browser runs: one block for what is known of all layers, and one for each
layer's weights, which is read when that layer is first looked at.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from headway.look.record import Look, as_json
from headway.render import Html, Section, escaped, joined, page, paragraph

FIRST = ("data.js", "columns.js", "state.js", "choice.js", "colour.js")  # what the other parts are made with
LAST = ("head.js", "keys.js")  # what puts them together

# A page of its own may be wider than one that is read as text.
_WIDE = "body{max-width:78rem}"

_ROLES = Html('<div id="look-roles" hidden></div>')  # of heads that learned something, not of a rule

_FRAME = """
<div id="look" class="look">
<div id="look-overview" class="look-overview"></div>
<div id="look-head" class="look-head">
<div id="look-bar" class="look-bar"></div>
<div id="look-patches" hidden></div>
<div id="look-panes" class="look-panes"></div>
<div id="look-numbers"></div>
</div>
</div>
<div id="look-lens" hidden></div>
<noscript><p>The pictures of this part are drawn by a script, and scripts are switched off.</p></noscript>
"""


def document(look: Look) -> str:
    """A whole page, in one file that asks for nothing else."""
    part = section(look)
    wide = Section(part.title, part.html, part.id, part.script, part.style + _WIDE)
    return page(look.title, [wide], look.subtitle)


def section(look: Look) -> Section:
    """The same as a part of another page; a page can have one of them."""
    notes = [Html(f'<p class="look-note" dir="auto">{escaped(note)}</p>') for note in look.notes]
    if not look.layers:
        nothing = paragraph("No attention ran here, so there is nothing to draw.")
        return Section("Heads", joined(*notes, nothing), "heads")
    ruled = all(layer.kind == "pattern" for layer in look.layers)
    html = joined(*notes, Html(_FRAME), Html("") if ruled else _ROLES, *_blocks(look))
    return Section("Patterns" if ruled else "Heads", html, "heads", _read(".js"), _read(".css"))


def _blocks(look: Look) -> list[Html]:
    """The record without the weights, and the weights of each layer."""
    record = as_json(look)
    weights = [layer.pop("data") for layer in record["layers"]]
    named = [(f"look-layer-{place}", one) for place, one in enumerate(weights)]
    return [_block(name, value) for name, value in [("look-data", record), *named]]


def _block(name: str, value: Any) -> Html:
    # Without a "<" nothing in a token can end the block.
    text = json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
    return Html(f'<script type="application/json" id="{name}">{text}</script>')


@cache
def _read(ending: str) -> str:
    """All files of headway/look/web of one kind: the first ones, the others by name, the last ones."""
    found = {one.name: one for one in files("headway.look").joinpath("web").iterdir() if one.name.endswith(ending)}
    middle = sorted(found.keys() - {*FIRST, *LAST})
    order = [name for name in (*FIRST, *middle, *LAST) if name in found]
    return "\n".join(found[name].read_text(encoding="utf-8") for name in order)
