"""One head of a model large, with its tokens."""

from math import sqrt
from typing import Any

import numpy as np

from headway.look.picture.matrix import matrix, named
from headway.look.picture.style import INK, SOFT, WIDTH, figure, framed, map_of, tokens, written
from headway.look.record import Layer, Look, Side

MARKS = (0.0, 0.01, 0.1, 0.3, 0.6, 1.0)  # on the scale, whose colours go by the root: small weights are seen too
ROOM = 0.11  # inches between two marks
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
    _axis(axes, look.sides[layer.queries], "y", height, range(first, first + count))
    _axis(axes, look.sides[layer.keys], "x", width, range(values.shape[1]))
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


def _axis(axes: Any, side: Side, which: str, inches: float, shown: range) -> None:
    """All tokens, or some numbers where there are too many; patches go by row and column."""
    if len(shown) <= WORDS:
        size = min(8.0, 0.8 * 72 * inches / len(shown))
        tokens(axes, side.tokens[shown.start : shown.stop], which=which, size=size)
        return
    marks = np.unique(np.linspace(0, len(shown) - 1, 6).astype(int)).tolist()
    names = [written(side.tokens[shown[mark]]) if side.grid else f"{shown[mark]:,}" for mark in marks]
    (axes.set_xticks if which == "x" else axes.set_yticks)(marks, names, fontsize=7)


def bar(made: Any, shown: Any, top: float, *, whole: bool, **where: Any) -> None:
    """The scale that all share; where each map has its own, only its ends are told."""
    drawn = made.colorbar(shown, **where)
    if made.get_layout_engine() is not None:
        made.draw_without_rendering()  # only then is it known how high the scale is
    marks = marks_of(top, inches=drawn.ax.get_position().height * made.get_figheight())
    texts = [f"{100 * mark:.3g} %" for mark in marks]
    drawn.set_ticks(marks if whole else [0.0, 1.0], labels=texts if whole else ["0", "its\nlargest"])
    drawn.ax.tick_params(labelsize=5.5, length=2, width=0.4, labelcolor=SOFT)
    drawn.outline.set(linewidth=0.4, edgecolor=SOFT)


def marks_of(top: float, *, inches: float) -> list[float]:
    """Where a scale of this height is marked: at its ends, and between them as far as the words have room.

    >>> marks_of(1.0, inches=3.0), marks_of(1.0, inches=0.4)
    ([0.0, 0.01, 0.1, 0.3, 0.6, 1.0], [0.0, 0.1, 1.0])
    """
    kept = [0.0]
    for mark in MARKS[1:]:
        below, above = (inches * abs(sqrt(mark / top) - sqrt(other / top)) for other in (kept[-1], top))
        if mark < top and min(below, above) >= ROOM:
            kept.append(mark)
    return [*kept, top]
