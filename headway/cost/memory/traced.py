"""What a pass through a model keeps and takes, found by running the model itself on fake tensors, which have no memory.

Every result is watched from its making to its end. Scratch that a kernel takes inside of one operation shows in no
shape, so what torch's attention and its softmax take is known by formula. The blocks of a deep stack are alike: two and
three of them are run, and what each moment of the pass takes grows with every further block by as much as from two to
three.
"""

import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from headway.config import Frozen, StackConfig
from headway.cost.memory.passes import Passes, passes_of
from headway.cost.optimiser import on_shapes
from headway.cost.setting import Setting
from headway.cost.trace.run_once import TraceDevice
from headway.nn.block import Block, Stack
from headway.nn.recompute import forget_activations
from headway.observe.hooks import removed_after

Number = int | float  # bytes of a run are whole, those of further blocks are extrapolated
MORE = 3  # periods of a stack's blocks that are run, and one less
STACKS = ("stack", "encoder", "decoder")
RANDOM_STATE = torch.get_rng_state().nbytes
FLASH = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default
SOFTMAX = torch.ops.aten._safe_softmax.default
FLASH_BACK = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default


@dataclass(frozen=True)
class Walk:
    """What a run found, in bytes: saved for the way back, inputs included; kept between forwards and backwards beside
    weights and inputs, seen by autograd's hooks or not; in use at most beside these."""

    inputs: int
    saved: int
    kept: int
    peak: int
    output: int

    @property
    def aside(self) -> int:
        """Kept unseen by autograd's hooks, at least."""
        return max(0, self.kept - self.saved)


