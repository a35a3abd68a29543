"""Memory of a real model: what autograd saves, the peak in use, what the process holds.

torch's profiler reports every allocation and release, scratch inside of an operator too. What was there before the call
does not count.
"""

import os
import resource
import weakref
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.observe.allocations import recorded, replay


@dataclass(frozen=True)
class MeasuredMemory:
    """Bytes: saved for the way back (unique storages, parameters left out); in use at most beyond what was there; rss,
    of the whole process."""

    saved: int
    peak_forward: int
    peak_step: int
    rss: int

    def as_json(self) -> dict[str, int]:
        return asdict(self)


def measured(
    model: nn.Module,
    inputs: Sequence[Any],
    *,
    loss: Callable[[], Tensor] | None = None,
    step: Callable[[], Any] | None = None,
) -> MeasuredMemory:
    """A forward pass without gradients, and a step.

    loss: computes it with the model in training; the sum of the outputs where nobody says. step: a whole step, zeroing
    and update included; where nobody says, the loss backwards.
    """
    loss = (lambda: model(*inputs).float().sum()) if loss is None else loss
    step = (lambda: _learnt(model, loss)) if step is None else step
    was = model.training
    model.train()
    step()  # what is made once is made before
    saved, (high, _) = saved_bytes(model, loss), replayed(step)
    model.eval()
    with torch.no_grad():
        still, _ = replayed(lambda: model(*inputs))
    model.train(was)
    return MeasuredMemory(saved, still, high, resident())


def _learnt(model: nn.Module, loss: Callable[[], Tensor]) -> None:
    for parameter in model.parameters():
        parameter.grad = None
    loss().backward()


class _Saved:
    """A tensor that autograd saved, for as long as it does."""

    def __init__(self, tensor: Tensor) -> None:
        self.tensor = tensor


def saved_bytes(model: nn.Module, loss: Callable[[], Tensor]) -> int:
    """Unique storages that the graph of the loss holds, parameters left out."""
    kept: weakref.WeakSet[_Saved] = weakref.WeakSet()

    def pack(tensor: Tensor) -> _Saved:
        found = _Saved(tensor.detach())
        kept.add(found)
        return found

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda one: one.tensor):
        graph = loss()
    own = {parameter.untyped_storage().data_ptr() for parameter in model.parameters()}
    storages = {one.tensor.untyped_storage().data_ptr(): one.tensor.untyped_storage().nbytes() for one in kept}
    del graph
    return sum(size for place, size in storages.items() if place not in own)


def replayed(call: Callable[[], Any]) -> tuple[int, int]:
    """Bytes in use at most while a call runs, and after it while its result is there."""
    result, changes = recorded(call)
    high, live = replay(changes)
    del result
    return high, sum(live.values())


def resident() -> int:
    """Bytes of the process that are in memory now; at most so far, where the system tells no more."""
    try:
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return pages * os.sysconf("SC_PAGE_SIZE")
