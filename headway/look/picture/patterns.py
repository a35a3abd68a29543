"""Patterns as squares: dark where a query may attend to a key. On a grid, what one patch may see stands beside it."""

from typing import Any

import numpy as np
from jaxtyping import Bool

from headway.look.picture.colours import ALLOWED, NOT_ALLOWED
from headway.look.picture.matrix import matrix
from headway.look.picture.style import INK, SOFT, figure
from headway.look.record import Layer, Look, Side

COLUMNS = 3
SHARP = 96  # keys up to which squares have gaps between them
PANEL = 2.2  # inches


def patterns(look: Look) -> Any:
    """Three patterns in a row, each with its name above and its share of all pairs below."""
    columns = min(COLUMNS, len(look.layers))
    rows = -(-len(look.layers) // columns)
    grids = [_grid(look, layer) for layer in look.layers]
    double = any(side is not None for side in grids)
    any_extra = any(side is not None and side.extra for side in grids)
    heights = (PANEL + 0.35, 0.62 * PANEL + 0.1) if double else (PANEL + 0.35,)
    made = figure(PANEL * columns, sum(heights) * rows)
    axes = made.subplots(rows * len(heights), columns, squeeze=False, height_ratios=heights * rows)
    for one in axes.ravel():
        one.axis("off")
    for place, (layer, grid) in enumerate(zip(look.layers, grids, strict=True)):
        row, column = divmod(place, columns)
        _matrix(axes[row * len(heights), column], look, layer)
        if grid is not None:
            _neighbourhood(axes[2 * row + 1, column], layer, grid, top=-2.6 if any_extra else -0.6)
    return made


def _grid(look: Look, layer: Layer) -> Side | None:
    side = look.sides[layer.queries]
    return side if side.grid is not None and layer.queries == layer.keys else None


def _matrix(axes: Any, look: Look, layer: Layer) -> None:
    allowed = matrix(layer, 0) > 0
    _squares(axes, allowed, gaps=max(allowed.shape) <= SHARP)
    axes.axis("on")
    axes.set_title(layer.label, fontsize=9, color=INK, pad=4)
    axes.set_xlabel(layer.measures[0].role, fontsize=7, color=SOFT, labelpad=2)
    for axis, side in ((axes.xaxis, look.sides[layer.keys]), (axes.yaxis, look.sides[layer.queries])):
        ends = sorted({side.extra, len(side.tokens) - 1})
        axis.set_ticks(ends, [side.tokens[end] for end in ends])
    axes.tick_params(labelsize=6, length=0, labelcolor=SOFT, pad=1)
    for side in axes.spines.values():
        side.set_visible(False)


def _neighbourhood(axes: Any, layer: Layer, side: Side, *, top: float) -> None:
    """What the patch in the middle may see, as squares of the grid; tokens outside it stand above."""
    assert side.grid is not None
    rows, columns = side.grid
    query = side.extra + rows // 2 * columns + columns // 2
    seen = matrix(layer, 0)[query] > 0
    _squares(axes, seen[side.extra :].reshape(rows, columns), gaps=True)
    for place in range(side.extra):
        _square(axes, place, -2, allowed=bool(seen[place]))
    _outline(axes, columns // 2, rows // 2)
    axes.set_ylim(rows - 0.4, top)
    axes.text(
        0.5, -0.02, "seen by one patch", transform=axes.transAxes, ha="center", va="top", fontsize=6.5, color=SOFT
    )


def _squares(axes: Any, allowed: Bool[np.ndarray, "y x"], *, gaps: bool) -> None:
    from matplotlib.colors import ListedColormap

    rows, columns = allowed.shape
    axes.pcolormesh(
        np.arange(columns + 1) - 0.5, np.arange(rows + 1) - 0.5, allowed, vmin=0, vmax=1,
        cmap=ListedColormap([NOT_ALLOWED, ALLOWED]), edgecolors="white" if gaps else "face",
        linewidth=min(1.0, 16 / max(rows, columns)) if gaps else 0.0,
    )  # fmt: skip
    axes.set(aspect="equal", xlim=(-0.6, columns - 0.4), ylim=(rows - 0.4, -0.6))


def _square(axes: Any, x: int, y: int, *, allowed: bool) -> None:
    from matplotlib.patches import Rectangle

    colour = ALLOWED if allowed else NOT_ALLOWED
    axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, facecolor=colour, edgecolor="white"))


def _outline(axes: Any, x: int, y: int) -> None:
    from matplotlib.patches import Rectangle

    axes.add_patch(Rectangle((x - 0.5, y - 0.5), 1, 1, fill=False, edgecolor="#d4660a", linewidth=1.8, zorder=3))