def walked(config: Frozen, setting: Setting, *, learning: bool = False, forgets: bool = False) -> Walk:
    """Through the model: forwards, and backwards where it is learning; `forgets` activations and computes them anew."""
    setting = replace(setting, past=0)
    depths = _depths(config)
    if all(layers < (MORE + 1) * period for layers, period in depths.values()):
        return _walk_of(_run(config, setting, learning, forgets))
    base = {name: MORE * period + layers % period for name, (layers, period) in depths.items()}
    most = _run(_shallow(config, base), setting, learning, forgets)
    found = most
    for name, (layers, period) in depths.items():
        if layers > base[name]:
            less = _run(_shallow(config, base | {name: base[name] - period}), setting, learning, forgets)
            found = found + (most - less) * ((layers - base[name]) // period)
    return _walk_of(found)


def _depths(config: Any) -> dict[str, tuple[int, int]]:
    """Of each stack: its layers, and after how many of them its blocks repeat; one of a single block runs whole."""
    inner = config.encoder if config.kind_or_name() == "sentence" else config
    stacks = {name: getattr(inner, name, None) for name in STACKS}
    return {
        name: (c.layers, len(c.pattern)) for name, c in stacks.items() if isinstance(c, StackConfig) and not c.shared
    }


def _shallow(config: Any, layers: dict[str, int]) -> Any:
    if config.kind_or_name() == "sentence":
        return config.replace(encoder=_shallow(config.encoder, layers))
    changed = {
        name: getattr(config, name).replace(layers=min(n, getattr(config, name).layers)) for name, n in layers.items()
    }
    return config.replace(**changed)


@dataclass(frozen=True)
class RunBytes:
    """Bytes of one run; the peak of each moment of it: of the first and of the last block of a stack, and between."""

    inputs: Number
    saved: Number
    kept: Number
    output: Number
    peaks: dict[str, Number] = field(default_factory=dict)

    def __add__(self, other: "RunBytes") -> "RunBytes":
        return self._with(other, 1.0)

    def __sub__(self, other: "RunBytes") -> "RunBytes":
        return self._with(other, -1.0)

    def _with(self, other: "RunBytes", sign: Number) -> "RunBytes":
        peaks = {
            name: value + sign * other.peaks.get(name, value if sign < 0 else 0.0) for name, value in self.peaks.items()
        }
        own = (getattr(self, name) + sign * getattr(other, name) for name in ("inputs", "saved", "kept", "output"))
        return RunBytes(*own, peaks=peaks)

    def __mul__(self, times: Number) -> "RunBytes":
        peaks = {name: value * times for name, value in self.peaks.items()}
        return RunBytes(self.inputs * times, self.saved * times, self.kept * times, self.output * times, peaks)


def _walk_of(found: RunBytes) -> Walk:
    peak = round(max(found.peaks.values()))
    return Walk(round(found.inputs), round(found.saved), round(found.kept), peak, round(found.output))


def _run(config: Any, setting: Setting, learning: bool, forgets: bool) -> RunBytes:
    """One run; nothing is allocated."""
    ground = TraceDevice("fake")
    model = ground.module(on_shapes(config, setting)).module.train(learning)
    if forgets:
        forget_activations(model)
    with ground.mode:
        asked = passes_of(config, setting)
        live = Live(model, asked.inputs)
        given = sum(_bytes(x) for x in asked.inputs)
        with live.watching(), torch.set_grad_enabled(learning):
            return _passes(model, asked, live, given) if learning else _reads(model, asked, live, given)


def _reads(model: nn.Module, asked: Passes, live: "Live", given: int) -> RunBytes:
    out = asked.read(model)
    return RunBytes(given, 0, 0, _bytes(out), live.peaks)


def _passes(model: nn.Module, asked: Passes, live: "Live", given: int) -> RunBytes:
    with live.saving():
        loss = asked.loss(model)
    saved, aside = live.saved, _kept_aside(model)
    kept = live.now + aside
    loss.backward()
    return RunBytes(given, saved, kept, _bytes(loss), {moment: peak + aside for moment, peak in live.peaks.items()})


def _kept_aside(model: nn.Module) -> int:
    """A block that is computed again keeps the state of the random numbers that it began with."""
    again = sum(isinstance(one, Block) and "forward" in vars(one) for one in model.modules())
    shared = [one for one in model.modules() if isinstance(one, Stack) and one.config.shared]
    again += sum(one.config.layers - 1 for one in shared if "forward" in vars(one.blocks[0]))
    return again * RANDOM_STATE


def _bytes(x: Tensor) -> int:
    return x.untyped_storage().nbytes()


class Live(TorchDispatchMode):
    """Bytes of all results that are alive, and the most there were in each moment of a pass."""

    def __init__(self, model: nn.Module, inputs: Iterable[Tensor] = ()) -> None:
        super().__init__()
        self.model, self.now, self.moment = model, 0, "before"
        self.peaks: dict[str, Number] = {"before": 0}
        self._lasting = {x.untyped_storage()._cdata for x in (*model.parameters(), *model.buffers())}
        self._there = self._lasting | {x.untyped_storage()._cdata for x in inputs}
        self._alive: dict[int, Any] = {}
        self._saved: dict[int, int] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        scratch = _scratch(func, args, kwargs or {})
        for x in out if isinstance(out, list | tuple) else (out,):
            if isinstance(x, Tensor):
                self._made(x)
        self._reach(self.now + scratch)
        return out

    def _made(self, x: Tensor) -> None:
        storage = x.untyped_storage()
        key = storage._cdata
        if key in self._alive or key in self._there:
            return
        size = storage.nbytes()
        self._alive[key] = weakref.ref(storage, partial(self._gone, key, size))
        self.now += size

    def _gone(self, key: int, size: int, _: Any) -> None:
        self._alive.pop(key, None)
        self.now -= size

    def _reach(self, size: int) -> None:
        self.peaks[self.moment] = max(self.peaks.get(self.moment, 0), size)

    @property
    def saved(self) -> int:
        return sum(self._saved.values())

    @contextmanager
    def saving(self) -> Iterator[None]:
        """Bytes kept for the backward pass: each storage once, parameters and buffers left out."""

        def pack(x: Tensor) -> Tensor:
            storage = x.untyped_storage()
            if storage._cdata not in self._lasting:
                self._saved[storage._cdata] = storage.nbytes()
            return x.detach()

        with torch.autograd.graph.saved_tensors_hooks(pack, lambda x: x):
            yield

    @contextmanager
    def watching(self) -> Iterator[None]:
        handles = []
        for name, stack in self.model.named_modules():
            if isinstance(stack, Stack):
                for place, block in enumerate(stack.blocks):
                    handles += self._mark(block, name, place, len(stack.blocks), len(stack.config.pattern))
        with removed_after(*handles), self:
            yield

    def _mark(self, block: nn.Module, name: str, place: int, total: int, period: int) -> list[Any]:
        """Moments are named by how far a block stands from either end, so that they are the same at every depth."""
        near = place if place < period else place - total if place >= total - period else "between"

        def enter(moment: str) -> None:
            self.moment = moment
            self._reach(self.now)

        def leave(_: Any, __: Any, out: Any) -> None:
            enter(f"{name} after {near}")
            if isinstance(out, Tensor) and out.requires_grad:
                out.register_hook(lambda _: enter(f"{name} back {near}"))

        return [
            block.register_forward_pre_hook(lambda *_: enter(f"{name} {near}")),
            block.register_forward_hook(leave),
        ]


def _scratch(func: Any, args: Any, kwargs: Any) -> int:
    """Bytes that an operation works in: torch's CPU attention a block of scores for each thread, forwards and
    backwards, and a copy of a bias whose last axis does not lie in one piece; a softmax of rows that may be empty a
    note of which scores are -inf."""
    if func is FLASH:
        mask = kwargs.get("attn_mask")
        copied = 0 if mask is None or mask.stride(-1) in (0, 1) else mask.nbytes
        return copied + _flash_scratch(args[0], args[1], args[2])[0]
    if func is FLASH_BACK:
        gradient = args[0]
        # The kernel wants positions before heads, as they are where heads are joined.
        copied = 0 if gradient.transpose(1, 2).is_contiguous() else gradient.nbytes
        return copied + _flash_scratch(args[1], args[2], args[3])[1]
    if func is SOFTMAX:
        return args[0].numel()
    return 0


def _flash_scratch(q: Tensor, k: Tensor, v: Tensor) -> tuple[int, int]:
    """Scores in float32, and forwards in half precision once more in that."""
    threads, queries, keys = torch.get_num_threads(), q.shape[2], k.shape[2]
    rows = min(256 if queries >= 768 else 64 if queries >= 192 else 32, queries)
    columns = min(512, keys)
    half = 2 * threads * rows * columns if q.dtype.itemsize < 4 else 0
    return 4 * threads * rows * (columns + 2 + max(q.shape[3], v.shape[3])) + half, 8 * threads * rows * columns
