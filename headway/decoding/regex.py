r"""Regular expressions, in Python's own syntax, as patterns that a whole text has to match.

>>> year = regex(r"(19|20)\d{2}")
>>> year.accepts(year.after(year.start, b"1999")), year.after(year.start, b"18")
(True, None)
>>> regex(r"(a)\1")
Traceback (most recent call last):
ValueError: the regular expression '(a)\\1' has a groupref, which no automaton can follow
"""

import re
from collections.abc import Callable
from functools import lru_cache
from re import _constants as names  # pyright: ignore[reportAttributeAccessIssue]
from re import _parser as parser  # pyright: ignore[reportAttributeAccessIssue]
from typing import Any

from headway.decoding.automaton import LAST, BytePattern, Part, chars, choice, repeat, sequence

# The parser is Python's own, which has no public name: a second one would read expressions differently.

Ranges = list[tuple[int, int]]
LINE = (10, 10)
ANCHORS = (names.AT_BEGINNING, names.AT_BEGINNING_STRING, names.AT_END, names.AT_END_STRING)
KNOWN_FLAGS = re.UNICODE | re.ASCII | re.DOTALL | re.VERBOSE


@lru_cache(maxsize=64)
def regex(expression: str) -> BytePattern:
    """The pattern of an expression; lookaround, references and flags that change letters are refused."""
    return BytePattern(regex_part(expression))


def regex_part(expression: str, without: Ranges | None = None) -> Part:
    """The same as a part of a larger pattern; characters that are `without` match nothing."""
    try:
        parsed = parser.parse(expression)
    except (re.error, RecursionError, OverflowError) as error:
        raise ValueError(f"{expression!r} is no regular expression: {error}") from None
    flags = parsed.state.flags
    if flags & ~KNOWN_FLAGS:
        raise ValueError(f"the regular expression {expression!r} has flags other than (?a), (?s) and (?x)")
    return _Reader(expression, flags, without or []).part(parsed)


class _Reader:
    def __init__(self, expression: str, flags: int, without: Ranges) -> None:
        self._expression, self._flags, self._without = expression, flags, without

    def part(self, parsed: Any) -> Part:
        return sequence(*(self._one(kind, value) for kind, value in parsed))

    def _one(self, kind: Any, value: Any) -> Part:
        if kind in (names.LITERAL, names.NOT_LITERAL, names.ANY, names.IN):
            found = self._ranges(kind, value)
            return chars(*(_inverted([*_inverted(found), *self._without]) if self._without else found))
        if kind is names.BRANCH:
            return choice(*map(self.part, value[1]))
        if kind is names.SUBPATTERN and not value[1] and not value[2]:
            return self.part(value[3])
        if kind in (names.MAX_REPEAT, names.MIN_REPEAT):
            least, most, inner = value
            return repeat(self.part(inner), least, None if most is names.MAXREPEAT else most)
        # The whole text has to match, so that anchors at its ends say nothing new.
        if kind is names.AT and value in ANCHORS:
            return sequence()
        said = str(value if kind is names.AT else kind).lower()
        raise ValueError(f"the regular expression {self._expression!r} has a {said}, which no automaton can follow")

    def _ranges(self, kind: Any, value: Any) -> Ranges:
        if kind is names.LITERAL:
            return [(value, value)]
        if kind is names.NOT_LITERAL:
            return _inverted([(value, value)])
        if kind is names.ANY:
            return [(0, LAST)] if self._flags & re.DOTALL else _inverted([LINE])
        found = [one for inner, it in value if inner is not names.NEGATE for one in self._class(inner, it)]
        return _inverted(found) if value[0][0] is names.NEGATE else found

    def _class(self, kind: Any, value: Any) -> Ranges:
        if kind is names.RANGE:
            return [value]
        if kind is names.CATEGORY:
            name = str(value).removeprefix("CATEGORY_")
            found = _category(name.removeprefix("NOT_"), ascii_only=bool(self._flags & re.ASCII))
            return _inverted(found) if name.startswith("NOT_") else found
        return self._ranges(kind, value)


KINDS: dict[str, Callable[[str], bool]] = {
    "DIGIT": str.isdecimal, "SPACE": str.isspace, "WORD": lambda one: one.isalnum() or one == "_",
}  # fmt: skip


@lru_cache(maxsize=8)
def _category(name: str, *, ascii_only: bool) -> Ranges:
    r"""The characters of \d, \s or \w.

    >>> _category("DIGIT", ascii_only=True)
    [(48, 57)]
    """
    belongs, found = KINDS[name], []
    for code in range(128 if ascii_only else LAST + 1):
        if belongs(chr(code)):
            if found and found[-1][1] == code - 1:
                found[-1] = (found[-1][0], code)
            else:
                found.append((code, code))
    return found


def _inverted(ranges: Ranges) -> Ranges:
    """
    >>> _inverted([(5, 9), (0, 1)])
    [(2, 4), (10, 1114111)]
    """
    found, following = [], 0
    for first, last in sorted(ranges):
        if first > following:
            found.append((following, first - 1))
        following = max(following, last + 1)
    return [*found, (following, LAST)] if following <= LAST else found
