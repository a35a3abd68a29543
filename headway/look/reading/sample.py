"""A model and one input of it: what it reads, how it is called, and where each of its attentions belongs."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

import torch
from torch import Tensor, nn

from headway.look.record import Kind, Side
from headway.nn.modes import modes_kept


@runtime_checkable
class Known(Protocol):
    """What an attention says of itself."""

    @property
    def name(self) -> str: ...
    @property
    def mechanism(self) -> str: ...
    @property
    def shape(self) -> tuple[int, int, int, int]: ...


class Place(NamedTuple):
    """The kind of an attention, which side asks in it and which answers."""

    kind: Kind
    queries: int = 0
    keys: int = 0


@dataclass(frozen=True, eq=False)
class Sample:
    """Everything that is needed to run a model once and to say what its attentions are between."""

    title: str
    model: nn.Module
    sides: tuple[Side, ...]
    call: Callable[[], Any]  # runs every attention; what it gives is not looked at
    place: Callable[[Known], Place]
    logits: Callable[[], Tensor] | None = None  # of the next token (or of the hidden one) at each place of a side
    spoken: int = 0  # that side
    word: Callable[[int], str] = str  # a token of the vocabulary as text
    outputs: int = 0  # how many tokens it tells apart, where that is known
    notes: tuple[str, ...] = ()

    def run(self) -> Any:
        """One pass, in use (eval) and without gradients."""
        with at_rest(self.model):
            return self.call()

    def answer(self) -> Tensor:
        """The logits, in the same way."""
        assert self.logits is not None
        with at_rest(self.model):
            return self.logits()


@contextmanager
def at_rest(model: nn.Module) -> Iterator[None]:
    """In use (eval), without gradients; afterwards each part is in the mode that it had."""
    with modes_kept(model), torch.no_grad():
        model.eval()
        yield
