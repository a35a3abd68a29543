"""A module together with its adapter: it is run, with or without gradients or a cache, copied, and left as it was."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.adapter import Adapter, Overwrite, Reading, Step
from headway.adapt.call import EmbeddingHook, call, select_output
from headway.adapt.inputs import probe
from headway.nn.modes import modes_kept

WITHOUT = {
    "keep": "its call takes no mask of real inputs",
    "positions": "its call takes no positions",
    "segments": "nothing says how it keeps texts in one row apart",
    "cache": "nothing says how it reads with a cache",
    "source": "it has no encoder",
    "vectors": "nobody sees where its tokens become vectors",
    "places": "it does not have one result for each of its inputs",
    "rebuild": "nothing says how it is built anew",
    "text": "it reads images, which have no order",
}


@dataclass(frozen=True, eq=False)
class AdaptedModel:
    """A module and how to call it. `run` reads; `missing` says what it cannot be asked."""

    module: nn.Module
    adapter: Adapter
    name: str = "model"

    @cached_property
    def dtype(self) -> torch.dtype:
        """Of its parameters; of one without any, torch's own."""
        floats = (one.dtype for one in self.module.parameters() if one.is_floating_point())
        return next(floats, torch.get_default_dtype())

    @cached_property
    def device(self) -> torch.device:
        return next((one.device for one in self.module.parameters()), torch.device("cpu"))

    def run(
        self, readings: Sequence[Reading], *, stepwise: bool = False, watch: Callable[[Reading], None] | None = None
    ) -> list[Tensor]:
        """The result of each reading, without gradients; stepwise: each goes on where the one before stopped.

        `watch` is told what is about to be read.
        """
        prepared = [self.prepare(one) for one in readings]
        if watch is not None and prepared:
            watch(prepared[0])
        with torch.no_grad():
            step = (
                self._open_session(prepared[0])
                if stepwise
                else lambda reading: call(self.module, self.adapter, reading)
            )
            return [self._one(step, one, watch) for one in prepared]

    def _open_session(self, first: Reading) -> Step:
        assert self.adapter.session is not None
        return self.adapter.session(self.module, first)

    def _one(self, step: Step, reading: Reading, watch: Callable[[Reading], None] | None) -> Tensor:
        if watch is not None:
            watch(reading)
        with embedding_changes(reading, None):
            return select_output(step(reading), self.adapter.output)

    def run_with_gradients(self, reading: Reading) -> tuple[Tensor, Tensor]:
        """The result of one reading, and the vectors of its inputs that it was made from, both with gradients."""
        reading, leaves = self.prepare(reading), []

        def leaf(vectors: Tensor) -> Tensor:
            leaves.append(vectors.detach().requires_grad_())
            return leaves[0]

        if self.adapter.inputs != "tokens":
            reading = replace(reading, inputs=leaf(_written(reading.inputs, reading.overwrite)), overwrite=None)
        with torch.enable_grad(), embedding_changes(reading, leaf if self.adapter.inputs == "tokens" else None):
            out = select_output(call(self.module, self.adapter, reading), self.adapter.output)
        if not leaves:
            raise ValueError(WITHOUT["vectors"])
        return out, leaves[0]

    def missing(self, *needs: str) -> str | None:
        """Why one of these is not possible; None where all are."""
        return next((WITHOUT[one] for one in needs if not self._has[one]), None)

    @cached_property
    def _has(self) -> dict[str, bool]:
        a, whole = self.adapter, self.adapter.call is not None
        return {
            "keep": "keep" in a.takes if whole else a.mask is not None,
            "positions": "positions" in a.takes if whole else a.positions is not None,
            "segments": "segments" in a.takes if whole else a.segments is not None,
            "source": a.reads_source,
            "cache": a.session is not None,
            "rebuild": a.rebuild is not None,
            "text": a.inputs != "images",
            "places": self.per_position,
            "vectors": self._sees_vectors(),
        }

    @cached_property
    def per_position(self) -> bool:
        """Whether there is a result for each position, not one for each item."""
        if self.adapter.inputs == "images":
            return False
        one, other = (probe(self.adapter, steps) for steps in (2, 3))
        first, second = (self.run([reading])[0] for reading in (one, other))
        follow = all(out.shape[:2] == reading.inputs.shape[:2] for out, reading in ((first, one), (second, other)))
        fixed = one.inputs.shape[1] == other.inputs.shape[1]  # a model of one length: a third axis has to tell then
        return follow and (first.ndim > 2 or not fixed)

    def _sees_vectors(self) -> bool:
        if self.adapter.inputs != "tokens":
            return True
        reading, seen = probe(self.adapter, 3), []
        with torch.no_grad(), embedding_changes(reading, lambda vectors: seen.append(vectors) or vectors):
            call(self.module, self.adapter, reading)
        return bool(seen) and seen[0].shape[:2] == reading.inputs.shape

    def with_probes_of(self, other: "AdaptedModel") -> "AdaptedModel":
        """The same, with what is known of another copy of the model: finding it out again takes three readings."""
        self.__dict__.update(per_position=other.per_position, _has=other._has)
        return self

    def prepare(self, reading: Reading) -> Reading:
        """On the model's device, and vectors and images in its own numbers."""
        moved = {
            name: one.to(self.device, self.dtype if one.is_floating_point() else one.dtype)
            for name, one in vars(reading).items()
            if isinstance(one, Tensor)
        }
        return replace(reading, **moved)

    def copy(self, dtype: torch.dtype | None = None, *, share_weights: bool = False) -> "AdaptedModel":
        """The same in other numbers, with weights of its own, or with the same weights in memory and all else that
        reading may change (buffers, counters) of its own; a ValueError where it cannot be copied."""
        shared = {id(one): one for one in self.module.parameters()} if share_weights else {}
        try:
            module = copy.deepcopy(self.module, shared)
            return replace(self, module=module if dtype is None else module.to(dtype))
        except Exception as error:
            raise ValueError(f"the model cannot be copied: {type(error).__name__}: {error}") from error


