"""Numbers from 0 to 1 as letters of a terminal, and texts cut to a width."""

import unicodedata

import numpy as np
from jaxtyping import Float

from headway.look.picture.colours import sequential

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


def pooled(values: Float[np.ndarray, "y x"], rows: int, columns: int) -> Float[np.ndarray, "{rows} {columns}"]:
    """The same in another number of cells: the mean over rows, the largest over columns, so that thin lines stay.

    >>> pooled(np.array([[0.0, 1.0, 0.0, 0.0]]), 1, 2).tolist()
    [[1.0, 0.0]]
    """
    across = np.stack([values[:, part].max(1) for part in _parts(values.shape[1], columns)], axis=1)
    return np.stack([across[part].mean(0) for part in _parts(values.shape[0], rows)])


def _parts(size: int, cells: int) -> list[slice]:
    """Which of `size` entries each cell stands for: several where there are fewer cells, one again where more."""
    return [slice(one * size // cells, max((one + 1) * size // cells, one * size // cells + 1)) for one in range(cells)]


def fitted(text: str, width: int, *, right: bool = False) -> str:
    """A text in exactly so many columns, cut with an ellipsis or filled with blanks.

    >>> fitted("previous", 5), fitted("日本語", 5), fitted("a", 3, right=True)
    ('prev…', '日本…', '  a')
    """
    if _wide(text) > width:
        while text and _wide(text) > width - 1:
            text = text[:-1]
        text = f"{text}…"
    gap = " " * (width - _wide(text))
    return gap + text if right else text + gap


def _wide(text: str) -> int:
    """How many columns a terminal gives to a text."""
    return sum(0 if unicodedata.combining(one) else 1 + (unicodedata.east_asian_width(one) in "WF") for one in text)
