"""One run of a module under the tracer, on a copy of it without numbers.

The copy is on the meta device, of fake tensors of the CPU, or shares the real numbers. Its parameters, buffers and
stray tensors are replaced while it is copied, so that nothing is allocated and the original is neither touched nor
given gradients. Tied parameters stay tied. A module that cannot be copied lends itself for the time of the run, with
its parameters replaced. Where a run stops, a sentence names the operation and the module it ran in.
"""

import copy
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, is_dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_map

from headway.cost.trace.call import plain_name, tensors_in
from headway.cost.trace.storages import Axes, Depth, Storages, deepest, widths_of
from headway.cost.trace.tracer import ModulePath, Tracer
from headway.nn.context import unguarded
from headway.steps import COUNTINGS

DEVICES = ("meta", "fake", "cpu")


@dataclass(frozen=True)
class Copied:
    """What runs: how to call it, the modules that run, and their parameters and buffers by name."""

    call: Callable[..., Any]
    module: nn.Module
    tensors: dict[str, Tensor]


class TraceDevice:
    """Where a trace runs. meta: shapes alone; fake: shapes, and the CPU's choice of kernels; cpu: real numbers."""

    def __init__(self, device: str) -> None:
        if device not in DEVICES:
            raise ValueError(f"a trace runs on {', '.join(DEVICES)}, not on {device!r}")
        self.device = device
        self.mode: AbstractContextManager[Any] = nullcontext()
        if device == "fake":
            from torch._subclasses.fake_tensor import FakeTensorMode

            self.mode = FakeTensorMode(allow_non_fake_inputs=True)

    @property
    def default(self) -> torch.device:
        """Where the module makes new tensors."""
        return torch.device("meta" if self.device == "meta" else "cpu")

    def tensor(self, tensor: Tensor) -> Tensor:
        """The same shape, strides, type and wish for gradients here; real numbers are shared, not copied."""
        if self.device == "cpu":
            placed = _drawn(tensor) if tensor.is_meta else tensor.detach()
        else:
            with self.mode:
                placed = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=self.default)
        if isinstance(tensor, nn.Parameter):
            return nn.Parameter(placed, requires_grad=tensor.requires_grad)
        return placed.requires_grad_(tensor.requires_grad)

    def inputs(self, tree: Any) -> Any:
        return tree_map(lambda leaf: self.tensor(leaf) if isinstance(leaf, Tensor) else leaf, tree)

    def module(self, module: nn.Module) -> Copied:
        """The copy; buffers get memory of their own, since a module may write into them."""
        self._check(module)
        own = {id(buffer) for buffer in module.buffers()} if self.device == "cpu" else set()
        placed = {
            id(tensor): tensor.clone() if id(tensor) in own else self.tensor(tensor) for tensor in _all_tensors(module)
        }
        try:
            copied = copy.deepcopy(module, dict(placed))
        except Exception:  # whatever an object's own way of copying itself may raise
            named = {name: placed[id(tensor)] for name, tensor in _named(module).items()}
            return Copied(partial(_lent, module, named), module, named)
        return Copied(copied, copied, _named(copied))

    def _check(self, module: nn.Module) -> None:
        for name, parameter in module.named_parameters():
            if is_lazy(parameter):
                raise ValueError(f"{name} has no shape yet: run the module once, then trace it")
            if self.device == "cpu" and parameter.is_meta:
                raise ValueError(f"{name} is on the meta device; a trace with device='cpu' needs real parameters")


def _lent(module: nn.Module, tensors: dict[str, Tensor], *inputs: Any, **keywords: Any) -> Any:
    return torch.func.functional_call(module, tensors, inputs, keywords)


def _drawn(tensor: Tensor) -> Tensor:
    """Numbers for an input given as a shape: noise, or zeros where they are whole (an index that always exists)."""
    if tensor.is_floating_point():
        return torch.randn(tensor.shape, dtype=tensor.dtype)
    return torch.zeros(tensor.shape, dtype=tensor.dtype)


