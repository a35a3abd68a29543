"""Patterns as squares, dark where a query may attend to a key, and position embeddings as heat maps and curves.

On a grid, what one patch may see stands below its pattern.
"""

from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import Bool

from headway.look.pattern.figures import Curves, Heat, Plots
from headway.look.picture.style import (
    ALLOWED,
    INK,
    NOT_ALLOWED,
    SOFT,
    WIDTH,
    figure,
    map_of,
    require,
    save_figure,
    style_axes,
)
from headway.look.record import Layer, Look, Side, matrix

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


TONES = ("#1c5fd4", "#d4660a", "#14804f", "#b02a86", "#0b8299", "#8f6a00", "#7a4fd0", "#c0392f")


def positions_picture(made: Plots, path: Path) -> Path:
    """One panel for each part, two in a row."""
    require(path)
    rows = -(-len(made.parts) // 2)
    drawn = figure(WIDTH, 2.6 * rows)
    panels = drawn.subplots(rows, min(2, len(made.parts)), squeeze=False).ravel()
    for axes, part in zip(panels, made.parts, strict=False):
        _heat(axes, part) if isinstance(part, Heat) else _curves(axes, part)
        axes.set_title(part.title, fontsize=8, color=INK, loc="left", wrap=True)
        axes.tick_params(labelsize=6.5)
        style_axes(axes)
    for axes in panels[len(made.parts) :]:
        axes.set_visible(False)
    return save_figure(drawn, path)


def _heat(axes: Any, part: Heat) -> None:
    low = -part.largest if part.both else 0.0
    colours = map_of("diverging" if part.both else "sequential")
    rows, columns = part.values.shape
    start = part.first - 0.5
    how = {"aspect": "auto", "interpolation": "nearest", "extent": (start, start + columns, start + rows, start)}
    shown = axes.imshow(part.values, cmap=colours, vmin=low, vmax=part.largest, **how)
    if part.names:
        marks = sorted({0, rows // 2, rows - 1})
        axes.set_yticks(marks, [part.names[mark] for mark in marks])
    axes.set_xlabel(part.across, fontsize=7, color=SOFT)
    axes.set_ylabel(part.down, fontsize=7, color=SOFT)
    if len(part.values) == 1:  # one row has no number
        axes.set_yticks([])
    bar = axes.figure.colorbar(shown, ax=axes, fraction=0.045, pad=0.02)
    bar.ax.set_ylim(*part.ends)
    bar.ax.tick_params(labelsize=6, length=2, width=0.4, labelcolor=SOFT)
    bar.outline.set(linewidth=0.4, edgecolor=SOFT)


def _curves(axes: Any, part: Curves) -> None:
    for place, (name, x, y) in enumerate(part.series):
        how = {"drawstyle": "steps-mid"} if part.steps else {}
        axes.plot(x, y, color=TONES[place % len(TONES)], linewidth=1.1, label=name, **how)
    axes.set_xlabel(part.across, fontsize=7, color=SOFT)
    axes.grid(alpha=0.25, linewidth=0.4)
    axes.spines[["top", "right"]].set_visible(False)
    if len(part.series) > 1:
        axes.legend(fontsize=5.5, frameon=False, ncols=2)
