"""A model under audit: its module, how to call it, and what it can be asked."""

import copy
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn

from headway.audit.subject.adapter import Adapter, Step
from headway.audit.subject.call import call
from headway.audit.subject.entrance import Entrance
from headway.audit.subject.output import chosen
from headway.audit.subject.reading import Overwrite, Reading

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
class Subject:
    """`run` reads; `can` says what else is possible."""

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
        placed = [self.placed(one) for one in readings]
        if watch is not None and placed:
            watch(placed[0])
        with torch.no_grad():
            step = self._opened(placed[0]) if stepwise else lambda reading: call(self.module, self.adapter, reading)
            return [self._one(step, one, watch) for one in placed]

    def _opened(self, first: Reading) -> Step:
        assert self.adapter.session is not None
        return self.adapter.session(self.module, first)

    def _one(self, step: Step, reading: Reading, watch: Callable[[Reading], None] | None) -> Tensor:
        if watch is not None:
            watch(reading)
        with entering(reading, None):
            return chosen(step(reading), self.adapter.output)

    def follow(self, reading: Reading) -> tuple[Tensor, Tensor]:
        """The result of one reading, and the vectors of its inputs that it was made from, both with gradients."""
        reading, leaves = self.placed(reading), []

        def leaf(vectors: Tensor) -> Tensor:
            leaves.append(vectors.detach().requires_grad_())
            return leaves[0]

        if self.adapter.inputs != "tokens":
            reading = replace(reading, inputs=leaf(_written(reading.inputs, reading.overwrite)), overwrite=None)
        with torch.enable_grad(), entering(reading, leaf if self.adapter.inputs == "tokens" else None):
            out = chosen(call(self.module, self.adapter, reading), self.adapter.output)
        if not leaves:
            raise ValueError(WITHOUT["vectors"])
        return out, leaves[0]

    def can(self, *needs: str) -> str | None:
        """Why one of these is not possible; None where all are."""
        return next((WITHOUT[one] for one in needs if not self._has[one]), None)

    @cached_property
    def _has(self) -> dict[str, bool]:
        a, whole = self.adapter, self.adapter.call is not None
        return {
            "keep": "keep" in a.takes if whole else a.mask is not None,
            "positions": "positions" in a.takes if whole else a.positions is not None,
            "segments": "segments" in a.takes if whole else a.segments is not None,
            "source": "source" in a.takes if whole else a.source is not None,
            "cache": a.session is not None,
            "rebuild": a.rebuild is not None,
            "text": a.inputs != "images",
            "places": self.per_place,
            "vectors": self._sees_vectors(),
        }

    @cached_property
    def per_place(self) -> bool:
        """Whether there is a result for each position, not one for each item."""
        if self.adapter.inputs == "images":
            return False
        from headway.audit.search.draw import probe

        one, other = (probe(self, steps) for steps in (2, 3))
        first, second = (self.run([reading])[0] for reading in (one, other))
        follow = all(out.shape[:2] == reading.inputs.shape[:2] for out, reading in ((first, one), (second, other)))
        fixed = one.inputs.shape[1] == other.inputs.shape[1]  # a model of one length: a third axis has to tell then
        return follow and (first.ndim > 2 or not fixed)

    def _sees_vectors(self) -> bool:
        from headway.audit.search.draw import probe

        if self.adapter.inputs != "tokens":
            return True
        reading, seen = probe(self, 3), []
        with torch.no_grad(), entering(reading, lambda vectors: seen.append(vectors) or vectors):
            call(self.module, self.adapter, reading)
        return bool(seen) and seen[0].shape[:2] == reading.inputs.shape

    def learn(self, other: "Subject") -> None:
        """Take over what is known of another copy of the same model, in place of finding it out by readings."""
        self.__dict__.update(per_place=other.per_place, _has=other._has)

    def placed(self, reading: Reading) -> Reading:
        """On the model's device, and vectors and images in its own numbers."""
        moved = {
            name: one.to(self.device, self.dtype if one.is_floating_point() else one.dtype)
            for name, one in vars(reading).items()
            if isinstance(one, Tensor)
        }
        return replace(reading, **moved)

    def copied(self, dtype: torch.dtype | None = None) -> "Subject":
        """The same with weights of its own, in other numbers; a ValueError where it cannot be copied."""
        try:
            module = copy.deepcopy(self.module)
            return replace(self, module=module if dtype is None else module.to(dtype))
        except Exception as error:
            raise ValueError(f"the model cannot be copied: {type(error).__name__}: {error}") from error


@contextmanager
def entering(reading: Reading, change: Callable[[Tensor], Tensor] | None) -> Iterator[None]:
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

    return Entrance(tokens, change)


def _written(vectors: Tensor, over: Overwrite | None) -> Tensor:
    return vectors if over is None else over.applied(vectors)
