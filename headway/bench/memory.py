"""Peak live tensor bytes of one call, beyond what was alive before it.

torch's profiler reports every allocation and release of the CPU allocator, so scratch that a kernel takes and returns
inside one operator counts too; a dispatch mode sees only the tensors between operators. Blocks that were alive before
the call are neither counted nor, when the call frees them, credited. What a library takes from malloc itself
(oneDNN's own buffers) is invisible here.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from headway.cost.memory.allocations import recorded, replay


@dataclass(frozen=True)
class Memory:
    """Bytes: the peak of the call, and the part of it that the call returned."""

    peak: int
    output: int

    @property
    def beyond(self) -> int:
        """Peak beyond the output: what the call needed and did not give."""
        return self.peak - self.output


def measure(call: Callable[[], Any]) -> Memory:
    """Runs the call once and reads its allocations.

    >>> import torch
    >>> x = torch.ones(256, 256)
    >>> measure(lambda: x @ x)
    Memory(peak=262144, output=262144)
    """
    result, changes = recorded(call)
    peak, live = replay(changes)
    returned = {tensor.untyped_storage().data_ptr() for tensor in tensors(result)}
    return Memory(peak, sum(live.get(pointer, 0) for pointer in returned))


def tensors(result: Any) -> Iterator[Tensor]:
    """Every tensor in nested lists, tuples and dicts."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        yield from tensors(list(result.values()))
    elif isinstance(result, list | tuple):
        for item in result:
            yield from tensors(item)
