"""One head of a model large, with its tokens."""

from typing import Any

import numpy as np

from headway.look.picture.matrix import matrix, named
from headway.look.picture.style import INK, SOFT, WIDTH, figure, framed, map_of, tokens, written
from headway.look.record import Layer, Look

MARKS = (0.0, 0.01, 0.1, 0.3, 0.6, 1.0)  # on the scale, whose colours go by the root: small weights are seen too
WORDS = 64  # tokens that an axis has room for


def one(look: Look, layer: Layer, place: int) -> Any:
    """One head with its tokens: queries down, keys across."""
    from matplotlib.colors import PowerNorm

    values = matrix(layer, place)
    height, width = _inches(values.shape)
    made = figure(width + 1.3, height + 1.0)
    axes = made.subplots()
    top = float(values.max()) or 1.0
    axes.imshow(values, cmap=map_of("sequential"), norm=PowerNorm(0.5, 0, top), aspect="auto", interpolation="nearest")
    first, count = layer.rows
    _axis(axes, look.sides[layer.queries].tokens[first : first + count], "y", height, first)
    _axis(axes, look.sides[layer.keys].tokens, "x", width, 0)
    framed(axes)
    axes.set_ylabel("attends", fontsize=7.5, color=SOFT)
    axes.set_xlabel("is attended to", fontsize=7.5, color=SOFT)
    role = written(layer.measures[place].role, longest=40).replace("␣", " ")
    title = f"{named(layer)}, head {layer.heads[place]}: {role}"
    axes.set_title(title, fontsize=8.5, color=INK, loc="left", pad=6, parse_math=False)
    bar(made, axes.images[0], top, whole=True, ax=axes, fraction=0.02, pad=0.01, aspect=30, shrink=0.6)
    return made


def _inches(shape: tuple[int, ...]) -> tuple[float, float]:
    """Square cells of a readable size, up to a page's width."""
    cell = min(0.24, (WIDTH - 1.3) / max(shape[1], 1), 7.5 / max(shape[0], 1))
    return max(cell * shape[0], 0.6), max(cell * shape[1], 0.6)


def _axis(axes: Any, texts: tuple[str, ...], which: str, inches: float, first: int) -> None:
    if len(texts) <= WORDS:
        tokens(axes, texts, which=which, size=min(8.0, 0.8 * 72 * inches / len(texts)))
        return
    marks = np.unique(np.linspace(0, len(texts) - 1, 6).astype(int))
    (axes.set_xticks if which == "x" else axes.set_yticks)(marks, [f"{first + mark:,}" for mark in marks], fontsize=7)


def bar(made: Any, shown: Any, top: float, *, whole: bool, **where: Any) -> None:
    """The scale that all share; where each map has its own, only its ends are told."""
    drawn = made.colorbar(shown, **where)
    marks = [mark for mark in MARKS if mark < 0.8 * top] + [top]
    texts = [f"{100 * mark:.3g} %" for mark in marks]
    drawn.set_ticks(marks if whole else [0.0, 1.0], labels=texts if whole else ["0", "its\nlargest"])
    drawn.ax.tick_params(labelsize=5.5, length=2, width=0.4, labelcolor=SOFT)
    drawn.outline.set(linewidth=0.4, edgecolor=SOFT)
