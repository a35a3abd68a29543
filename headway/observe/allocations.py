"""Every allocation and release of a call, as torch's profiler reports them; scratch inside of an operator too."""

import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from torch._C._profiler import _EventType
from torch.profiler import ProfilerActivity, profile


def recorded(call: Callable[[], Any]) -> tuple[Any, list[tuple[int, int]]]:
    """What a call returns, and (address, bytes) in order of time; a freed block has negative bytes."""
    with _hushed(), profile(activities=[ProfilerActivity.CPU], profile_memory=True) as record:
        result = call()
    events = record.profiler.kineto_results.experimental_event_tree()  # type: ignore[union-attr]
    return result, _allocations(events)


def replay(changes: Iterable[tuple[int, int]]) -> tuple[int, dict[int, int]]:
    """Peak bytes and the blocks left; what was there before the call does not count.

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
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)
