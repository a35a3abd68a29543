"""Heads of a model as pictures: one large with its tokens, several with tokens at their edges, or all of them small."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np

from headway.look.packed import Weights
from headway.look.picture.style import INK, LINE, SOFT, WIDTH, figure, map_of, style_axes, token_label, tokens
from headway.look.record import Layer, Look, Side, layer_name, matrix

MARKS = (0.0, 0.01, 0.1, 0.3, 0.6, 1.0)  # on the scale, whose colours go by the root: small weights are seen too
ROOM = 0.11  # inches between two marks
WORDS = 64  # tokens that an axis has room for
LEFT, TOP, GAP = 0.22, 0.2, 0.06  # inches beside, above and between the maps
LARGEST = 1.3  # inches of a map
READABLE = 0.55  # inches of a map below which little is written at it
ROLE = 0.13  # inches for the role below a map
SCALE = 0.6  # inches for the scale
CELL = 0.078  # inches of a token below which its name is too small to read
TALLEST = 9.5  # inches of a picture: a page
TITLE = 0.17  # inches above each map of several with tokens


@dataclass(frozen=True)
class Mosaic:
    """A picture, its one frame, and its size in inches from the upper left; `right` is kept free for a scale."""

    made: Any
    axes: Any
    width: float
    height: float
    right: float

    @classmethod
    def of(cls, width: float, height: float, *, right: float = 0.0) -> "Mosaic":
        made = figure(width + right, height, laid_out=False)
        axes = made.add_axes((0, 0, width / (width + right), 1))
        axes.axis("off")
        return cls(made, axes, width, height, right)

    def put(self, values: Any, box: tuple[float, float, float, float], *, framed: bool = True, **how: Any) -> None:
        """A map at (left, down, width, height)."""
        from matplotlib.patches import Rectangle

        left, down, width, height = box
        extent = (left, left + width, down + height, down)
        self.axes.imshow(values, interpolation="nearest", extent=extent, **how)
        if framed:
            self.axes.add_patch(Rectangle((left, down), width, height, fill=False, edgecolor=LINE, linewidth=0.5))
        # Each map has moved the edges.
        self.axes.set(xlim=(0, self.width), ylim=(self.height, 0), aspect="auto")

    def row(self, name: str, down: float, height: float) -> None:
        """The name of a row of maps, as large as its height allows."""
        size = min(6.5, 110 * height / max(len(name), 1))
        where = {"rotation": 90, "ha": "right", "va": "center"}
        self.axes.text(LEFT - 0.06, down + height / 2, name, fontsize=size, color=INK, **where)

    def say(self, text: str, middle: float, down: float, *, size: float, above: bool) -> None:
        """A word above or below a map."""
        where = {"ha": "center", "va": "bottom" if above else "top"}
        self.axes.text(middle, down, text, fontsize=size, color=SOFT, parse_math=False, **where)

    def names(self, texts: Sequence[str], box: tuple[float, float, float, float], *, beside: bool, size: float) -> None:
        """The tokens of a map at (left, down, width, height): beside its rows, or below its columns."""
        left, down, width, height = box
        for number, text in enumerate(texts):
            along = (number + 0.5) / len(texts)
            x, y = (left - 0.03, down + along * height) if beside else (left + along * width, down + height + 0.03)
            where = (
                {"ha": "right", "va": "center_baseline"} if beside else {"ha": "center", "va": "top", "rotation": 90}
            )
            self.axes.text(x, y, text, fontsize=size, color=INK, parse_math=False, **where)


def left_of(number: int, side: float) -> float:
    """Where the map of a column begins."""
    return LEFT + number * (side + GAP)


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
    style_axes(axes)
    axes.set_ylabel("attends", fontsize=7.5, color=SOFT)
    axes.set_xlabel("is attended to", fontsize=7.5, color=SOFT)
    role = token_label(layer.measures[place].role, longest=40).replace("␣", " ")
    title = f"{layer_name(layer)}, head {layer.heads[place]}: {role}"
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
    names = [token_label(side.tokens[shown[mark]]) if side.grid else f"{shown[mark]:,}" for mark in marks]
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


@dataclass(frozen=True)
class Labels:
    """How several heads with tokens are laid out: inches of a token and its letters, maps in a row, edges for names."""

    cell: float
    size: float
    columns: int
    left: float
    below: float

    @classmethod
    def fitting(cls, look: Look) -> "Labels | None":
        """As many maps in a row as leave tokens legible; None where no page has room for that."""
        keys = max(len(look.sides[layer.keys].tokens) for layer in look.layers)
        heads = max(len(layer.heads) for layer in look.layers)
        longest = max(len(token_label(token)) for layer in look.layers for token in _tokens(look, layer))
        for columns in range(heads, 0, -1):
            size = min(6.5, 0.8 * 72 * max(CELL, 1.0 / keys))
            edge = 0.62 * longest * size / 72 + 0.06
            cell = min(max(0.13, 1.0 / keys), ((WIDTH - SCALE - LEFT - edge) / columns - GAP) / keys)
            if cell >= CELL:
                even = -(-heads // -(-heads // columns))
                found = cls(cell, min(6.5, 0.8 * 72 * cell), even, LEFT + edge, edge)
                return found if found.height(look) <= TALLEST else None
        return None

    def lines(self, layer: Layer) -> list[list[int]]:
        """The places of a layer's heads, so many in a row."""
        every = list(range(len(layer.heads)))
        return [every[start : start + self.columns] for start in range(0, len(every), self.columns)]

    def height(self, look: Look) -> float:
        rows = sum(len(self.lines(layer)) * (TITLE + self.cell * layer.rows[1] + GAP) for layer in look.layers)
        return rows + self.below * len(look.layers)


