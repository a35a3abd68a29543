"""Rules as a job: what was asked for on a command line becomes a record, and the record a page, a picture or text."""

from pathlib import Path
from typing import Any

from headway.data.files import write_whole
from headway.look.pattern import PatternOptions, look_of, rules_of_mask, rules_of_mechanism, rules_of_set
from headway.look.pattern.figures import Plots, position_plots
from headway.look.pattern.rule import PatternRule
from headway.look.record import Look

TITLES = {"textbook": "Six patterns of attention", "davit": "The two attentions of DaViT"}
SETS = {"mechanism": rules_of_mechanism, "mask": rules_of_mask, "patterns": rules_of_set}


def rules(kind: str, name: str, asked: PatternOptions) -> list[PatternRule]:
    """The rules of a mechanism, a mask or a set of patterns."""
    return SETS[kind](name, asked)


def title(kind: str, name: str) -> str:
    """
    >>> title("mechanism", "local"), title("mask", "all")
    ('Local attention', 'Every mask')
    """
    if kind == "patterns":
        return TITLES[name]
    if name == "all":
        return f"Every {kind}"
    plain = name.replace("-", " ").replace("_", " ")
    return f"{plain[0].upper()}{plain[1:]} {'attention' if kind == 'mechanism' else 'mask'}"


def look(kind: str, name: str, found: list[PatternRule]) -> Look:
    return look_of(title(kind, name), found)


def described(found: list[PatternRule]) -> list[dict[str, Any]]:
    """Each rule as JSON: its formula, its price, and the pattern as a row of 0 and 1 for each query."""
    return [
        {
            "name": rule.label,
            "mechanism": rule.mechanism,
            "rule": rule.formula,
            "allowed": int(rule.allowed.sum()),
            "pairs": rule.allowed.size,
            "executed": rule.executed,
            "dense": rule.dense,
            "pattern": ["".join("1" if one else "0" for one in row) for row in rule.allowed],
        }
        for rule in found
    ]


def write_page(made: Look, path: Path) -> Path:
    from headway.look.page import document

    return write_whole(path, document(made))


def write_picture(made: Look, path: Path) -> Path:
    from headway.look.picture import draw_picture

    return draw_picture(made, path)


def drawn(made: Look, *, width: int, colour: bool) -> str:
    """The patterns in letters, and what each costs."""
    from headway.look.terminal import draw

    return "\n".join([draw(made, width=width, colour=colour), "", *made.notes])


def positions(kind: str, given: dict[str, Any]) -> Plots:
    return position_plots(kind, **given)


def softmax(scores: tuple[float, ...]) -> Plots:
    from headway.look.pattern.figures import softmax_plots

    return softmax_plots(scores)


def described_positions(made: Plots) -> dict[str, Any]:
    """The numbers of an embedding as JSON."""
    from headway.look.pattern.figures import Heat

    parts = [
        {"title": part.title, "values": part.values.tolist()}
        if isinstance(part, Heat)
        else {"title": part.title, "series": {name: [x.tolist(), y.tolist()] for name, x, y in part.series}}
        for part in made.parts
    ]
    return {"title": made.title, "subtitle": made.subtitle, "parts": parts}


def write_positions_page(made: Plots, path: Path) -> Path:
    from headway.look.pattern.figures_page import document

    return write_whole(path, document(made))


def write_positions_picture(made: Plots, path: Path) -> Path:
    from headway.look.picture.patterns import positions_picture

    return positions_picture(made, path)


def drawn_positions(made: Plots, *, width: int) -> str:
    from headway.look.pattern.figures_page import text

    return text(made, width=width)
