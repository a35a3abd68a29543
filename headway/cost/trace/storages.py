"""What is known of each tensor while a module runs: its bytes, its depth, and over what its sums run.

Views share a storage, so they share what is known of it, and what is written in place is seen by all of them. An entry
disappears with its storage. A view is an offset and axes of (size, stride); two views share an entry if offset +
Σ i·stride of the one meets that of the other. Strides are tried from the largest down, and at each only few steps can
still be made up by the rest.

A sum runs over a width or over positions. A product with a parameter, or with something that depends on parameters
alone, runs over a width. Another one runs over positions where one side is a softmax over that axis (or a view, a cast,
a dropout of it), or where the axis is as long as the text and neither side has its entries lie side by side, as those
of a vector do; else over a width. Where the two sides differ in that, the size decides: a length that is no size of a
parameter is taken for positions, and a note says so. A softmax runs over positions, unless its scores were sums over
positions (channel attention) or its size is one of the parameters' and not a length.
"""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from math import ceil, floor, prod
from operator import add
from typing import Any

from torch import Tensor, UntypedStorage, nn

from headway.steps import COUNTINGS, POSITIONS, WIDTH, Step, depth_of

Depth = tuple[int, ...]
_PATIENCE = 4096  # tries, then two parts are taken to overlap


@dataclass(frozen=True)
class Region:
    """Where a view's entries lie."""

    offset: int
    axes: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, tensor: Tensor) -> "Region":
        pairs = zip(tensor.shape, tensor.stride(), strict=True)
        return cls(int(tensor.storage_offset()), tuple((size, stride) for size, stride in pairs if size > 1 and stride))

    def meets(self, other: "Region") -> bool:
        """Whether two views share an entry.

        >>> left, right = (Region(offset, ((2, 15), (5, 1))) for offset in (0, 5))
        >>> left.meets(right), left.meets(Region(4, ((2, 15), (5, 1))))
        (False, True)
        """
        ranges = [(stride, 0, size - 1) for size, stride in self.axes]
        ranges += [(stride, 1 - size, 0) for size, stride in other.axes]
        return _reaches(other.offset - self.offset, sorted(ranges, reverse=True), [_PATIENCE])


def _reaches(gap: int, ranges: list[tuple[int, int, int]], tries: list[int]) -> bool:
    """Whether whole numbers within their ranges make gap = Σ number · stride."""
    tries[0] -= 1
    if not ranges or tries[0] < 0:
        return gap == 0 or tries[0] < 0
    (stride, low, high), rest = ranges[0], ranges[1:]
    least, most = (sum(bound * width for width, *bounds in rest for bound in bounds[at : at + 1]) for at in (0, 1))
    first, last = max(low, ceil((gap - most) / stride)), min(high, floor((gap - least) / stride))
    return any(_reaches(gap - number * stride, rest, tries) for number in range(first, last + 1))


@dataclass
class Depths:
    """The depth of a storage, and of parts of it that were written since. None: parameters and constants alone."""

    whole: Depth | None = None
    parts: dict[Region, Depth | None] = field(default_factory=dict)

    def read(self, tensor: Tensor) -> Depth | None:
        if not self.parts:
            return self.whole
        region = Region.of(tensor)
        found = [depth for part, depth in self.parts.items() if part == region or part.meets(region)]
        return deepest([*found, *([] if region in self.parts else [self.whole])])

    def write(self, tensor: Tensor, depth: Depth | None) -> None:
        if covers(tensor):
            self.whole, self.parts = depth, {}
        else:
            self.parts[Region.of(tensor)] = depth


def deepest(depths: list[Depth | None]) -> Depth | None:
    """The largest under each counting.

    >>> deepest([(3, 9), None, (4, 2)])
    (4, 9)
    """
    known = [depth for depth in depths if depth is not None]
    return tuple(max(numbers) for numbers in zip(*known, strict=True)) if known else None


def covers(tensor: Tensor) -> bool:
    """Whether a tensor is all of its storage, so that writing it leaves nothing of what was there."""
    return tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes()


@dataclass(frozen=True)
class SoftmaxAxis:
    """An axis of a storage that a softmax was taken over: its size, its stride, and what it runs over."""

    size: int
    stride: int
    over: str


@dataclass
class StorageEntry:
    """parameter: its name. lasting: a parameter's or a buffer's. weighted: the axis of a softmax. summed: what the last
    product ran over."""

    reference: Any
    size: int = 0
    depths: Depths = field(default_factory=Depths)
    parameter: str | None = None
    lasting: bool = False
    weighted: SoftmaxAxis | None = None
    summed: str | None = None


