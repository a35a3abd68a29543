"""A diagnosis as lines for a terminal, and as a section of a page: symptoms and remedies, layers, heads, depth."""

import textwrap
from collections.abc import Sequence
from itertools import groupby

from headway.audit.health.record import DEPTH_MEASURES, MEASURES, SATURATED, Depth, Head, Health, Symptom
from headway.render import (
    Fact,
    Html,
    Section,
    Series,
    Table,
    escaped,
    facts,
    folded,
    html_table,
    joined,
    line_chart,
    number,
    paragraph,
    visible,
)
from headway.render.table import Amount, Cell, plain_text

_WIDTH = 100

# Columns of the table by layer: a head, and the measure averaged over the layer's heads.
COLUMNS = {
    "spread": "spread", "entropy": "entropy", "saturated": "saturated", "jacobian": "jacobian",
    "uniform": "jacobian_uniform", "q": "q_rms", "k": "k_rms", "q·k": "variance", "expected": "predicted",
    "scale": "scale",
}  # fmt: skip


def lines(health: Health) -> list[str]:
    """The whole diagnosis."""
    found = [line.rstrip() for one in tables(health) for line in [*plain_text("", [one]).splitlines(), ""]]
    if health.logits is not None:
        found.append(f"largest |output| {number(health.logits.largest, digits=4)} ({health.logits.dtype})")
    found += [f"note: {note}" for note in health.notes]
    return [visible(line) for line in [*found, "", *_symptoms(health.symptoms)]]


def tables(health: Health) -> list[Table]:
    """The layers and the blocks, where they were measured."""
    found = [layer_table(health.heads)] if health.heads else []
    return [*found, depth_table(health.depth)] if health.depth else found


def layer_table(heads: Sequence[Head]) -> Table:
    """A row for each layer: its name, how many heads, and the means of its measures."""
    rows: list[list[Cell]] = []
    for name, group in groupby(heads, key=lambda one: one.module):
        layer = list(group)
        rows.append([name or "the model", len(layer), *(_figure(mean(layer, one)) for one in COLUMNS.values())])
    return Table("attention, by layer (means over heads)", ["layer", "heads", *COLUMNS], rows)


def mean(layer: Sequence[Head], measure: str) -> float | None:
    """Of the heads that have it."""
    held = [value for one in layer if (value := getattr(one, measure)) is not None]
    return sum(held) / len(held) if held else None


def depth_table(depth: Sequence[Depth]) -> Table:
    rows = [
        [one.module, _figure(one.activation), _figure(one.gradient), "yes" if one.finite else "NO"] for one in depth
    ]
    return Table("depth", ["block", "activation", "gradient", "finite"], rows)


def _figure(value: float | None) -> Cell:
    return None if value is None else Amount(value, text=number(value, digits=3))


def _symptoms(symptoms: Sequence[Symptom]) -> list[str]:
    if not symptoms:
        return ["healthy: no symptom was found"]
    found = ["1 symptom" if len(symptoms) == 1 else f"{len(symptoms)} symptoms"]
    for one in symptoms:
        found += ["", f"{one.name}: {places(one.where, 3)}"]
        for word in ("measured", "expected", "why", "remedy"):
            told = textwrap.fill(getattr(one, word), _WIDTH - 12).split("\n")
            found += [f"  {word if place == 0 else '':<9} {line}" for place, line in enumerate(told)]
    return found


def places(where: Sequence[str], limit: int = 4) -> str:
    """The first few, and how many more.

    >>> places(["a", "b", "c"], limit=2)
    'a, b and 1 more'
    """
    named = ", ".join(where[:limit])
    return named if len(where) <= limit else f"{named} and {len(where) - limit} more"


_EXPLAINED = (
    "A softmax is saturated where one weight is almost 1: its output is then insensitive to the scores, and no "
    "gradient reaches q and k through that row. Large scores saturate in probability, not in every row."
)


def section(health: Health, *, id: str = "health") -> Section:
    """The section "Health"."""
    parts = [_cards(health), paragraph(_EXPLAINED), *map(_symptom, health.symptoms), *map(paragraph, health.notes)]
    parts += [_layers(health), _heads(health)] if health.heads else []
    parts += [_depth(health)] if health.depth else []
    return Section("Health", joined(*parts, _definitions()), id)


def _cards(health: Health) -> Html:
    known = [one.saturated for one in health.heads if one.saturated is not None]
    cards = [
        Fact("symptoms", str(len(health.symptoms)), "healthy" if health.healthy else places(_names(health))),
        Fact("heads", str(len(health.heads)), f"in {len({one.module for one in health.heads})} layers"),
    ]
    if known:
        share = 100 * sum(known) / len(known)
        cards.append(Fact("saturated rows", f"{share:.3g} %", f"a weight above {SATURATED}"))
    if health.logits is not None:
        cards.append(Fact("largest output", f"{health.logits.largest:.4g}", health.logits.dtype))
    return facts("Health", cards)


def _names(health: Health) -> list[str]:
    return [one.name for one in health.symptoms]


def _symptom(one: Symptom) -> Html:
    rows = [[word, getattr(one, word)] for word in ("measured", "expected", "why", "remedy")]
    body = joined(paragraph(", ".join(one.where)), html_table(Table(one.name, ["", ""], rows)))
    return folded(f"{one.name}: {places(one.where)}", body, open=True)


def _layers(health: Health) -> Html:
    names = list(dict.fromkeys(one.module for one in health.heads))
    layers = [[one for one in health.heads if one.module == name] for name in names]
    rows = [
        [name or "the model", len(layer), *(mean(layer, one) for one in COLUMNS.values())]
        for name, layer in zip(names, layers, strict=True)
    ]
    return html_table(Table("Attention by layer, means over heads", ["layer", "heads", *COLUMNS], rows))


def _heads(health: Health) -> Html:
    columns = [*COLUMNS.values(), "largest", "variation", "heard", "stuck", "twin"]
    rows = [[one.place, *(getattr(one, name) for name in columns)] for one in health.heads]
    return folded(f"{len(rows)} heads", html_table(Table("Every head", ["head", *columns], rows)))


def _depth(health: Health) -> Html:
    sizes = Series("activation", [(place, one.activation) for place, one in enumerate(health.depth)], dots=True)
    norms = [(place, one.gradient) for place, one in enumerate(health.depth) if one.gradient is not None]
    charts = [line_chart("Activations by depth", [sizes], x="block", log=True)]
    charts += [line_chart("Gradient by depth", [Series("gradient", norms, dots=True)], x="block", log=True)] * bool(
        norms
    )
    rows = [[one.module, one.activation, one.gradient, "yes" if one.finite else "no"] for one in health.depth]
    listed = html_table(
        Table("Blocks, in the order in which they run", ["block", "activation", "gradient", "finite"], rows)
    )
    return joined(*charts, folded(f"{len(rows)} blocks", listed))


def _definitions() -> Html:
    rows = [[name, said] for name, said in (MEASURES | DEPTH_MEASURES).items()]
    return folded(str(escaped("What the measures are")), html_table(Table("Measures", ["measure", "what it is"], rows)))
