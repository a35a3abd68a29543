"""A record drawn with letters: small maps side by side, patterns in squares, one head with tokens, a table of heads.

No torch.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import accumulate
from typing import Any

import numpy as np
from jaxtyping import Float

from headway.look.picture.style import sequential
from headway.look.record import Layer, Look, layer_name, matrix, only_head
from headway.render import legible, visible

WIDEST, NARROWEST = 24, 11  # letters of a small map
TOKEN = 14  # letters of a token
MOST = 3  # keys that are named beside a row
TALL = 64  # lines of a pattern
DARK, LIGHT = "■", "·"


def draw(look: Look, *, width: int = 80, colour: bool = False) -> str:
    """Everything of a record within so many letters a line; colours only where they are asked for."""
    width = max(width, 24)
    if all(layer.kind == "pattern" for layer in look.layers):
        return _shelved([_pattern(look, layer, width) for layer in look.layers], width)
    if (alone := only_head(look)) is not None:
        return _head(look, *alone, width, colour)
    return "\n".join(line for layer in look.layers for line in _layer(layer, width, colour))


def _layer(layer: Layer, width: int, colour: bool) -> list[str]:
    """The heads of a layer side by side, in as many lines as they need."""
    lines_of_maps = -(-len(layer.heads) // max(1, (width + 2) // (NARROWEST + 2)))
    room = -(-len(layer.heads) // lines_of_maps)
    size = min(WIDEST, (width + 2) // room - 2)
    each = [_small(layer, place, size, colour) for place in range(len(layer.heads))]
    lines = [layer_name(layer)]
    for start in range(0, len(each), room):
        lines += ["  ".join(row).rstrip() for row in zip(*each[start : start + room], strict=True)]
    return [*lines, ""]


def _small(layer: Layer, place: int, size: int, colour: bool) -> list[str]:
    """A map, and the head's number and role below it, all of one width."""
    _, rows, columns = layer.maps.shape
    high, wide = _cells(rows, columns, size)
    values = pool_cells(layer.maps[place] / 255, high * (2 if colour else 1), wide)
    lines = [line + " " * (size - wide) for line in (blocks(values) if colour else shades(values))]
    return [*lines, fit_text(f"{layer.heads[place]} {layer.measures[place].role}", size)]


def _cells(rows: int, columns: int, size: int) -> tuple[int, int]:
    """Lines and letters of a map: a letter is half as wide as it is high, and few cells are squares of some letters.

    >>> _cells(3, 3, 12), _cells(48, 48, 18)
    ((6, 12), (9, 18))
    """
    times = size // (2 * columns)
    if times:
        return min(times * rows, size), 2 * times * columns
    return max(2, min(WIDEST, round(size / 2 * rows / columns))), size


