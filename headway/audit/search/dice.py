"""Chance that takes turns: what has to be seen in a few trials is not left to luck."""

from collections.abc import Sequence
from random import Random
from typing import TypeVar

from headway.adapt.adapter import Adapter
from headway.adapt.inputs import fit_length

One = TypeVar("One")


class Dice(Random):
    """Draws from a seed, and knows the number of its trial."""

    def __init__(self, seed: str, trial: int) -> None:
        super().__init__(seed)
        self.trial = trial

    def turn(self, options: Sequence[One], *, every: int = 1) -> One:
        """The options one after the other, trial by trial (or the next one only `every` so many trials).

        >>> [Dice("", trial).turn("abc") for trial in range(4)]
        ['a', 'b', 'c', 'a']
        """
        return options[self.trial // every % len(options)]

    def length(self, adapter: Adapter, *, least: int, most: int) -> int:
        """A length between two, as the model takes it."""
        return fit_length(adapter, self.randint(least, most))
