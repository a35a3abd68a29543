"""An embedding of positions as a page, and as letters of a terminal."""

import numpy as np
from jaxtyping import Float, UInt8

from headway.look.pattern.figures import Curves, Heat, Plots
from headway.look.picture.style import diverging, sequential
from headway.look.terminal import pool_cells, shades
from headway.render import Html, Section, Series, escaped, line_chart, number, page
from headway.render.png import data_address, png

LINES = 8  # curves of one chart
MOST = 9  # points of a curve in letters

STYLE = """
.heat{margin:0}
.heat .frame{display:grid;grid-template:auto auto/1.4rem minmax(0,1fr);gap:.2rem .4rem;max-width:32rem}
.heat .frame img{width:100%;height:auto}
.heat img{image-rendering:pixelated;border:1px solid var(--line);display:block;min-width:0}
.heat .down{writing-mode:vertical-rl;text-align:center}
.heat .across{grid-column:2;text-align:center}
.heat .down,.heat .across,.heat .scale{font-size:.8rem;color:var(--soft)}
.heat .scale{display:flex;gap:.6rem;align-items:center;margin:.7rem 0 0 1.8rem;max-width:18rem;white-space:nowrap}
.heat .scale img{height:.7rem;flex:1}
"""


def document(made: Plots) -> str:
    """The whole page; every part is drawn and needs no script."""
    sections = [Section(part.title, _part(part), f"part-{place}", style=STYLE) for place, part in enumerate(made.parts)]
    return page(made.title, sections, made.subtitle)


def _part(part: Heat | Curves) -> Html:
    if isinstance(part, Heat):
        return _heat(part)
    series = [Series(name, _points(x, y, steps=part.steps)) for name, x, y in part.series[:LINES]]
    # The section has the title already; a curve alone goes by its own name.
    return line_chart(series[0].name if len(series) == 1 else "One line each", series, x=part.across)


def _points(x: Float[np.ndarray, " n"], y: Float[np.ndarray, " n"], *, steps: bool) -> list[tuple[float, float]]:
    """Where nothing lies between whole numbers, a line is flat around each."""
    if not steps:
        return list(zip(x.tolist(), y.tolist(), strict=True))
    return [(place + side, value) for place, value in zip(x.tolist(), y.tolist(), strict=True) for side in (-0.5, 0.49)]


def _heat(part: Heat) -> Html:
    rows, columns = part.values.shape
    shape = min(max(columns / rows, 0.8), 2.5)
    spoken = f"{part.title}: {rows} x {columns} numbers from {number(_low(part))} to {number(_high(part))}"
    low, high = part.ends
    return Html(
        f'<figure class="heat"><div class="frame"><span class="down">{escaped(part.down)} →</span>'
        f'<img src="{_picture(part, part.values)}" style="aspect-ratio:{shape:.3f}" alt="{escaped(spoken)}">'
        f'<span class="across">{escaped(part.across)} →</span></div><div class="scale">'
        f'<span>{escaped(number(low))}</span>'
        f'<img src="{_picture(part, np.linspace(low, high, 128)[None])}" alt=""><span>{escaped(number(high))}</span>'
        "</div></figure>"
    )  # fmt: skip


def _low(part: Heat) -> float:
    return float(part.values.min())


def _high(part: Heat) -> float:
    return float(part.values.max())


def coloured(part: Heat, values: Float[np.ndarray, "y x"]) -> UInt8[np.ndarray, "y x 3"]:
    """Both sides of 0 in two colours, or one side in one."""
    return (diverging if part.both else sequential)(values / part.largest)


def _picture(part: Heat, values: Float[np.ndarray, "y x"]) -> str:
    pixels = coloured(part, values)
    return data_address(png(pixels.tobytes(), width=pixels.shape[1], height=pixels.shape[0], channels=3))


def text(made: Plots, *, width: int = 80) -> str:
    """The same in letters: how far from 0 each number is, and the curves as rows of numbers."""
    lines = [made.title, made.subtitle]
    for part in made.parts:
        lines += ["", part.title, *(_shaded(part, width) if isinstance(part, Heat) else _numbers(part, width))]
    return "\n".join(lines)


def _shaded(part: Heat, width: int) -> list[str]:
    rows, columns = part.values.shape
    across = min(width, 2 * columns)
    drawn = pool_cells(np.abs(part.values) / part.largest, min(rows, max(2, across // 2), 32), across)
    return [f"{part.down} ↓  {part.across} →  dark: far from 0", *shades(drawn)]


def _numbers(part: Curves, width: int) -> list[str]:
    """As many points of each curve as fit."""
    tables = (_aligned(part, count) for count in range(MOST, 2, -1))
    return next((lines for lines in tables if len(lines[0]) <= width), _aligned(part, 2))


def _aligned(part: Curves, count: int) -> list[str]:
    """So many points of each curve, one column each."""
    x = part.series[0][1]
    chosen = np.unique(np.linspace(0, len(x) - 1, count).round().astype(int))
    names = [part.across, *(name for name, _, _ in part.series)]
    columns = [[f"{x[place]:.4g}", *(f"{y[place]:.3g}" for _, _, y in part.series)] for place in chosen]
    wide = [max(map(len, column)) for column in columns]
    cells = [[text.rjust(size) for text in column] for column, size in zip(columns, wide, strict=True)]
    first = max(map(len, names))
    return ["  ".join([name.ljust(first), *row]) for name, *row in zip(names, *cells, strict=True)]
