"""A token of a row for the eye: its text without what cannot be seen, its marks; what is alike is left out."""

import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from headway.page.text import visible

# A mark -> the sign that stands for it where there is no colour, and what it means.
MARKS = {
    "changed": ("^", "changed"),
    "padding": ("p", "padding"),
    "hidden": ("h", "hidden by a mask"),
    "segment": ("s", "first of a segment"),
    "broken": ("!", "result deviates"),
}
BLANKS = str.maketrans({" ": "␣", "\n": "↵", "\t": "⇥"})
LONGEST = 32  # characters of a token that are shown
UNSEEN = ("Cf", "Zl", "Zp", "Cn", "Co")  # categories of Unicode: no picture, or one that turns the line around


@dataclass(frozen=True)
class Token:
    """One box: its text, its marks (keys of MARKS), and how far its result deviates; None: nothing is compared."""

    text: str
    marks: tuple[str, ...] = ()
    deviation: float | None = None
    place: int = 0
    more: int = 0  # a box that stands for so many alike, left out


def shortened(tokens: Sequence[Token], *, keep: int) -> list[Token]:
    """The row without the middle of long stretches that are marked alike: one token tells how many are left out.

    >>> [one.text for one in shortened([Token(letter) for letter in "abcdefg"], keep=2)]
    ['a', 'b', '… 3 more', 'f', 'g']
    """
    found: list[Token] = []
    for marks, group in groupby(tokens, key=lambda one: one.marks):
        alike = list(group)
        left_out = alike[keep:-keep] if keep else alike
        if len(left_out) < 3:  # a note would take as much room
            found += alike
            continue
        worst = max((one.deviation for one in left_out if one.deviation is not None), key=_badness, default=None)
        gap = Token(f"… {len(left_out):,} more", marks, worst, left_out[0].place, len(left_out))
        found += [*alike[:keep], gap, *(alike[-keep:] if keep else [])]
    return found


def _badness(deviation: float) -> float:
    return float("inf") if deviation != deviation else deviation


def signs(marks: Iterable[str]) -> str:
    """
    >>> signs(("changed", "broken"))
    '^!'
    """
    found = set(marks)
    return "".join(sign for mark, (sign, _) in MARKS.items() if mark in found)


def legible(text: str, *, longest: int = LONGEST) -> str:
    """A token for the eye: blanks and line breaks as signs, what is invisible or turns the line around by its number.

    >>> legible(" a\\n\\u202e"), legible(""), legible("abcdef", longest=4)
    ('␣a↵\\\\u202e', '∅', 'abc…')
    """
    shown = seen(text).translate(BLANKS) or "∅"
    # A mark of vowels or tones needs a letter to stand on, lest it stands on the neighbour's.
    shown = f"◌{shown}" if unicodedata.combining(shown[0]) else shown
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


def seen(text: str) -> str:
    """The text without anything invisible: beyond `visible`, what has no picture stands by its number.

    >>> seen("a\\u202eb c")
    'a\\\\u202eb c'
    """
    return "".join(f"\\u{ord(one):04x}" if unicodedata.category(one) in UNSEEN else one for one in visible(text))
