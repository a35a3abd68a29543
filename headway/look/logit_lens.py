"""What a model would say if it ended after each layer: the last norm and the head on every block's vectors.

Known as the logit lens. The last depth is the model's own answer. Where the way from a block's vectors to words cannot
be found, or does not give the model's own answer from the last block, there is no lens.

The way from the last block to the words is known for headway's models; for others it is found while they run: a module
whose input is the output of the last block, one whose input is that module's output, … until the model's own answer.
So the final norm is found, and whatever a head is made of (BERT's has a layer of its own), by no name at all. Between
two of them there may be a factor, as in T5.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.look.record import Lens
from headway.models.encoder import Masked
from headway.models.language import Language
from headway.models.seq2seq import Seq2Seq
from headway.observe.hooks import every_module, first_tensor, is_block

PLACES = 256  # of a longer text, the last ones
NUMBERS = 2**22  # logits that are computed at a time
CLOSE = 1e-4  # by which the last depth may differ from the model's own logits, relative to the largest

Word = Callable[[int], str]
# Vectors of a depth -> logits of words.
Readout = Callable[[Tensor], Tensor]
STEPS = 8  # modules in a row from the last block to the words, at most


class NoLogitLens(Exception):
    """Says in one sentence why there is none."""


def blocks(module: nn.Module) -> dict[nn.Module, str]:
    """The outermost modules that stand in a list of their kind, each with the name of that list."""
    found: dict[nn.Module, str] = {}
    outer: list[str] = []
    for name, part in module.named_modules():
        if isinstance(part, nn.ModuleList) and not any(name.startswith(f"{one}.") for one in outer):
            inside = [one for one in part if is_block(one)]
            outer += [name] if inside else []
            found |= dict.fromkeys(inside, name)
    return found


class BlockOutputs:
    """Of the last list of blocks that runs: what its first block reads and what each of them gives, at some places."""

    def __init__(self, found: dict[nn.Module, str], places: Callable[[int], Sequence[int]]) -> None:
        self.found, self.places = found, places
        self.first: nn.Module | None = None
        self.seen: list[Float[Tensor, "p D"]] = []  # of item 0; copies, since a model may go on in place
        self.last: Tensor | None = None  # what the last block gave, as it is

    def before(self, part: nn.Module, args: tuple[Any, ...]) -> None:
        if part not in self.found:
            return
        given = first_tensor(args)
        if self._begins(part, given):
            self.first, self.seen = part, []
            self._keep(given)

    def _begins(self, block: nn.Module, given: Tensor | None) -> bool:
        """Another list, or the same anew; a block that reads what it gave itself goes on."""
        if self.first is None or self.found[block] != self.found[self.first]:
            return True
        return block is self.first and (given is None or self.last is None or not same(given, self.last))

    def after(self, part: nn.Module, kwargs: dict[str, Any], result: Any) -> None:
        if part in self.found:
            if not self.seen:  # torch shows arguments by name only now
                self._keep(first_tensor(kwargs))
            self._keep(first_tensor(result))

    def _keep(self, given: Tensor | None) -> None:
        self.last = None if given is None else given.detach()
        if self.last is not None and self.last.ndim == 3:
            self.seen.append(self.last[0, list(self.places(self.last.shape[1]))])


def same(one: Tensor, other: Tensor) -> bool:
    """The same numbers in the same place; a view of other shape may lie between."""
    return one.data_ptr() == other.data_ptr() and one.numel() == other.numel()


def known_readout(model: nn.Module) -> Readout | None:
    """The way of headway's own models."""
    if isinstance(model, Language):
        leave = nn.Identity() if model.project_out is None else model.project_out
        return lambda x: model.logits(leave(model.stack.norm(x)))
    if isinstance(model, Masked) and model.word_head is not None:
        return lambda x: model.words(model.stack.norm(x))
    if isinstance(model, Seq2Seq):
        return lambda x: model.logits(model.decoder.norm(x))
    return None


@dataclass(frozen=True, eq=False)
class ReadoutStep:
    """A module that was called with one tensor and gave one."""

    module: nn.Module
    given: Tensor
    result: Tensor