def _tokens(look: Look, layer: Layer) -> tuple[str, ...]:
    """Those that name the rows and the columns of a layer's maps."""
    first, count = layer.rows
    return (*look.sides[layer.queries].tokens[first : first + count], *look.sides[layer.keys].tokens)


def with_tokens(look: Look, labels: Labels) -> Any:
    """Several heads on one scale: tokens that attend beside each row of maps, those attended to below each layer."""
    from matplotlib.colors import PowerNorm

    weights = [[matrix(layer, place) for place in range(len(layer.heads))] for layer in look.layers]
    top = max(float(values.max()) for maps in weights for values in maps) or 1.0
    width = labels.cell * max(len(look.sides[layer.keys].tokens) for layer in look.layers) + GAP
    drawn = Mosaic.of(labels.left + labels.columns * width, labels.height(look), right=SCALE)
    down = 0.0
    for layer, maps in zip(look.layers, weights, strict=True):
        rows, keys = maps[0].shape
        texts = [token_label(token) for token in _tokens(look, layer)]
        lines = labels.lines(layer)
        for number, line in enumerate(lines):
            down += TITLE
            drawn.row(layer_name(layer), down, labels.cell * rows)
            for column, place in enumerate(line):
                box = (labels.left + column * width, down, labels.cell * keys, labels.cell * rows)
                drawn.put(maps[place], box, cmap=map_of("sequential"), norm=PowerNorm(0.5, 0, top))
                drawn.say(_title(layer, place, box[2]), box[0] + box[2] / 2, down - 0.03, size=5.5, above=True)
                if column == 0:
                    drawn.names(texts[:rows], box, beside=True, size=labels.size)
                if number == len(lines) - 1 or column >= len(lines[number + 1]):
                    drawn.names(texts[rows:], box, beside=False, size=labels.size)
            down += labels.cell * rows + GAP
        down += labels.below
    _scale(drawn, top, whole=True)
    return drawn.made


def _title(layer: Layer, place: int, inches: float) -> str:
    """The number of a head and its role, as long as the map is wide."""
    role = token_label(layer.measures[place].role, longest=18).replace("␣", " ")
    text = f"head {layer.heads[place]}: {role}"
    return text if 0.55 * 5.5 * len(text) / 72 <= inches + GAP else f"{layer.heads[place]} {role}"


def overview(look: Look) -> Any:
    """Every map from 0 to the largest weight of all; of long texts from the small maps, each with its own largest."""
    columns = max(len(layer.heads) for layer in look.layers)
    side = min(LARGEST, (WIDTH - LEFT - SCALE) / columns - GAP)
    whole = all(isinstance(layer.data, Weights) for layer in look.layers)
    top = _top(look) if whole else 1.0
    heights = [side * min(2.0, max(0.4, layer.maps.shape[1] / layer.maps.shape[2])) for layer in look.layers]
    step = GAP + (ROLE if side >= READABLE else 0.0)
    drawn = Mosaic.of(LEFT + columns * (side + GAP), TOP + sum(heights) + step * len(heights), right=SCALE)
    down = TOP
    for layer, high in zip(look.layers, heights, strict=True):
        _row_of_maps(drawn, layer, (down, side, high), whole=whole, top=top)
        down += high + step
    _head_numbers(drawn, max(look.layers, key=lambda layer: len(layer.heads)), side)
    _scale(drawn, top, whole=whole)
    return drawn.made


def _scale(drawn: Mosaic, top: float, *, whole: bool) -> None:
    total, high = drawn.width + SCALE, min(0.5, 2.5 / drawn.height)
    axes = drawn.made.add_axes((drawn.width / total, 0.5 - high / 2, 0.1 / total, high))
    bar(drawn.made, drawn.axes.images[0], top, whole=whole, cax=axes)


def _top(look: Look) -> float:
    return max(float(layer.data.values.max()) for layer in look.layers if isinstance(layer.data, Weights)) or 1.0


def _row_of_maps(drawn: Mosaic, layer: Layer, place: tuple[float, float, float], *, whole: bool, top: float) -> None:
    from matplotlib.colors import PowerNorm

    down, side, high = place
    drawn.row(layer_name(layer), down, high)
    for number in range(len(layer.heads)):
        left = left_of(number, side)
        values = matrix(layer, number) if whole else layer.maps[number] / 255
        drawn.put(values, (left, down, side, high), cmap=map_of("sequential"), norm=PowerNorm(0.5, 0, top))
        if side >= READABLE:
            role = token_label(layer.measures[number].role, longest=18).replace("␣", " ")
            drawn.say(role, left + side / 2, down + high + 0.03, size=5.5, above=False)


def _head_numbers(drawn: Mosaic, layer: Layer, side: float) -> None:
    for number, head in enumerate(layer.heads):
        text = f"head {head}" if side >= READABLE else str(head)
        drawn.say(text, left_of(number, side) + side / 2, TOP - 0.04, size=6.5, above=True)