def _pattern(look: Look, layer: Layer, width: int) -> list[str]:
    """Two letters for each pair of query and key, or a small map of a long one."""
    head = f"{layer.label} ({layer.measures[0].role})"
    if 2 * len(look.sides[layer.keys].tokens) > width or len(look.sides[layer.queries].tokens) > TALL:
        size = min(width, 2 * layer.maps.shape[2])
        return [head, *shades(pool_cells(layer.maps[0] / 255, min(size // 2, layer.maps.shape[1]), size))]
    return [head, *(" ".join(DARK if one else LIGHT for one in row) for row in matrix(layer, 0) > 0)]


def _shelved(parts: Sequence[list[str]], width: int) -> str:
    """Patterns side by side as far as they fit."""
    shelves: list[list[list[str]]] = []
    for part in parts:
        if shelves and sum(_wide(one) + 4 for one in shelves[-1]) + _wide(part) <= width:
            shelves[-1].append(part)
        else:
            shelves.append([part])
    return "\n\n".join(_beside(shelf) for shelf in shelves)


def _wide(lines: Sequence[str]) -> int:
    return max(map(len, lines))


def _beside(parts: Sequence[Sequence[str]]) -> str:
    height = max(map(len, parts))
    filled = [[line.ljust(_wide(part)) for line in [*part, *[""] * (height - len(part))]] for part in parts]
    return "\n".join("    ".join(row).rstrip() for row in zip(*filled, strict=True))


def _head(look: Look, layer: Layer, place: int, width: int, colour: bool) -> str:
    """A row for each token that asks: its weights as shades, and the keys that it attends to the most."""
    values, keys = matrix(layer, place), look.sides[layer.keys].tokens
    first, count = layer.rows
    asking = look.sides[layer.queries].tokens[first : first + count]
    across = min(2 * len(keys), (width - TOKEN - 3) * 3 // 5)
    title = f"{layer_name(layer)}, head {layer.heads[place]}: {layer.measures[place].role}"
    room = width - TOKEN - across - 2
    lines = [
        f"{_token(token)} {_shaded(row, across, colour)} {fit_text(_most(row, keys), room)}".rstrip()
        for token, row in zip(asking, values, strict=True)
    ]
    return "\n".join([title, *lines])


def _shaded(row: Float[np.ndarray, " M"], across: int, colour: bool) -> str:
    drawn = pool_cells(row[None], 2 if colour else 1, across)
    return (blocks if colour else shades)(drawn)[0]


def _token(token: str) -> str:
    return fit_text(legible(token, longest=TOKEN), TOKEN, right=True)


def _most(row: Float[np.ndarray, " M"], keys: Sequence[str]) -> str:
    """
    >>> _most(np.array([0.25, 0.75]), ["to", "be"])
    'be 75 %, to 25 %'
    """
    best = [int(place) for place in np.argsort(-row, kind="stable")[:MOST] if row[place] >= 0.005]
    return ", ".join(f"{legible(keys[place], longest=TOKEN)} {100 * row[place]:.0f} %" for place in best)


SHADES = " ░▒▓█"
LEVELS = (0.02, 0.1, 0.3, 0.6)  # from which on a letter is darker: small weights are seen too


def shades(values: Float[np.ndarray, "y x"]) -> list[str]:
    """A letter for each number, without colour.

    >>> shades(np.array([[0.0, 0.05, 0.2, 0.5, 1.0]]))
    [' ░▒▓█']
    """
    return ["".join(SHADES[level] for level in row) for row in np.digitize(values, LEVELS)]


def blocks(values: Float[np.ndarray, "y x"]) -> list[str]:
    """Two rows of numbers in one line of letters: the upper half in one colour, the lower in another."""
    colours = sequential(np.sqrt(values))
    return [_line(colours[row], colours[min(row + 1, len(colours) - 1)]) for row in range(0, len(colours), 2)]


def _line(upper: np.ndarray, lower: np.ndarray) -> str:
    cells = (f"\x1b[38;2;{a[0]};{a[1]};{a[2]};48;2;{b[0]};{b[1]};{b[2]}m▀" for a, b in zip(upper, lower, strict=True))
    return "".join(cells) + "\x1b[0m"


def pool_cells(values: Float[np.ndarray, "y x"], rows: int, columns: int) -> Float[np.ndarray, "{rows} {columns}"]:
    """The same in another number of cells: the mean over rows, the largest over columns, so that thin lines stay.

    >>> pool_cells(np.array([[0.0, 1.0, 0.0, 0.0]]), 1, 2).tolist()
    [[1.0, 0.0]]
    """
    across = np.stack([values[:, part].max(1) for part in _parts(values.shape[1], columns)], axis=1)
    return np.stack([across[part].mean(0) for part in _parts(values.shape[0], rows)])


def _parts(size: int, cells: int) -> list[slice]:
    """Which of `size` entries each cell stands for: several where there are fewer cells, one again where more."""
    return [slice(one * size // cells, max((one + 1) * size // cells, one * size // cells + 1)) for one in range(cells)]


def fit_text(text: str, width: int, *, right: bool = False) -> str:
    """A text in exactly so many columns, cut with an ellipsis or filled with blanks.

    >>> fit_text("previous", 5), fit_text("日本語", 5), fit_text("a", 3, right=True)
    ('prev…', '日本…', '  a')
    """
    if _columns(text) > width:
        while text and _columns(text) > width - 1:
            text = text[:-1]
        text = f"{text}…"
    gap = " " * (width - _columns(text))
    return gap + text if right else text + gap


def _columns(text: str) -> int:
    """How many columns a terminal gives to a text."""
    return sum(0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in text)


SHARES = ("share", "chance")
LEAST = 3  # columns that always stand: layer, head, role


def heads_table(rows: Sequence[Any], *, width: int | None = None) -> str:
    """Rows of measures (mappings or dataclasses) under the names of their fields; numbers to the right.

    Where not all fit into so many letters, the last columns are left out, and it is said which.

    Layers go by their kind and label where a row has them, as they do in pictures and pages.

    >>> print(heads_table([{"layer": 7, "head": 0, "role": "previous", "share": 0.75, "reach": None}]))
    layer  head  role       share  reach
        7     0  previous  75.0 %      –
    """
    cells = [_fields(row) for row in rows]
    if not cells:
        return "There are no heads."
    columns = [_column(name, [row[name] for row in cells]) for name in cells[0]]
    kept = len(columns) if width is None else max(LEAST, _fitting(columns, width))
    missing = list(cells[0])[kept:]
    lines = ["  ".join(line).rstrip() for line in zip(*columns[:kept], strict=True)]
    return "\n".join([*lines, *([f"no room for {', '.join(missing)}"] if missing else [])])


def _fitting(columns: Sequence[list[str]], width: int) -> int:
    """How many of the first columns fit, two blanks between them."""
    ends = accumulate(len(column[0]) + 2 for column in columns)
    return sum(end - 2 <= width for end in ends)


def _fields(row: Any) -> dict[str, Any]:
    found = dict(row) if isinstance(row, Mapping) else asdict(row)
    if "label" in found and "kind" in found:
        found["layer"] = f"{found.pop('kind')} {found.pop('label')}"
    return found


def _column(name: str, values: Sequence[Any]) -> list[str]:
    """A column's name and cells, as wide as the widest."""
    texts = [_text(value, percent=name in SHARES) for value in values]
    wide = max(map(len, (name, *texts)))
    numbers = all(value is None or isinstance(value, int | float) for value in values)
    return [text.rjust(wide) if numbers else text.ljust(wide) for text in (name, *texts)]


def _text(value: Any, *, percent: bool) -> str:
    if value is None:
        return "–"
    if percent:
        return f"{100 * value:.1f} %"
    return f"{value:.3f}" if isinstance(value, float) else " ".join(visible(str(value)).split())
