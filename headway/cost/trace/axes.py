"""Over what a sum runs: over a width or over positions.

A product with a parameter, or with something that depends on parameters alone, runs over a width. Another one runs
over positions where one side is a softmax over that axis (or a view, a cast, a dropout of it), or where the axis is as
long as the text and neither side has its entries lie side by side, as those of a vector do; else over a width. Where
the two sides differ in that, the size decides: a length that is no size of a parameter is taken for positions, and a
note says so. A softmax runs over positions, unless its scores were sums over positions (channel attention) or its size
is one of the parameters' and not a length.
"""

from collections.abc import Iterable
from math import prod

from torch import Tensor, nn

from headway.cost.trace.storages import Axis, Storages
from headway.steps import POSITIONS, WIDTH


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


def moved(axis: Axis | None, source: Tensor, result: Tensor) -> Axis | None:
    """The same axis in a result of the same shape, whose strides may differ."""
    if axis is None or source.shape != result.shape:
        return None
    for size, before, after in zip(source.shape, source.stride(), result.stride(), strict=True):
        if (size, before) == (axis.size, axis.stride):
            return Axis(size, after, axis.over)
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
