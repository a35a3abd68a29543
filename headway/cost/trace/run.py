"""Any module, priced by looking at what it does: `trace`.

>>> from torch import nn
>>> found = trace(nn.Linear(3, 5), torch.empty(2, 3, device="meta"))
>>> found.forward.dense, found.forward.other, found.depth
(30, 10, {'tree': 4, 'serial': 4, 'sums': 2})
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn

from headway.cost.op_tree import Line, summed
from headway.cost.trace.call import tensors_in
from headway.cost.trace.report import Parameters, lines_of, parameters_of
from headway.cost.trace.run_once import Loss, Problem, TracedRun, run_once
from headway.sizes import Cost
from headway.steps import COUNTINGS


@dataclass(frozen=True)
class Bytes:
    """Live tensor bytes beyond parameters and inputs: the peak of a forward pass without gradients; what a pass with
    gradients saves; the peak of a forward and backward pass, gradients included. None: not asked for."""

    forward_peak: int | None = None
    saved: int | None = None
    step_peak: int | None = None


@dataclass(frozen=True)
class Trace:
    """What a module was seen to do. complete False: it stopped, and `notes` say where; what is here was counted."""

    name: str
    lines: tuple[Line, ...]
    depth: dict[str, int]
    parameters: Parameters
    memory: Bytes | None
    notes: tuple[str, ...]
    complete: bool
    device: str

    @property
    def forward(self) -> Cost:
        return summed(self.lines)

    @property
    def backward(self) -> Cost:
        return summed(self.lines, backward=True)


def trace(
    module: nn.Module,
    *inputs: Any,
    backward: bool = False,
    device: str = "meta",
    memory: bool = True,
    loss: Loss | None = None,
    lengths: Iterable[int] | None = None,
    **keywords: Any,
) -> Trace:
    """Runs a module without allocating anything, and counts.

    backward: gradients too, of `loss(output)`, of the output's own `.loss`, or of all outputs. device: "meta" (shapes
    alone, attention as plain products), "fake" (shapes, and the CPU's kernels), "cpu" (the weights as they are, for
    what depends on data). lengths: sizes that are lengths of a text, for the depth with serial widths.
    """
    known = text_lengths((inputs, keywords)) if lengths is None else set(lengths)
    run = TraceRequest(module, (inputs, keywords), backward, loss, known)
    seen = run.on(device)
    notes: list[str] = []
    if seen.problem is not None and device == "meta":
        seen, notes = _instead(run, seen)
    if seen.problem is not None and seen.problem.mistaken:
        raise ValueError(seen.problem.sentence)
    if seen.problem is not None and device == "meta":
        run, seen = _guessed(run, seen)
    found = run.memory(seen) if memory else (None, [])
    problem = [] if seen.problem is None else [seen.problem.sentence]
    return Trace(
        type(module).__name__,
        tuple(lines_of(seen.tracer.events.all, entries_of(module), backward=backward)),
        dict(zip(COUNTINGS, seen.depth, strict=True)),
        parameters_of(module),
        found[0],
        (*problem, *notes, *seen.notes, *found[1]),
        seen.problem is None,
        seen.device,
    )


@dataclass(frozen=True)
class TraceRequest:
    """A module, what it is given, and what is asked."""

    module: nn.Module
    tree: Any
    backward: bool
    loss: Loss | None
    lengths: set[int]
    guessing: bool = False

    def on(self, device: str, *, backward: bool | None = None) -> TracedRun:
        wanted = self.backward if backward is None else backward
        return run_once(
            self.module, self.tree, device, backward=wanted, lengths=self.lengths, loss=self.loss,
            guessing=self.guessing,
        )  # fmt: skip

    def memory(self, seen: TracedRun) -> tuple[Bytes, list[str]]:
        """With the CPU's kernels, where a module runs so; else as it was seen."""
        device = "fake" if seen.device == "meta" else seen.device
        plain = seen if seen.device == device and not self.backward else self.on(device, backward=False)
        if plain.problem is not None and device == "fake":
            device, plain = seen.device, self.on(seen.device, backward=False)
        notes = [MATH] if device == "meta" and _attends(seen) else []
        notes += [ROOM] if device != "cpu" and any(isinstance(one, nn.RNNBase) for one in self.module.modules()) else []
        if not self.backward:
            return Bytes(plain.peak), notes
        learning = seen if seen.device == device else self.on(device)
        return Bytes(plain.peak, learning.saved, learning.peak), notes


ROOM = "memory is too low: torch's recurrent kernels keep a workspace that shapes do not show; device='cpu' does"
MATH = "memory is that of plain products on the meta device: a fused attention kernel would not hold the scores"


def _instead(run: TraceRequest, stopped: TracedRun) -> tuple[TracedRun, list[str]]:
    """Fake tensors know constants that a module reads back, and a device that all of torch supports."""
    again = run.on("fake")
    assert stopped.problem is not None
    if again.problem is not None:
        return (again if stopped.problem.mistaken else stopped), []
    return again, [f"traced with fake tensors of the CPU; on the meta device: {stopped.problem.sentence.split(';')[0]}"]


def _attends(seen: TracedRun) -> bool:
    return any(event.work.kind == "attention" for event in seen.tracer.events.all)


def _guessed(run: TraceRequest, stopped: TracedRun) -> tuple[TraceRequest, TracedRun]:
    """The same with numbers that a module asks for taken for 1, so that the rest is priced too; and a note of it."""
    assert stopped.problem is not None
    bold = replace(run, guessing=True)
    seen = bold.on("meta")
    if seen.problem is not None:
        return run, stopped
    first = stopped.problem.sentence.split(";")[0]
    rest = (
        "the number was taken for 1 (a truth value for False), and the rest is priced on that way alone; device='cpu'"
    )
    return bold, replace(seen, problem=Problem(f"{first}; {rest} takes the real one"))


def text_lengths(tree: Any) -> set[int]:
    """Sizes that are lengths: of tokens (B L) and of vectors (B L D), the second axis."""
    tensors = [tensor for tensor in tensors_in(list(tree)) if isinstance(tensor, torch.Tensor)]
    whole = [tensor for tensor in tensors if tensor.dim() == 2 and not tensor.is_floating_point()]
    return {tensor.shape[1] for tensor in (*whole, *(one for one in tensors if one.dim() == 3))}


def entries_of(module: nn.Module) -> dict[str, int]:
    """Entries of every parameter, by name."""
    return {name: parameter.numel() for name, parameter in module.named_parameters()}
