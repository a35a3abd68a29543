"""Looking as a job: a target is opened, a target text is written where none was given, and the model is looked at."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from headway.app.looked.asked import given_of, wanted_of
from headway.app.looked.opened import BY_CHANCE, RANDOM, Opened, open_target
from headway.decoding import Request, generate
from headway.look.make import Say, seen
from headway.look.reading import Given, Sample, own_kind, read, vocabulary_of
from headway.look.reading.foreign import NEW, WRITTEN
from headway.look.reading.sample import at_rest
from headway.look.view import View
from headway.observe.weights import Selection

__all__ = ["BY_CHANCE", "RANDOM", "WRITTEN", "Opened", "given_of", "open_target", "show", "view_of", "wanted_of"]


def view_of(
    opened: Opened,
    given: Given,
    *,
    selection: Selection = Selection(),  # noqa: B008
    lens: bool = True,
    say: Say = lambda line: None,
) -> View:
    """The model, looked at on what was given; `say` hears how far it is."""
    sample = _read(opened, given)
    notes = (*opened.notes, *sample.notes)
    return View.of(seen(replace(sample, notes=notes), selection=selection, lens=lens, say=say))


def _read(opened: Opened, given: Given) -> Sample:
    """The sample; a model of ours that reads a source writes the target where there is none."""
    model, tokenizer = opened.model, opened.tokenizer
    if own_kind(model) not in ("seq2seq", "recurrent") or given.pair is not None:
        return read(model, given, tokenizer=tokenizer, title=opened.title)
    # With a target of nothing the source is refused, if it cannot be read, before anything is written.
    read(model, replace(given, pair=()), tokenizer=tokenizer, title=opened.title)
    written = replace(given, pair=_written(model, given, tokenizer))
    sample = read(model, written, tokenizer=tokenizer, title=opened.title)
    return replace(sample, notes=(*sample.notes, WRITTEN))


def _written(model: Any, given: Given, tokenizer: Any) -> tuple[int, ...]:
    """What the model makes of the source, the likeliest token each time."""
    if given.text is None:
        assert isinstance(given.inputs, Tensor)
        prompt = tuple(given.inputs.reshape(-1, given.inputs.shape[-1])[0].tolist())
    else:
        prompt = vocabulary_of(tokenizer).cut(given.text, None).ids
    with at_rest(model):
        return generate(model, [Request(prompt=prompt, max_new_tokens=NEW)], past_length="stop")[0].tokens


def show(
    model: nn.Module | str | Path | tuple[Any, ...],
    text: str | None = None,
    *,
    pair: str | Sequence[int] | None = None,
    image: str | Path | None = None,
    tokenizer: Any = None,
    inputs: Tensor | Mapping[str, Any] | None = None,
    tokens: Sequence[str] | None = None,
    layers: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    rows: range | None = None,
    lens: bool = True,
    seed: int = 0,
) -> View:
    """Look at a model's attention: a page in a notebook, a drawing when printed, `.save(path)`, `.png(path)`.

    `model` is a module (ours, one of transformers with its `tokenizer`, or any other with its `inputs`), what
    `headway.load` gives, or a target: PRESET | directory | run | package.module:function. `pair` is a second text, or
    the target of a model that translates; `tokens` are names for the places of `inputs`. Layers and heads are counted
    from 0, layers in the order in which they run; `rows` is a range. A layer that is not there is refused, heads and
    rows that no layer has are named in a note.
    """
    given, selection = given_of(text, pair, image, inputs, tokens), wanted_of(layers, heads, rows)
    return view_of(_opened(model, tokenizer, seed), given, selection=selection, lens=lens)


def _opened(model: Any, tokenizer: Any, seed: int) -> Opened:
    if isinstance(model, str | Path):
        found = open_target(str(model), seed=seed)
        return found if tokenizer is None else replace(found, tokenizer=tokenizer)
    if isinstance(model, tuple) and len(model) > 1:
        model, tokenizer = model[0], model[1] if tokenizer is None else tokenizer
    if not isinstance(model, nn.Module):
        raise ValueError(f"a {type(model).__name__} cannot be looked at: give a module, a directory or a preset")
    inner = getattr(model, "_orig_mod", None)  # hooks do not go through what torch.compile made
    model = inner if isinstance(inner, nn.Module) else model
    return Opened(model, tokenizer, type(model).__name__)
