"""The price of anybody's module, read off a trace."""

from dataclasses import dataclass
from typing import Any

from torch import nn

from headway.cost.asked import RECURRENT
from headway.cost.optimiser import optimiser_cost
from headway.cost.request import Asked, check_positive
from headway.cost.setting import Setting
from headway.cost.sheet import Sheet
from headway.cost.trace import Bytes, Trace, inputs_for, merged, trace
from headway.sizes import Cost


@dataclass(frozen=True)
class TracedMemory:
    """Bytes of live tensors, as the trace met them; parameters apart."""

    weights: int
    bytes: Bytes

    @property
    def peak_forward(self) -> int | None:
        """With the weights."""
        return None if self.bytes.forward_peak is None else self.weights + self.bytes.forward_peak

    @property
    def peak_step(self) -> int | None:
        """With the weights, without the state of an optimiser."""
        return None if self.bytes.step_peak is None else self.weights + self.bytes.step_peak

    def as_json(self) -> dict[str, Any]:
        peaks = {"peak_forward": self.peak_forward, "peak_step": self.peak_step}
        return {"weights": self.weights, "saved": self.bytes.saved, **peaks}

    def rows(self) -> list[tuple[str, int]]:
        """What is known, in words."""
        found = {"weights and buffers": self.weights, "activations saved for the way back": self.bytes.saved,
                 "peak of a forward pass": self.peak_forward,
                 "peak of a forward and backward pass": self.peak_step}  # fmt: skip
        return [(name, value) for name, value in found.items() if value is not None]


def module_sheet(model: nn.Module, name: str, asked: Asked) -> Sheet:
    """The sheet of a module that is not ours: forward and backward as they ran on shapes alone."""
    _check(name, asked)
    size = RECURRENT if asked.length is None else asked.length
    given, keywords = inputs_for(model, asked.batch, size, asked.source, shape=asked.inputs)
    found = _traced(model, given, keywords)
    return Sheet(
        name=name,
        setting=Setting(batch=asked.batch, length=size, source=asked.source, dtype=asked.dtype),
        operations=tuple(merged(found.lines)),
        parameters=dict(found.parameters.kinds),
        phases=_phases(found, asked.optimiser),
        depth=dict(found.depth),
        memory=None if found.memory is None else TracedMemory(_weights(model), found.memory),
        notes=(*found.notes, *_unseen(found)),
    )


def _unseen(found: Trace) -> list[str]:
    """Pairs that a mask hides are known where a call says so; a mask in a tensor is numbers, and a trace has none."""
    attends = any(line.operation.kind == "attention" for line in found.lines)
    if not attends or found.forward.useful != found.forward.dense:
        return []
    return ["useful is dense here: a trace sees causality in calls with is_causal=True, not in a mask of numbers"]


def _check(name: str, asked: Asked) -> None:
    """A trace knows the sizes that it is given, and nothing of caches, paddings and masks."""
    check_positive(batch=asked.batch, length=asked.length, source=asked.source)
    for key in ("past", "new", "lengths", "source_lengths", "image", "mask"):
        if getattr(asked, key) is not None:
            raise ValueError(f"{name} is a module of its own, priced by tracing it: leave {key!r} out")


def _traced(model: nn.Module, given: tuple[Any, ...], keywords: dict[str, Any]) -> Trace:
    """With gradients where something learns."""
    learns = any(parameter.requires_grad for parameter in model.parameters())
    return trace(model, *given, backward=learns, **keywords)


def _weights(model: nn.Module) -> int:
    """Bytes of parameters and buffers, a shared one once."""
    return sum(tensor.numel() * tensor.element_size() for tensor in (*model.parameters(), *model.buffers()))


def _phases(found: Trace, optimiser: str) -> dict[str, Cost]:
    forward, backward = found.forward, found.backward
    update = optimiser_cost(optimiser, found.parameters.total)
    return {"forward": forward, "backward": backward, "step": forward + backward + update}
