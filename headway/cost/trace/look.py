"""One run of a module under the tracer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.cost.trace.axes import Axes, widths_of
from headway.cost.trace.call import tensors_in
from headway.cost.trace.copies import Copied, Ground
from headway.cost.trace.places import Places
from headway.cost.trace.problem import Problem, problem_of
from headway.cost.trace.regions import Depth, deepest
from headway.cost.trace.storages import Storages
from headway.cost.trace.tracer import Tracer
from headway.nn.context import unguarded
from headway.steps import COUNTINGS

Loss = Callable[[Any], Tensor]


@dataclass(frozen=True)
class Seen:
    """A run: everything the tracer saw, how deep the output is, and why it stopped, if it did."""

    tracer: Tracer
    depth: Depth
    saved: int
    problem: Problem | None
    device: str

    @property
    def peak(self) -> int:
        return self.tracer.storages.peak

    @property
    def notes(self) -> list[str]:
        return [*self.tracer.notes, *self.tracer.axes.notes()]


def look(
    module: nn.Module,
    tree: Any,
    device: str,
    *,
    backward: bool,
    lengths: set[int],
    loss: Loss | None = None,
    guessing: bool = False,
) -> Seen:
    """Runs a copy of the module on (inputs, keywords); where it stops, what ran is kept."""
    ground = Ground(device)
    copied, (inputs, keywords) = ground.module(module), ground.inputs(tree)
    tracer = _tracer(copied, (inputs, keywords), lengths, numbers=device == "cpu", guessing=guessing)
    problem, output, saved = None, None, 0
    try:
        with unguarded(), _running(tracer, ground, backward=backward):
            with tracer.saving():
                output = copied.call(*inputs, **keywords)
                started = _starts(output, loss) if backward else []
            saved = sum(tracer.saved.values())
            if backward:
                with tracer.quiet():
                    gradients = [torch.empty_like(one) for one in started]
                torch.autograd.backward(started, gradients)
    except Exception as error:
        if error is tracer.fault:
            raise
        problem = problem_of(error, tracer.failed, module, tree)
    depth = _output_depth(output, tracer) if problem is None else tracer.deepest
    return Seen(tracer, depth, saved, problem, device)


def _tracer(copied: Copied, tree: Any, lengths: set[int], **how: bool) -> Tracer:
    storages, module = Storages(), copied.module
    for name, tensor in copied.tensors.items():
        storages.of(tensor).lasting = True
        storages.of(tensor).parameter = name if isinstance(tensor, nn.Parameter) else None
    for tensor in tensors_in(list(tree)):
        storages.of(tensor).depths.whole = (0,) * len(COUNTINGS)
    return Tracer(storages, Axes(storages, lengths, widths_of(module)), Places(module), **how)


@contextmanager
def _running(tracer: Tracer, ground: Ground, *, backward: bool) -> Iterator[None]:
    """Gradients as asked, new tensors where the parameters are, and no fused layer that hides its operations."""
    fused = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with (
            torch.set_grad_enabled(backward),
            ground.default,
            ground.mode,
            tracer.places.watched(),
            tracer,
            tracer.causal,
        ):
            yield
    finally:
        torch.backends.mha.set_fastpath_enabled(fused)


def _starts(output: Any, loss: Loss | None) -> list[Tensor]:
    """Where gradients begin: the loss, the output's own loss, or every output that has a gradient."""
    if loss is not None:
        return [loss(output)]
    own = output.get("loss") if isinstance(output, dict) else None
    found = [own] if isinstance(own, Tensor) else _tensors(output)
    found = [tensor for tensor in found if tensor.requires_grad]
    if not found:
        raise ValueError("no output has a gradient; trace it without backward")
    return found


def _tensors(output: Any) -> list[Tensor]:
    if is_dataclass(output) and not isinstance(output, dict):
        output = vars(output)
    return tensors_in(output)


def _output_depth(output: Any, tracer: Tracer) -> Depth:
    """The deepest tensor that comes out; of an output without tensors, the deepest that was made."""
    return deepest([tracer.storages.depth(tensor) for tensor in _tensors(output)]) or tracer.deepest
