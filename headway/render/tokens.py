"""A row of tokens as boxes: what was changed, what is padding, and whose result deviates by how much."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import isfinite, log10

from headway.render.html import Html, escaped
from headway.render.text import legible

# A mark -> the sign that stands for it where there is no colour, and what it means.
MARKS = {
    "changed": ("^", "changed"),
    "padding": ("p", "padding"),
    "hidden": ("h", "hidden by a mask"),
    "segment": ("s", "first of a segment"),
    "broken": ("!", "result deviates"),
}
TITLE = 200  # characters of a token under the pointer
DECADES = 6  # a deviation so many powers of ten below the largest is as pale as it gets


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


def strip(title: str, tokens: Sequence[Token], *, keep: int = 8) -> Html:
    """Boxes in a row that wraps, with their places below; the deviation is the colour's strength and under the pointer.

    The row runs from left to right whatever is written in the boxes, so that two rows can be compared.

    >>> strip("a row", [Token("to"), Token("be", ("changed",), place=1)]).count("<li")
    2
    """
    measured = [one.deviation for one in tokens if one.deviation is not None and isfinite(one.deviation)]
    boxes = "\n".join(_box(one, max(measured, default=0.0)) for one in shortened(tokens, keep=keep))
    caption = f'<figcaption dir="auto">{escaped(title)}</figcaption>'
    return Html(f'<figure class="strip">{caption}<ol dir="ltr">\n{boxes}</ol></figure>')


def keys(tokens: Iterable[Token]) -> Html:
    """The legend of the marks that these tokens have."""
    found = {mark for one in tokens for mark in one.marks}
    items = "".join(
        f'<li><b class="box {mark}" style="--heat:40%">{escaped(sign)}</b>{escaped(meaning)}</li>'
        for mark, (sign, meaning) in MARKS.items()
        if mark in found
    )
    return Html(f'<ul class="keys" aria-label="Marks">{items}</ul>' if items else "")


def _box(one: Token, largest: float) -> str:
    marks = " ".join(mark for mark in MARKS if mark in one.marks)
    text = escaped(one.text if one.more else legible(one.text))
    place = f"{one.place}–{one.place + one.more - 1}" if one.more else str(one.place)
    sign = f" <b>{escaped(signs(one.marks))}</b>" if one.marks else ""
    heat = f' style="--heat:{_heat(one.deviation, largest):.0f}%"' if "broken" in one.marks else ""
    return (
        f'<li class="box{" gap" if one.more else ""}{f" {marks}" if marks else ""}"{heat} title="{_title(one, place)}">'
        f'<span dir="auto">{text}</span><small>{place}{sign}</small></li>'
    )


def _title(one: Token, place: str) -> Html:
    """Everything about a token in words, for the tooltip and for screen readers."""
    words = [MARKS[mark][1] for mark in MARKS if mark in one.marks]
    if one.deviation is not None:
        words.append(f"deviation {one.deviation:.1e}")
    text = one.text if one.more else legible(one.text, longest=TITLE)
    return escaped(f"{place}: {text}" + (f" ({', '.join(words)})" if words else ""))


def _heat(deviation: float | None, largest: float) -> float:
    """Percent of colour: a logarithm, since deviations differ by powers of ten; NaN and inf count as the largest.

    >>> _heat(0.1, 0.1), _heat(1e-4, 0.1), _heat(float("nan"), 0.1)
    (60.0, 37.5, 60.0)
    """
    if deviation is None or not deviation:
        return 15.0
    if not isfinite(deviation) or not largest:
        return 60.0
    return 60.0 - 45.0 * min(max(log10(largest / abs(deviation)), 0.0) / DECADES, 1.0)
