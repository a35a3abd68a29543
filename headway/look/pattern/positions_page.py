"""An embedding of positions as a page, and as letters of a terminal."""

import numpy as np
from jaxtyping import Float, UInt8

from headway.look.pattern.positions import Curves, Embedding, Heat
from headway.look.picture.colours import diverging, sequential
from headway.look.terminal.cells import pooled, shades
from headway.page import Html, Section, Series, escaped, line_chart, number, page
from headway.page.png import data_address, png

LINES = 8  # curves of one chart

STYLE = """
.heat{margin:0}
.heat .frame{display:grid;grid-template:auto auto/1.4rem minmax(0,1fr);gap:.2rem .4rem;max-width:32rem}
.heat .frame img{width:100%;height:auto}
.heat img{image-rendering:pixelated;border:1px solid var(--line);display:block;min-width:0}
.heat .down{writing-mode:vertical-rl;transform:rotate(180deg);text-align:center}
.heat .across{grid-column:2;text-align:center}
.heat .down,.heat .across,.heat .scale{font-size:.8rem;color:var(--soft)}
.heat .scale{display:flex;gap:.6rem;align-items:center;margin:.7rem 0 0 1.8rem;max-width:18rem;white-space:nowrap}
.heat .scale img{height:.7rem;flex:1}
"""


def document(made: Embedding) -> str:
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
    scale = np.linspace(-1 if part.both else 0, 1, 128)[None] * part.largest
    return Html(
        f'<figure class="heat"><div class="frame"><span class="down">{escaped(part.down)} →</span>'
        f'<img src="{_picture(part, part.values)}" style="aspect-ratio:{shape:.3f}" alt="{escaped(spoken)}">'
        f'<span class="across">{escaped(part.across)} →</span></div><div class="scale">'
        f'<span>{escaped(number(-part.largest if part.both else 0))}</span>'
        f'<img src="{_picture(part, scale)}" alt=""><span>{escaped(number(part.largest))}</span>'
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


def text(made: Embedding, *, width: int = 80) -> str:
    """The same in letters: how far from 0 each number is, and the curves as rows of numbers."""
    lines = [made.title, made.subtitle]
    for part in made.parts:
        lines += ["", part.title, *(_shaded(part, width) if isinstance(part, Heat) else _numbers(part, width))]
    return "\n".join(lines)


def _shaded(part: Heat, width: int) -> list[str]:
    rows, columns = part.values.shape
    across = min(width, 2 * columns)
    drawn = pooled(np.abs(part.values) / part.largest, min(rows, max(2, across // 2), 32), across)
    return [f"{part.down} ↓  {part.across} →  dark: far from 0", *shades(drawn)]


def _numbers(part: Curves, width: int) -> list[str]:
    """A few points of each curve."""
    count = max(2, min(9, width // 8 - 2))
    x = part.series[0][1]
    chosen = np.unique(np.linspace(0, len(x) - 1, count).round().astype(int))
    wide = max(len(part.across), *(len(name) for name, _, _ in part.series))
    lines = [part.across.ljust(wide) + "".join(f"{x[place]:8.4g}" for place in chosen)]
    return lines + [name.ljust(wide) + "".join(f"{y[place]:8.3g}" for place in chosen) for name, _, y in part.series]