@contextmanager
def embedding_changes(reading: Reading, change: Callable[[Tensor], Tensor] | None) -> Iterator[None]:
    """Writes over the vectors of tokens as the reading says, then changes them, while the model runs."""
    with ExitStack() as stack:
        written = [(reading.source, reading.source_overwrite, None), (reading.inputs, reading.overwrite, change)]
        for tokens, over, then in written:
            if tokens is not None and (over is not None or then is not None):
                stack.enter_context(_mode(tokens, over, then))
        yield


def _mode(tokens: Tensor, over: Overwrite | None, then: Callable[[Tensor], Tensor] | None) -> Any:
    if tokens.is_floating_point():
        return nullcontext()

    def change(vectors: Tensor) -> Tensor:
        vectors = _written(vectors, over)
        return vectors if then is None else then(vectors)

    return EmbeddingHook(tokens, change)


def _written(vectors: Tensor, over: Overwrite | None) -> Tensor:
    return vectors if over is None else over.applied(vectors)


@contextmanager
def restoring(model: nn.Module) -> Iterator[None]:
    """In use (eval), with gradients wherever they are asked for; modes and buffers come back."""
    buffers = [
        (module, name, one, one.detach().clone())
        for module in model.modules()
        for name, one in module._buffers.items()
        if one is not None
    ]
    try:
        with modes_kept(model), torch.inference_mode(False), torch.enable_grad():
            model.eval()
            yield
    finally:
        with torch.no_grad():
            for module, name, one, was in buffers:
                one.copy_(was)
                module._buffers[name] = one


def uncompiled(model: nn.Module) -> tuple[nn.Module, tuple[str, ...]]:
    """What torch.compile was given, since hooks and copies do not go through what it made; and a note of that."""
    inner = getattr(model, "_orig_mod", None)
    if not isinstance(inner, nn.Module):
        return model, ()
    return inner, ("It was compiled; the module that was given to torch.compile is examined.",)
