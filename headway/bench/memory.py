"""Peak live tensor bytes of one call, beyond what was alive before it.

torch's profiler reports every allocation and release of the CPU allocator, so scratch that a kernel takes and returns
inside one operator counts too; a dispatch mode sees only the tensors between operators. Blocks that were alive before
the call are neither counted nor, when the call frees them, credited. What a library takes from malloc itself
(oneDNN's own buffers) is invisible here.
"""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from torch import Tensor
from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile


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
    with _hushed(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        result = call()
    events = record.profiler.kineto_results.experimental_event_tree()  # type: ignore[union-attr]
    peak, live = replay(_allocations(events))
    returned = {tensor.untyped_storage().data_ptr() for tensor in tensors(result)}
    return Memory(peak, sum(live.get(pointer, 0) for pointer in returned))


def replay(changes: Iterable[tuple[int, int]]) -> tuple[int, dict[int, int]]:
    """Peak bytes and the blocks left, from (address, bytes) in order of time; a freed block has negative bytes.

    >>> replay([(1, 30), (2, 40), (1, -30), (9, -50), (3, 10)])
    (70, {2: 40, 3: 10})
    """
    live: dict[int, int] = {}
    total = peak = 0
    for pointer, size in changes:
        if size >= 0:
            live[pointer] = size
            total += size
            peak = max(peak, total)
        else:
            total -= live.pop(pointer, 0)
    return peak, live


def tensors(result: Any) -> Iterator[Tensor]:
    """Every tensor in nested lists, tuples and dicts."""
    if isinstance(result, Tensor):
        yield result
    elif isinstance(result, dict):
        yield from tensors(list(result.values()))
    elif isinstance(result, list | tuple):
        for item in result:
            yield from tensors(item)


def _allocations(events: list[Any]) -> list[tuple[int, int]]:
    found, waiting = [], list(events)
    while waiting:
        event = waiting.pop()
        waiting.extend(event.children)
        if event.tag == _EventType.Allocation:
            found.append((event.start_time_ns, event.extra_fields.ptr, event.extra_fields.alloc_size))
    return [(pointer, size) for _, pointer, size in sorted(found, key=lambda change: change[0])]


@contextmanager
def _hushed() -> Iterator[None]:
    # The profiler writes a line to file descriptor 2 when it starts and when it stops, whatever its log level.
    sys.stderr.flush()
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