def _named(module: nn.Module) -> dict[str, Tensor]:
    return dict((*module.named_parameters(), *module.named_buffers()))


def _all_tensors(module: nn.Module) -> Iterator[Tensor]:
    """Parameters, buffers, and tensors kept as plain attributes."""
    yield from _named(module).values()
    internal = vars(nn.Module())
    for inner in module.modules():
        yield from tensors_in([value for key, value in vars(inner).items() if key not in internal])


NUMBERS_NEEDED = ("_local_scalar_dense", "nonzero", "_unique2", "unique_consecutive", "equal", "masked_select")


@dataclass(frozen=True)
class Problem:
    """Why a run stopped. mistaken: the module itself refused its inputs; it is not for want of numbers."""

    sentence: str
    mistaken: bool = False


def problem_of(error: Exception, failed: tuple[str, str] | None, module: nn.Module, tree: Any) -> Problem:
    """Why a run stopped: shapes do not suffice, or the inputs do not fit."""
    operation, path = failed or ("", "")
    name = type(module).__name__
    if not _stops(error, operation):
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in tensors_in(list(tree)))
        return Problem(f"{name} does not run on inputs of shapes {shapes}: {_sentence(error)}", mistaken=True)
    aside = " or module.eval()" if module.training else ""
    return Problem(
        f"stopped at {operation or type(error).__name__} in {path or name}: {_sentence(error)}; what ran before it is "
        f"counted. It needs numbers, not shapes alone: device='cpu'{aside} may help"
    )


def _stops(error: Exception, operation: str) -> bool:
    """Whether it is tracing that fails: numbers are needed, or a kernel for shapes is missing."""
    kind, words = type(error).__name__, str(error)
    if isinstance(error, NotImplementedError) or "DataDependent" in kind or "DynamicOutput" in kind or "meta" in words:
        return True
    misfit = any(word in words for word in ("shape", "size", "dim", "mismatch"))
    needed = plain_name(operation) in NUMBERS_NEEDED
    return bool(operation) and isinstance(error, RuntimeError) and (needed or not misfit)


def _sentence(error: Exception) -> str:
    """The first line of what an error says."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]


Loss = Callable[[Any], Tensor]


@dataclass(frozen=True)
class TracedRun:
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


def run_once(
    module: nn.Module,
    tree: Any,
    device: str,
    *,
    backward: bool,
    lengths: set[int],
    loss: Loss | None = None,
    guessing: bool = False,
) -> TracedRun:
    """Runs a copy of the module on (inputs, keywords); where it stops, what ran is kept."""
    ground = TraceDevice(device)
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
    return TracedRun(tracer, depth, saved, problem, device)


def _tracer(copied: Copied, tree: Any, lengths: set[int], **how: bool) -> Tracer:
    storages, module = Storages(), copied.module
    for name, tensor in copied.tensors.items():
        storages.of(tensor).lasting = True
        storages.of(tensor).parameter = name if isinstance(tensor, nn.Parameter) else None
    for tensor in tensors_in(list(tree)):
        storages.of(tensor).depths.whole = (0,) * len(COUNTINGS)
    return Tracer(storages, Axes(storages, lengths, widths_of(module)), ModulePath(module), **how)


@contextmanager
def _running(tracer: Tracer, ground: TraceDevice, *, backward: bool) -> Iterator[None]:
    """Gradients as asked, new tensors where the parameters are, and no fused layer that hides its operations."""
    fused, log = torch.backends.mha.get_fastpath_enabled(), logging.getLogger("torch._subclasses.fake_tensor")
    torch.backends.mha.set_fastpath_enabled(False)
    level = log.level
    log.setLevel(logging.CRITICAL)  # it writes the traceback of an error that is told in one sentence here
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
        log.setLevel(level)


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
