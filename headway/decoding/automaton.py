"""Which bytes may come next in a text that has to match a pattern.

A pattern is built of parts (`text`, `chars`, `sequence`, `choice`, `repeat`). A part is a function that adds its states
to an automaton, in front of the state that follows it, and returns the state that it begins with. `BytePattern` reads
bytes: the sets of states that can be reached (Thompson, 1968) become states of their own when they are first seen.

>>> digits = BytePattern(sequence(repeat(chars((48, 57)), 1, 2), text("!")))
>>> digits.accepts(digits.after(digits.start, b"4!")), digits.after(digits.start, b"!")
(True, None)
"""

from collections.abc import Callable, Iterable, Iterator

MOST_STATES = 200_000  # of a pattern such as (a{1000}){1000}, which nobody means
SURROGATES = (0xD800, 0xDFFF)  # code points that UTF-8 does not have
LAST = 0x10FFFF


class Automaton:
    """States with edges of bytes and edges of nothing; a state is its number."""

    def __init__(self) -> None:
        self.bytes: list[list[tuple[int, int, int]]] = []  # of each state: first byte, last byte, state after it
        self.empty: list[list[int]] = []  # of each state: states that are reached without a byte

    def state(self, *empty: int) -> int:
        """A new state, from which others are reached without a byte."""
        if len(self.bytes) == MOST_STATES:
            raise ValueError(f"the pattern has more than {MOST_STATES:,} states: repeat less in it")
        self.bytes.append([])
        self.empty.append(list(empty))
        return len(self.bytes) - 1


Part = Callable[[Automaton, int], int]


def text(value: str) -> Part:
    """These very characters."""

    def build(automaton: Automaton, after: int) -> int:
        for byte in reversed(value.encode()):
            state = automaton.state()
            automaton.bytes[state].append((byte, byte, after))
            after = state
        return after

    return build


def chars(*ranges: tuple[int, int]) -> Part:
    """One character of these ranges of code points, in UTF-8."""
    found = [one for first, last in ranges for one in _utf8(first, last)]
    if not found:
        raise ValueError("a class of characters that holds none matches nothing")

    def build(automaton: Automaton, after: int) -> int:
        start = automaton.state()
        shared: dict[tuple[int, int, int], int] = {}  # ranges that end alike share their last states
        for steps in found:
            follows = after
            for first, last in reversed(steps[1:]):
                edge = (first, last, follows)
                if edge not in shared:
                    shared[edge] = automaton.state()
                    automaton.bytes[shared[edge]].append(edge)
                follows = shared[edge]
            automaton.bytes[start].append((*steps[0], follows))
        return start

    return build


def sequence(*parts: Part) -> Part:
    """One after the other."""

    def build(automaton: Automaton, after: int) -> int:
        for part in reversed(parts):
            after = part(automaton, after)
        return after

    return build


def choice(*parts: Part) -> Part:
    """One of them."""
    return lambda automaton, after: automaton.state(*(part(automaton, after) for part in parts))


def repeat(part: Part, least: int = 0, most: int | None = None) -> Part:
    """At least, and at most, so many times; None: any number."""

    def build(automaton: Automaton, after: int) -> int:
        if most is None:
            loop = automaton.state(after)
            automaton.empty[loop].append(part(automaton, loop))
            start = loop
        else:
            start = after
            for _ in range(most - least):
                start = automaton.state(after, part(automaton, start))
        for _ in range(least):
            start = part(automaton, start)
        return start

    return build


def _utf8(first: int, last: int) -> Iterator[list[tuple[int, int]]]:
    """A range of code points as ranges of bytes, one list of them for each shape.

    >>> list(_utf8(0x7F, 0x80))
    [[(127, 127)], [(194, 194), (128, 128)]]
    """
    if first > last:
        return
    for edge in (0x7F, 0x7FF, SURROGATES[0] - 1, SURROGATES[1], 0xFFFF):
        if first <= edge < last:
            yield from _utf8(first, edge)
            yield from _utf8(edge + 1, last)
            return
    if SURROGATES[0] <= first <= SURROGATES[1]:
        return
    for bits in (6, 12, 18)[: len(chr(first).encode()) - 1]:
        low = (1 << bits) - 1
        if first & ~low == last & ~low:
            break
        if first & low:
            yield from _utf8(first, first | low)
            yield from _utf8((first | low) + 1, last)
            return
        if last & low != low:
            yield from _utf8(first, (last & ~low) - 1)
            yield from _utf8(last & ~low, last)
            return
    yield list(zip(chr(first).encode(), chr(last).encode(), strict=True))


class BytePattern:
    """An automaton that reads bytes; a state is a number, None where no text goes on like this."""

    def __init__(self, part: Part) -> None:
        self._automaton = Automaton()
        self._last = self._automaton.state()
        self._sets: list[frozenset[int]] = []
        self._numbers: dict[frozenset[int], int] = {}
        self._tables: list[list[int | None] | None] = []
        first = self._number([part(self._automaton, self._last)])
        assert first is not None
        self.start: int = first

    def accepts(self, state: int) -> bool:
        """Whether a text may end here."""
        return self._last in self._sets[state]

    def complete(self, state: int) -> bool:
        """Whether it must."""
        return self.accepts(state) and not any(self._automaton.bytes[one] for one in self._sets[state])

    def after(self, state: int | None, found: Iterable[int]) -> int | None:
        """The state after these bytes."""
        for byte in found:
            if state is None:
                return None
            state = self.table(state)[byte]
        return state

    def table(self, state: int) -> list[int | None]:
        """The state after each of the 256 bytes."""
        found = self._tables[state]
        if found is None:
            reached: list[set[int]] = [set() for _ in range(256)]
            for one in self._sets[state]:
                for first, last, after in self._automaton.bytes[one]:
                    for byte in range(first, last + 1):
                        reached[byte].add(after)
            found = self._tables[state] = [self._number(after) for after in reached]
        return found

    def _number(self, states: Iterable[int]) -> int | None:
        """Of a set of states, with all that are reached from them without a byte; None of an empty one."""
        left, found = list(states), set(states)
        if not found:
            return None
        while left:
            for one in self._automaton.empty[left.pop()]:
                if one not in found:
                    found.add(one)
                    left.append(one)
        key = frozenset(found)
        if key not in self._numbers:
            self._numbers[key] = len(self._sets)
            self._sets.append(key)
            self._tables.append(None)
        return self._numbers[key]
