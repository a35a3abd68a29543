"""Many small maps in one frame that is measured in inches.

144 frames of their own would take matplotlib ten seconds to lay out.
"""

from dataclasses import dataclass
from typing import Any

from headway.look.picture.style import INK, LINE, SOFT, figure

LEFT, TOP, GAP = 0.22, 0.2, 0.06  # inches beside, above and between the maps
LARGEST = 1.3  # inches of a map
ROOM = 0.55  # inches of a map below which little is written at it


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


def left_of(number: int, side: float) -> float:
    """Where the map of a column begins."""
    return LEFT + number * (side + GAP)
