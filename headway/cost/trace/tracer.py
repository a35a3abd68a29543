"""A dispatch mode that records every operation while a module runs, forwards and backwards.

Forwards, each operation is counted where it happens, and its results get their depth. Backwards, the products are
credited to the operations that they differentiate.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._C._autograd import _get_sequence_nr
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from headway.cost.trace.call import Called, plain_name
from headway.cost.trace.products import ADDED, PRODUCTS, STAND_INS, Work
from headway.cost.trace.rules import LOOKUPS, SOFTMAX, work
from headway.cost.trace.storages import Axes, Depth, SoftmaxAxis, Storages, deeper, deepest, moved
from headway.observe.hooks import every_module
from headway.ops.attention.cost import flash_causal
from headway.steps import COUNTINGS, POSITIONS, Each

_SUMS = 2**63  # nodes that add up a parameter's gradient are numbered from here


@dataclass
class Event:
    """One operation that ran: where, what it did, what it moved, and what its gradient did."""

    path: str
    name: str
    work: Work
    reads: int = 0
    writes: int = 0
    parameters: tuple[str, ...] = ()
    differentiable: bool = False
    back: int = 0
    executed_back: int = 0
    again: bool = False  # computed once more during the backward pass (checkpointing)


class Events:
    """All events. Autograd numbers its nodes as it makes them, each just before its operation is dispatched."""

    def __init__(self) -> None:
        self.all: list[Event] = []
        self.numbers: list[int] = []
        self.owners: list[Event] = []

    def add(self, event: Event) -> Event:
        self.all.append(event)
        number = _get_sequence_nr() - 1
        if not self.numbers or number > self.numbers[-1]:
            self.numbers.append(number)
            self.owners.append(event)
        return event

    def differentiated(self) -> Event:
        """The operation whose gradient is being computed; an event of its own where none is known."""
        node = torch._C._current_autograd_node()
        number = _SUMS if node is None else node._sequence_nr()
        found = bisect_right(self.numbers, number) - 1
        if number < _SUMS and found >= 0:
            return self.owners[found]
        self.all.append(Event("", "gradient", Work("product")))
        return self.all[-1]


NAMES = ("query", "key", "value", "attn_mask", "dropout_p", "is_causal")


def causal_pairs(queries: int, keys: int) -> int:
    """Query i sees the keys 0 … i, as torch counts them.

    >>> causal_pairs(3, 3), causal_pairs(5, 3), causal_pairs(2, 7)
    (6, 12, 3)
    """
    seen = min(queries, keys)
    return seen * (seen + 1) // 2 + (queries - seen) * keys


class CausalPairs(TorchFunctionMode):
    """Knows, while an attention runs, how many of its pairs are useful, how many the CPU's kernel computes, and all."""

    def __init__(self) -> None:
        super().__init__()
        self.share: tuple[int, int, int] | None = None

    def __torch_function__(self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        if func is not F.scaled_dot_product_attention:
            return func(*args, **keywords)
        named = dict(zip(NAMES, args, strict=False)) | keywords
        if named.get("is_causal"):
            queries, keys = named["query"].shape[-2], named["key"].shape[-2]
            self.share = (causal_pairs(queries, keys), flash_causal(queries, keys), queries * keys)
        try:
            return func(*args, **keywords)
        finally:
            self.share = None

    def useful(self, work: Work) -> Work:
        """The work with the multiply-adds of useful pairs alone."""
        if self.share is None or work.kind != "attention" or not work.macs:
            return work
        allowed, computed, dense = self.share
        return replace(work, useful=work.macs * allowed // dense, executed=work.macs * computed // dense)


# words in the name of a class -> the kind of what it computes entry by entry
KIND_OF_CLASS = {
    "norm": "norm",
    "activation": "activation",
    "gelu": "activation",
    "silu": "activation",
    "relu": "activation",
}


class ModulePath:
    """The path of the module that runs now; a module made on the way is named by its class."""

    def __init__(self, module: nn.Module) -> None:
        self.names = {id(inner): name for name, inner in module.named_modules()}
        self.stack: list[str] = []
        self.classes: list[str] = []

    @property
    def now(self) -> str:
        return self.stack[-1] if self.stack else ""

    @property
    def kind(self) -> str | None:
        """What the module that runs now is there for, if its class says: a norm that is written out is one too."""
        name = self.classes[-1].lower() if self.classes else ""
        return next((kind for word, kind in KIND_OF_CLASS.items() if word in name), None)

    def enter(self, module: nn.Module, _: Any) -> None:
        unknown = ".".join(name for name in (self.now, type(module).__name__) if name)
        self.stack.append(self.names.get(id(module), unknown))
        self.classes.append(type(module).__name__)

    def leave(self, module: nn.Module, _: Any, __: Any) -> None:
        self.stack.pop()
        self.classes.pop()

    @contextmanager
    def watched(self) -> Iterator[None]:
        try:
            with every_module(self.enter, self.leave):
                yield
        finally:
            self.stack.clear()
            self.classes.clear()


HALF = 0.5  # where one number is drawn to decide something (whether a layer is dropped), the decision must be possible


class Tracer(TorchDispatchMode):
    """Counts, depths and live bytes of whatever runs under it. numbers: whether there are any, not shapes alone."""

    def __init__(
        self, storages: Storages, axes: Axes, places: ModulePath, *, numbers: bool, guessing: bool = False
    ) -> None:
        super().__init__()
        self.guessing = guessing  # whether a number that shapes do not tell is taken for 1 (a truth value for False)
        self.storages, self.axes, self.places, self.real = storages, axes, places, numbers
        self.events, self.causal = Events(), CausalPairs()
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
            entry.weighted = SoftmaxAxis(result.shape[axis], result.stride(axis), _over(done))
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


def _guess(tensor: Tensor) -> Any:
    if tensor.dtype == torch.bool:
        return False
    return 1.0 if tensor.is_floating_point() else 1


def _over(done: Work) -> str:
    """What the first sum of an operation runs over."""
    return next((step.over for step in done.steps if not isinstance(step, Each)), POSITIONS)
