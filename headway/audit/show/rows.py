"""Rows of tokens in a terminal: places above, marks beneath, wrapped where the line ends."""

import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from rich.cells import cell_len, set_cell_size

from headway.render import Token, legible
from headway.render.tokens import MARKS, shortened, signs

GAP = "  "
LONGEST = 24  # columns of one token
KEEP = 6  # tokens at each end of a stretch that is marked alike
# An invisible letter that is read from left to right: after Hebrew or Arabic, it keeps the tokens in their order.
LEFT_TO_RIGHT = "\u200e"


def row(tokens: Sequence[Token], *, width: int) -> Iterator[str]:
    """Lines of places, tokens and marks; the last where there are marks.

    >>> for line in row([Token("to"), Token("be", ("changed",), place=1)], width=80):
    ...     print(line)
    0   1
    to  be
        ^
    """
    columns = [_column(one) for one in shortened(tokens, keep=KEEP)]
    for piece in _wrapped(columns, width):
        for line in zip(*piece, strict=True):
            if text := _joined(line):
                yield text


def legend(tokens: Iterable[Token]) -> str:
    """
    >>> legend([Token("a", ("broken",)), Token("b", ("changed",))])
    '^ changed   ! result deviates'
    """
    found = {mark for one in tokens for mark in one.marks}
    return "   ".join(f"{sign} {meaning}" for mark, (sign, meaning) in MARKS.items() if mark in found)


def _column(one: Token) -> tuple[str, str, str]:
    """A place, a token and its marks, all as wide as the widest of them."""
    text = one.text if one.more else legible(one.text, longest=LONGEST)
    cells = (str(one.place), text, signs(one.marks))
    wide = min(max(map(cell_len, cells)), LONGEST)
    place, token, marks = (set_cell_size(cell, wide) for cell in cells)
    turned = any(unicodedata.bidirectional(letter) in ("R", "AL") for letter in token)
    return place, f"{token}{LEFT_TO_RIGHT}" if turned else token, marks


def _wrapped(columns: Sequence[tuple[str, str, str]], width: int) -> Iterator[list[tuple[str, str, str]]]:
    piece: list[tuple[str, str, str]] = []
    used = 0
    for column in columns:
        wide = cell_len(column[0]) + len(GAP)
        if piece and used + wide - len(GAP) > width:
            yield piece
            piece, used = [], 0
        piece.append(column)
        used += wide
    if piece:
        yield piece


def _joined(cells: Iterable[str]) -> str:
    return GAP.join(cells).rstrip(f" {LEFT_TO_RIGHT}")
