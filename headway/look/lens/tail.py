"""The way from the last block to the words: of headway's models it is known, of others it is found by watching.

A module that was given what the last block gave, one that was given what that one gave, … until the model's own answer:
so the final norm is found, and whatever a head is made of (BERT's has a layer of its own), by no name at all. Between
two of them there may be a factor, as in T5. Whoever calls this compares what comes out with the model's own.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.look.lens.blocks import same
from headway.models.encoder import Masked
from headway.models.language import Language
from headway.models.seq2seq import Seq2Seq

# Vectors of a depth -> logits of words.
Readout = Callable[[Tensor], Tensor]
STEPS = 8  # modules in a row from the last block to the words, at most


def known(model: nn.Module) -> Readout | None:
    """The way of headway's own models."""
    if isinstance(model, Language):
        return lambda x: model.logits(model.stack.norm(x))
    if isinstance(model, Masked) and model.word_head is not None:
        return lambda x: model.words(model.stack.norm(x))
    if isinstance(model, Seq2Seq):
        return lambda x: model.logits(model.decoder.norm(x))
    return None


@dataclass(frozen=True, eq=False)
class Step:
    """A module that was called with one tensor and gave one."""

    module: nn.Module
    given: Tensor
    result: Tensor


class Watched:
    """What ran since the last block, each step by reference."""

    def __init__(self, model: nn.Module, blocks: dict[nn.Module, str]) -> None:
        inside = {part for block in blocks for part in block.modules()}
        self.model, self.blocks = model, blocks
        self.others = set(model.modules()) - inside
        self.steps: list[Step] = []

    def after(self, part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if part in self.blocks:
            self.steps.clear()
        elif part in self.others and len(args) == 1 and not kwargs and isinstance(result, Tensor):
            self.steps += [Step(part, one.detach(), result.detach()) for one in args if isinstance(one, Tensor)]

    def way(self, start: Tensor, end: Tensor) -> Readout | None:
        """From what the last block gave to the model's answer, through modules that ran."""
        found = self._way(start, end, STEPS)
        return None if not found else lambda x: _through(found, x)

    def _way(self, start: Tensor, end: Tensor, steps: int) -> list[Readout] | None:
        if (last := self._end(start, end)) is not None:
            return last
        for step in self.steps if steps else []:
            factor = None if same(step.given, step.result) else _factor(start, step.given)
            rest = None if factor is None else self._way(step.result, end, steps - 1)
            if factor is not None and rest is not None:
                return [_times(factor), step.module, *rest]
        return None

    def _end(self, start: Tensor, end: Tensor) -> list[Readout] | None:
        """Nothing, a factor, or a vector that the model holds and adds (BART): seen at the last place only."""
        if same(start, end):
            return []
        if start.shape != end.shape or not end.numel():
            return None
        one, other = start[0, -1], end[0, -1]
        if (factor := _factor(one, other)) is not None:
            return [_times(factor)]
        held = (
            x.detach().flatten() for x in (*self.model.buffers(), *self.model.parameters()) if x.numel() == len(one)
        )
        return next(([_plus(x)] for x in held if torch.allclose(one + x, other, rtol=1e-4, atol=1e-5)), None)


def _through(way: list[Readout], x: Tensor) -> Tensor:
    for step in way:
        x = step(x)
    return x


def _times(factor: float) -> Readout:
    return lambda x: x if factor == 1.0 else x * factor


def _plus(vector: Tensor) -> Readout:
    return lambda x: x + vector


def _factor(one: Tensor, other: Tensor) -> float | None:
    """What `one` was multiplied by to give `other`; None where it was not."""
    if same(one, other):
        return 1.0
    if one.shape != other.shape or not one.numel():
        return None
    at = one.abs().argmax()
    factor = (other.flatten()[at] / one.flatten()[at]).item()
    return factor if factor and (one * factor - other).abs().max() <= 1e-5 * other.abs().max() else None
