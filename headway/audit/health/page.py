"""A diagnosis as a section of a page: symptoms first, then the layers, every head, and the depth."""

from headway.audit.health.record import DEPTH_MEASURES, MEASURES, SATURATED, Health, Symptom
from headway.audit.health.show import COLUMNS, mean, places
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
    paragraph,
)

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
