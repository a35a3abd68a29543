"""What a model would say if it ended after each layer: the last norm and the head on every block's vectors.

Known as the logit lens. The last depth is the model's own answer. Where the way from a block's vectors to words cannot
be found, or does not give the model's own answer from the last block, there is no lens.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from headway.look.lens.blocks import Stream, blocks
from headway.look.lens.tail import Readout, Watched, known
from headway.look.record import Lens

PLACES = 256  # of a longer text, the last ones
NUMBERS = 2**22  # logits that are computed at a time
CLOSE = 1e-4  # by which the last depth may differ from the model's own logits, relative to the largest

Word = Callable[[int], str]


class NoLens(Exception):
    """Says in one sentence why there is none."""


@torch.no_grad()
def lens_or_why(
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
    stream, tail = Stream(found, lambda length: _chosen(places, length)), Watched(model, found)
    with _watching(stream, tail):
        out = run()
    try:
        chosen = _check(model, stream, out, places)
        readout = _readout(model, stream, tail, out, own := out[0, list(chosen)])
    except NoLens as why:
        return str(why)
    depths = [*(_likeliest(readout, x, out.shape[2], top) for x in stream.seen[:-1]), _top(own, top)]
    return _lens(depths, side=side, places=chosen, word=word, length=out.shape[1])


@contextmanager
def _watching(stream: Stream, tail: Watched) -> Iterator[None]:
    def after(part: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], result: Any) -> None:
        stream.after(part, kwargs, result)
        tail.after(part, args, kwargs, result)

    # Hooks on all modules there are: a layer of torch that finds one of its own takes another way.
    handles = [register_module_forward_pre_hook(stream.before), register_module_forward_hook(after, with_kwargs=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _check(model: nn.Module, stream: Stream, out: Tensor, places: Sequence[int] | None) -> tuple[int, ...]:
    """The places to look at, where there can be a lens."""
    if out.ndim != 3 or not says_words(model, out.shape[2]):
        raise NoLens("No words by layer: this model does not answer with words.")
    chosen = _chosen(places, out.shape[1])
    if not chosen or len(chosen) < len(places or ()):
        raise ValueError(f"the text has tokens 0 to {out.shape[1] - 1}, and not all of those asked for: {places}")
    if len(stream.seen) < 2 or stream.last is None or stream.last.shape[:2] != out.shape[:2]:
        raise NoLens("No words by layer: the model has no row of blocks that could be followed.")
    if any(one.shape != other.shape for one, other in pairwise(stream.seen)):
        raise NoLens("No words by layer: the width changes from block to block.")
    return chosen


def says_words(model: nn.Module, size: int) -> bool:
    """Whether so many outputs are one for each word: as many as the model's own word table has rows."""
    if known(model) is not None:
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


def _readout(model: nn.Module, stream: Stream, tail: Watched, out: Tensor, own: Float[Tensor, "p V"]) -> Readout:
    """The way to words; from the last block, it has to give the model's own."""
    assert stream.last is not None
    readout = known(model) or tail.way(stream.last, out)
    if readout is None:
        raise NoLens("No words by layer: no way was found from the last block to the model's answer.")
    for x, logits in zip(*(one.split(_rows(own.shape[1])) for one in (stream.seen[-1], own)), strict=True):
        made = readout(x[None])[0]
        if made.shape != logits.shape or not (made - logits).abs().max() <= CLOSE * logits.abs().max().clamp(min=1.0):
            raise NoLens("No words by layer: from the last block, the head does not give the model's own answer.")
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
