"""What is known of each piece of memory while a module runs: its bytes, its depth, what its numbers are.

Views share a storage, so they share what is known of it, and what is written in place is seen by all of them. An
entry disappears with its storage.
"""

import weakref
from dataclasses import dataclass, field
from functools import lru_cache
from operator import add
from typing import Any

from torch import Tensor, UntypedStorage

from headway.cost.trace.regions import Depth, Depths, deepest
from headway.steps import COUNTINGS, Step, depth_of


@dataclass(frozen=True)
class Axis:
    """An axis of a storage that a softmax was taken over: its size, its stride, and what it runs over."""

    size: int
    stride: int
    over: str


@dataclass
class Entry:
    """parameter: its name. lasting: a parameter's or a buffer's. weighted: the axis of a softmax. summed: what the last
    product ran over."""

    reference: Any
    size: int = 0
    depths: Depths = field(default_factory=Depths)
    parameter: str | None = None
    lasting: bool = False
    weighted: Axis | None = None
    summed: str | None = None


class Storages:
    """Entries by storage, and the bytes of those that were made while looking."""

    def __init__(self) -> None:
        self.entries: dict[int, Entry] = {}
        self.live = self.peak = 0

    def of(self, tensor: Tensor) -> Entry:
        """What is known of a tensor's storage; of one not met before, nothing: it was there already."""
        storage = tensor.untyped_storage()
        found = self.entries.get(storage._cdata)
        return self._add(storage, 0) if found is None else found

    def depth(self, tensor: Tensor) -> Depth | None:
        """How deep a tensor is; None where it depends on parameters and constants alone."""
        return self.of(tensor).depths.read(tensor)

    def made(self, tensor: Tensor) -> bool:
        """A result: whether its storage is new. Its bytes then count as long as it is alive."""
        storage = tensor.untyped_storage()
        if storage._cdata in self.entries:
            return False
        self._add(storage, storage.nbytes())
        return True

    def is_new(self, tensor: Tensor) -> bool:
        """Whether a tensor's storage was never met."""
        return tensor.untyped_storage()._cdata not in self.entries

    def _add(self, storage: UntypedStorage, size: int) -> Entry:
        key = storage._cdata
        entry = self.entries[key] = Entry(weakref.ref(storage, lambda _: self._gone(key)), size)
        self.live += size
        self.peak = max(self.peak, self.live)
        return entry

    def _gone(self, key: int) -> None:
        self.live -= self.entries.pop(key).size


def deeper(depths: list[Depth | None], steps: tuple[Step, ...]) -> Depth | None:
    """After these steps on results of these depths; what depends on nothing given stays at no depth."""
    found = deepest(depths)
    return None if found is None else tuple(map(add, found, _further(steps)))


@lru_cache(4096)
def _further(steps: tuple[Step, ...]) -> Depth:
    return tuple(depth_of(steps, counting) for counting in COUNTINGS.values())
