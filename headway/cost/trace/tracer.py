"""A dispatch mode that looks at every operation while a module runs, forwards and backwards.

Forwards, each operation is counted where it happens, and its results get their depth. Backwards, the products are
credited to the operations that they differentiate.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from headway.cost.trace.axes import Axes, moved
from headway.cost.trace.call import Called, plain_name
from headway.cost.trace.causal import Causal
from headway.cost.trace.count import LOOKUPS, SOFTMAX, work
from headway.cost.trace.events import Event, Events
from headway.cost.trace.places import Places
from headway.cost.trace.products import Work
from headway.cost.trace.regions import Depth, deepest
from headway.cost.trace.storages import Axis, Storages, deeper
from headway.cost.trace.works import ADDED, PRODUCTS, STAND_INS
from headway.steps import COUNTINGS, POSITIONS, Each

HALF = 0.5  # where one number is drawn to decide something (whether a layer is dropped), the decision must be possible


class Tracer(TorchDispatchMode):
    """Counts, depths and live bytes of whatever runs under it. numbers: whether there are any, not shapes alone."""

    def __init__(
        self, storages: Storages, axes: Axes, places: Places, *, numbers: bool, guessing: bool = False
    ) -> None:
        super().__init__()
        self.guessing = guessing  # whether a number that shapes do not tell is taken for 1 (a truth value for False)
        self.storages, self.axes, self.places, self.real = storages, axes, places, numbers
        self.events, self.causal = Events(), Causal()
        self.notes: dict[str, None] = {}
        self.saved: dict[int, int] = {}
        self.deepest: Depth = (0,) * len(COUNTINGS)
        self.failed: tuple[str, str] | None = None
        self.fault: Exception | None = None  # of the counting itself
        self.hushed = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        called = Called(func, args, kwargs or {}, self._result(func, args, kwargs or {}))
        try:
            self._see(called)
        except Exception as error:
            self.fault = error
            raise
        return called.output

    def _result(self, operation: Any, arguments: Any, keywords: Any) -> Any:
        name = plain_name(operation)
        if name in ("rand", "randn") and not self.real and not list(arguments[0]):
            return torch.tensor(HALF, dtype=keywords.get("dtype"), device="cpu")
        try:
            return operation(*arguments, **keywords)
        except Exception as error:
            if name in STAND_INS and isinstance(error, RuntimeError) and not self.real:
                return STAND_INS[name](Called(operation, arguments, keywords, None))
            if name == "_local_scalar_dense" and self.guessing:
                return _guess(arguments[0])
            self.failed = (str(operation), self.places.now)
            raise

    def _see(self, called: Called) -> None:
        if not called.outputs:
            return
        backwards = torch._C._current_graph_task_id() != -1
        # A pass backwards runs no module, unless a checkpoint is computed once more.
        if backwards and not self.places.stack:
            self._credit(called)
        elif not self.hushed:
            self._deepen(called, self._record(called, again=backwards).work)
        for result in called.outputs:
            self.storages.made(result)

    def _credit(self, called: Called) -> None:
        counting = PRODUCTS.get(called.name)
        if counting is not None:
            done, owner = counting(called, self.axes), self.events.differentiated()
            owner.back += done.macs
            owner.executed_back += done.macs if done.executed is None else done.executed

    def _record(self, called: Called, *, again: bool) -> Event:
        done, note = work(called, self.axes)
        done = self.causal.useful(done)
        if done.kind == "elementwise" and self.places.kind is not None:
            done = replace(done, kind=self.places.kind)
        if note is not None:
            self.notes[note] = None
        learns = torch.is_grad_enabled() and any(tensor.requires_grad for tensor in called.inputs)
        event = Event(self.places.now, called.name, done, differentiable=learns, again=again)
        if called.writes_in_place or any(self.storages.is_new(result) for result in called.outputs):
            self._moves(event, called)
        return self.events.add(event)

    def _moves(self, event: Event, called: Called) -> None:
        """What passes through memory, parameters apart; memory that is only reserved does not."""
        names = [self.storages.of(tensor).parameter for tensor in called.inputs]
        event.parameters = tuple(sorted({name for name in names if name is not None}))
        if "empty" not in called.name:
            own = zip(called.inputs, names, strict=True)
            event.reads = sum(tensor.numel() for tensor, name in own if name is None)
            event.writes = sum(result.numel() for result in called.outputs)
            event.reads += event.writes if called.name in LOOKUPS else 0

    def _deepen(self, called: Called, done: Work) -> None:
        late = called.bound.get(ADDED[called.name]) if called.name in ADDED else None
        others = [self.storages.depth(tensor) for tensor in called.read if tensor is not late]
        # What is only added at the end waits for nothing but that addition.
        last = [] if late is None else [self.storages.depth(late)]
        depth = deepest([deeper(others, done.steps), deeper(last, (Each(1),))])
        self.deepest = deepest([self.deepest, depth]) or self.deepest
        for result in called.outputs:
            if self.storages.made(result):
                self.storages.of(result).depths.whole = depth
                self._tag(called, result, done)
            elif called.writes_in_place:
                self.storages.of(result).depths.write(result, depth)

    def _tag(self, called: Called, result: Tensor, done: Work) -> None:
        """What a result is: weights over an axis, or scores, or a function of such entry by entry."""
        entry = self.storages.of(result)
        if called.name in SOFTMAX and result.dim():
            axis = called.bound["dim"]
            entry.weighted = Axis(result.shape[axis], result.stride(axis), _over(done))
        elif done.macs:
            entry.summed = _over(done)
        else:
            for source in called.inputs:
                before = self.storages.of(source)
                entry.weighted = entry.weighted or moved(before.weighted, source, result)
                entry.summed = entry.summed or (before.summed if source.numel() == result.numel() else None)

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """What happens here is none of the module's doing; only its bytes are counted."""
        before, self.hushed = self.hushed, True
        try:
            yield
        finally:
            self.hushed = before

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Bytes kept for the backward pass: each storage once, parameters and buffers left out."""
        with torch.autograd.graph.saved_tensors_hooks(self._pack, lambda tensor: tensor):
            yield

    def _pack(self, tensor: Tensor) -> Tensor:
        if not self.storages.of(tensor).lasting:
            storage = tensor.untyped_storage()
            self.saved[storage._cdata] = storage.nbytes()
        with self.quiet():
            return tensor.detach()  # the tensor itself would keep its own node alive


# Their first input is added when all else is done.
LATE = ("addcmul", "addcdiv", "addmm", "addmv", "baddbmm", "addbmm", "addr")


def _guess(tensor: Tensor) -> Any:
    if tensor.dtype == torch.bool:
        return False
    return 1.0 if tensor.is_floating_point() else 1


def _over(done: Work) -> str:
    """What the first sum of an operation runs over."""
    return next((step.over for step in done.steps if not isinstance(step, Each)), POSITIONS)