class Storages:
    """Entries by storage, and the bytes of those that were made while looking."""

    def __init__(self) -> None:
        self.entries: dict[int, StorageEntry] = {}
        self.live = self.peak = 0

    def of(self, tensor: Tensor) -> StorageEntry:
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

    def _add(self, storage: UntypedStorage, size: int) -> StorageEntry:
        key = storage._cdata
        entry = self.entries[key] = StorageEntry(weakref.ref(storage, lambda _: self._gone(key)), size)
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


class Axes:
    """The lengths and widths of a traced module, and what was decided by size alone."""

    def __init__(self, storages: Storages, lengths: Iterable[int], widths: Iterable[int]) -> None:
        self.storages, self.lengths, self.widths = storages, set(lengths), set(widths)
        self.doubts: dict[int, str] = {}

    def of_product(self, left: Tensor, right: Tensor) -> str:
        """Of left (… rows n) times right (… n columns)."""
        chosen = self._weighted(left, -1) or self._weighted(right, -2 if right.dim() > 1 else -1)
        if chosen is None and any(self.storages.depth(tensor) is None for tensor in (left, right)):
            return WIDTH
        return chosen or self._by_layout(left, right)

    def of_softmax(self, scores: Tensor, axis: int) -> str:
        size, summed = scores.shape[axis], self.storages.of(scores).summed
        if summed == POSITIONS or (size in self.widths and size not in self.lengths):
            return WIDTH
        self.lengths.add(size)
        return POSITIONS

    def of_sum(self, tensor: Tensor, axes: list[int]) -> str:
        if len(axes) > 1 and sizes(tensor, axes) in self.lengths:
            return POSITIONS
        found = [self._weighted(tensor, axis) or self._along(tensor, axis) for axis in axes]
        return POSITIONS if POSITIONS in found else WIDTH

    def _weighted(self, tensor: Tensor, axis: int) -> str | None:
        known = self.storages.of(tensor).weighted
        same = known is not None and (known.size, known.stride) == (tensor.shape[axis], tensor.stride(axis))
        return known.over if known is not None and same else None

    def _along(self, tensor: Tensor, axis: int) -> str:
        size = tensor.shape[axis]
        length = size in self.lengths and (size not in self.widths or tensor.stride(axis) != 1)
        return POSITIONS if length else WIDTH

    def _by_layout(self, left: Tensor, right: Tensor) -> str:
        """Entries of a vector lie side by side: an axis that does so on both sides is a width, on neither it is not."""
        size = left.shape[-1]
        beside = (left.stride(-1) == 1) + (right.stride(-2 if right.dim() > 1 else -1) == 1)
        if size not in self.lengths or beside == 2:
            return WIDTH
        if beside == 0:
            return POSITIONS
        found = self.doubts[size] = WIDTH if size in self.widths else POSITIONS
        return found

    def notes(self) -> list[str]:
        """What a reader should know was guessed."""
        return [
            f"a product over {size} terms is taken as a sum over {'positions' if found == POSITIONS else 'a width'}: "
            f"{size} is a length" + (" and a width" if size in self.widths else "") + "; a prime length tells"
            for size, found in sorted(self.doubts.items())
        ]


def moved(axis: SoftmaxAxis | None, source: Tensor, result: Tensor) -> SoftmaxAxis | None:
    """The same axis in a result of the same shape, whose strides may differ."""
    if axis is None or source.shape != result.shape:
        return None
    for size, before, after in zip(source.shape, source.stride(), result.stride(), strict=True):
        if (size, before) == (axis.size, axis.stride):
            return SoftmaxAxis(size, after, axis.over)
    return None


def widths_of(module: nn.Module) -> set[int]:
    """Sizes that are widths: of all parameters' axes, but not how many rows a table of positions or words has."""
    found: set[int] = set()
    for inner in module.modules():
        for parameter in inner.parameters(recurse=False):
            table = isinstance(inner, nn.Embedding) or (parameter.dim() == 3 and parameter.shape[0] == 1)
            # The axes of a kernel beyond its channels are places.
            found.update(parameter.shape[-1:] if table else parameter.shape[: 2 if parameter.dim() > 3 else None])
    return found - {1}


def sizes(tensor: Tensor, axes: list[int]) -> int:
    """How many entries these axes have together."""
    return prod(tensor.shape[axis] for axis in axes)