class ReadoutSearch:
    """What ran since the last block, each step by reference."""

    def __init__(self, model: nn.Module, blocks: dict[nn.Module, str]) -> None:
        inside = {part for block in blocks for part in block.modules()}
        self.model, self.blocks = model, blocks
        self.others = set(model.modules()) - inside
        self.steps: list[ReadoutStep] = []

    def after(self, part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        if part in self.blocks:
            self.steps.clear()
        elif part in self.others and len(args) == 1 and not kwargs and isinstance(result, Tensor):
            self.steps += [ReadoutStep(part, one.detach(), result.detach()) for one in args if isinstance(one, Tensor)]

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


@torch.no_grad()
def logit_lens(
    model: nn.Module,
    run: Callable[[], Tensor],
    *,
    side: int,
    word: Word,
    places: Sequence[int] | None = None,
    top: int = 5,
) -> Lens | str:
    """The likeliest words by layer at these places of item 0, or a sentence that says why there are none.

    `run` calls the model and gives its logits, B L V; what it computes does not change by a bit. `places` are by
    default all, of a long text the last 256.
    """
    found = blocks(model)
    stream, tail = BlockOutputs(found, lambda length: _chosen(places, length)), ReadoutSearch(model, found)
    with _observed(stream, tail):
        out = run()
    try:
        chosen = _check(model, stream, out, places)
        readout = _readout(model, stream, tail, out, own := out[0, list(chosen)])
    except NoLogitLens as why:
        return str(why)
    depths = [*(_likeliest(readout, x, out.shape[2], top) for x in stream.seen[:-1]), _top(own, top)]
    return _lens(depths, side=side, places=chosen, word=word, length=out.shape[1])


@contextmanager
def _observed(stream: BlockOutputs, tail: ReadoutSearch) -> Iterator[None]:
    def after(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        stream.after(part, kwargs, result)
        tail.after(part, args, kwargs, result)

    with every_module(stream.before, after, with_kwargs=True):
        yield


def _check(model: nn.Module, stream: BlockOutputs, out: Tensor, places: Sequence[int] | None) -> tuple[int, ...]:
    """The places to look at, where there can be a lens."""
    if out.ndim != 3 or not says_words(model, out.shape[2]):
        raise NoLogitLens("No words by layer: this model does not answer with words.")
    chosen = _chosen(places, out.shape[1])
    if not chosen or len(chosen) < len(places or ()):
        raise ValueError(f"the text has tokens 0 to {out.shape[1] - 1}, and not all of those asked for: {places}")
    if len(stream.seen) < 2 or stream.last is None or stream.last.shape[:2] != out.shape[:2]:
        raise NoLogitLens("No words by layer: the model has no row of blocks that could be followed.")
    if any(one.shape != other.shape for one, other in pairwise(stream.seen)):
        raise NoLogitLens("No words by layer: the width changes from block to block.")
    return chosen


def says_words(model: nn.Module, size: int) -> bool:
    """Whether so many outputs are one for each word: as many as the model's own word table has rows."""
    if known_readout(model) is not None:
        return True
    ask = getattr(model, "get_output_embeddings", None)
    if ask is not None:
        return size == getattr(getattr(ask(), "weight", None), "shape", (0,))[0]
    tables = [part.num_embeddings for part in model.modules() if isinstance(part, nn.Embedding)]
    return size == max(tables, default=0)


def _chosen(places: Sequence[int] | None, length: int) -> tuple[int, ...]:
    """Those of the places that a text of this length has."""
    if places is None:
        return tuple(range(max(length - PLACES, 0), length))
    return tuple(place for place in places if 0 <= place < length)


def _readout(
    model: nn.Module, stream: BlockOutputs, tail: ReadoutSearch, out: Tensor, own: Float[Tensor, "p V"]
) -> Readout:
    """The way to words; from the last block, it has to give the model's own."""
    assert stream.last is not None
    readout = known_readout(model) or tail.way(stream.last, out)
    if readout is None:
        raise NoLogitLens("No words by layer: no way was found from the last block to the model's answer.")
    for x, logits in zip(*(one.split(_rows(own.shape[1])) for one in (stream.seen[-1], own)), strict=True):
        made = readout(x[None])[0]
        if made.shape != logits.shape or not (made - logits).abs().max() <= CLOSE * logits.abs().max().clamp(min=1.0):
            raise NoLogitLens("No words by layer: from the last block, the head does not give the model's own answer.")
    return readout


def _rows(words: int) -> int:
    return max(1, NUMBERS // max(words, 1))


def _top(logits: Float[Tensor, "p V"], top: int) -> tuple[Tensor, Tensor]:
    wide = logits if logits.dtype.itemsize >= 4 else logits.float()
    found = wide.softmax(-1).topk(min(top, logits.shape[1]), -1)
    return found.values.cpu(), found.indices.cpu()


def _likeliest(readout: Readout, x: Float[Tensor, "p D"], words: int, top: int) -> tuple[Tensor, Tensor]:
    found = [_top(readout(some[None])[0], top) for some in x.split(_rows(words))]
    return torch.cat([one for one, _ in found]), torch.cat([one for _, one in found])


def _lens(found: list[tuple[Tensor, Tensor]], *, side: int, places: tuple[int, ...], word: Word, length: int) -> Lens:
    texts = {number: word(number) for number in {n for _, ids in found for n in ids.flatten().tolist()}}
    return Lens(
        side,
        ("embedding", *map(str, range(1, len(found)))),
        places,
        tuple(tuple(tuple(texts[n] for n in row) for row in ids.tolist()) for _, ids in found),
        tuple(tuple(tuple(row) for row in shares.tolist()) for shares, _ in found),
        "" if len(places) == length else f"{len(places):,} of {length:,} places.",
    )
