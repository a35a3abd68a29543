"""What ran, in order, and which operation a node of autograd belongs to."""

from bisect import bisect_right
from dataclasses import dataclass

import torch
from torch._C._autograd import _get_sequence_nr

from headway.cost.trace.products import Work

_SUMS = 2**63  # nodes that add up a parameter's gradient are numbered from here


@dataclass
class Event:
    """One operation that ran: where, what it did, what it moved, and what its gradient did."""

    path: str
    name: str
    work: Work
    reads: int = 0
    writes: int = 0
    parameters: tuple[str, ...] = ()
    differentiable: bool = False
    back: int = 0
    executed_back: int = 0
    again: bool = False  # computed once more during the backward pass (checkpointing)


class Events:
    """All events. Autograd numbers its nodes as it makes them, each just before its operation is dispatched."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self.numbers: list[int] = []
        self.owners: list[Event] = []

    def add(self, event: Event) -> Event:
        self.all.append(event)
        number = _get_sequence_nr() - 1
        if not self.numbers or number > self.numbers[-1]:
            self.numbers.append(number)
            self.owners.append(event)
        return event

    def differentiated(self) -> Event:
        """The operation whose gradient is being computed; an event of its own where none is known."""
        node = torch._C._current_autograd_node()
        number = _SUMS if node is None else node._sequence_nr()
        found = bisect_right(self.numbers, number) - 1
        if number < _SUMS and found >= 0:
            return self.owners[found]
        self.all.append(Event("", "gradient", Work("product")))
        return self.all[-1]
