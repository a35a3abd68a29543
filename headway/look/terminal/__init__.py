"""A record drawn with letters: small maps side by side, a pattern in squares, one head with its tokens. No torch."""

from collections.abc import Sequence

import numpy as np
from jaxtyping import Float

from headway.look.picture.matrix import matrix, named, only
from headway.look.record import Layer, Look
from headway.look.terminal.cells import blocks, fitted, pooled, shades
from headway.look.terminal.table import heads_table
from headway.render import legible

__all__ = ["draw", "heads_table"]

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
    if (alone := only(look)) is not None:
        return _head(look, *alone, width, colour)
    return "\n".join(line for layer in look.layers for line in _layer(layer, width, colour))


def _layer(layer: Layer, width: int, colour: bool) -> list[str]:
    """The heads of a layer side by side, in as many lines as they need."""
    lines_of_maps = -(-len(layer.heads) // max(1, (width + 2) // (NARROWEST + 2)))
    room = -(-len(layer.heads) // lines_of_maps)
    size = min(WIDEST, (width + 2) // room - 2)
    each = [_small(layer, place, size, colour) for place in range(len(layer.heads))]
    lines = [named(layer)]
    for start in range(0, len(each), room):
        lines += ["  ".join(row).rstrip() for row in zip(*each[start : start + room], strict=True)]
    return [*lines, ""]


def _small(layer: Layer, place: int, size: int, colour: bool) -> list[str]:
    """A map, and the head's number and role below it, all of one width."""
    _, rows, columns = layer.maps.shape
    high, wide = _cells(rows, columns, size)
    values = pooled(layer.maps[place] / 255, high * (2 if colour else 1), wide)
    lines = [line + " " * (size - wide) for line in (blocks(values) if colour else shades(values))]
    return [*lines, fitted(f"{layer.heads[place]} {layer.measures[place].role}", size)]


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
        return [head, *shades(pooled(layer.maps[0] / 255, min(size // 2, layer.maps.shape[1]), size))]
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
    title = f"{named(layer)}, head {layer.heads[place]}: {layer.measures[place].role}"
    room = width - TOKEN - across - 2
    lines = [
        f"{_token(token)} {_shaded(row, across, colour)} {fitted(_most(row, keys), room)}".rstrip()
        for token, row in zip(asking, values, strict=True)
    ]
    return "\n".join([title, *lines])


def _shaded(row: Float[np.ndarray, " M"], across: int, colour: bool) -> str:
    drawn = pooled(row[None], 2 if colour else 1, across)
    return (blocks if colour else shades)(drawn)[0]


def _token(token: str) -> str:
    return fitted(legible(token, longest=TOKEN), TOKEN, right=True)


def _most(row: Float[np.ndarray, " M"], keys: Sequence[str]) -> str:
    """
    >>> _most(np.array([0.25, 0.75]), ["to", "be"])
    'be 75 %, to 25 %'
    """
    best = [int(place) for place in np.argsort(-row, kind="stable")[:MOST] if row[place] >= 0.005]
    return ", ".join(f"{legible(keys[place], longest=TOKEN)} {100 * row[place]:.0f} %" for place in best)
