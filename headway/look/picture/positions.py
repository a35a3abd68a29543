"""An embedding of positions as a picture."""

from pathlib import Path
from typing import Any

from headway.look.pattern.figures import Curves, Heat, Plots
from headway.look.picture.style import INK, SOFT, WIDTH, figure, framed, map_of, require, saved

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
        framed(axes)
    for axes in panels[len(made.parts) :]:
        axes.set_visible(False)
    return saved(drawn, path)


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
