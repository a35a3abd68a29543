"""Parts of a storage: which views of it share entries.

A view is an offset and axes of (size, stride). Two of them share an entry if offset + Σ i·stride of the one meets that
of the other; strides are tried from the largest down, and at each only few steps can still be made up by the rest.
"""

from dataclasses import dataclass, field
from math import ceil, floor

from torch import Tensor

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
