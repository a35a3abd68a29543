"""Looking at a model as a job: what was asked for is checked, a target is opened, and the model runs once."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from operator import index
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from headway.config import Frozen
from headway.config.size_limits import available_memory
from headway.decoding import Request, generate
from headway.hub import target
from headway.hub.load import OpenModel, open_model
from headway.look.reading import ModelInputs, ModelSample, numbers, own_kind, read, vocabulary_of
from headway.look.reading.foreign import NEW, WRITTEN
from headway.look.reading.sample import at_rest
from headway.look.view import Say, View, view_sample
from headway.models import count
from headway.observe.weights import Selection
from headway.render import byte_size

SEEDS = 2**63
BY_CHANCE = "There is no tokenizer: the text is cut at its words, and each has a token by chance."


def open_target(text: str, *, seed: int = 0, dtype: str | None = None, weights: str | None = None) -> OpenModel:
    """What a word on the command line means: PRESET | directory | run | package.module:function."""
    if not 0 <= seed < SEEDS:
        raise ValueError(f"a seed is a whole number from 0 to 2**63 - 1, not {seed}")
    found = target.resolve(text)
    if isinstance(found, target.Preset):
        _check_room(found.config, found.name, torch.float32 if dtype is None else getattr(torch, dtype))
    opened = open_model(text, dtype=dtype, weights=weights, seed=seed)
    if opened.beside is not None:
        return replace(opened, tokenizer=opened.beside)
    config = getattr(opened.model, "config", None)
    words = _words(config) if opened.weights != "loaded" and isinstance(config, Frozen) else 0
    # No text could mean anything to random weights: its words get tokens of their own.
    return replace(opened, tokenizer=numbers(words), notes=(*opened.notes, BY_CHANCE)) if words else opened


def _check_room(config: Any, name: str, dtype: torch.dtype) -> None:
    """Refuse weights that this machine cannot hold, before it tries."""
    needed, free = count(config) * dtype.itemsize, available_memory()
    if free is not None and needed > free:
        raise ValueError(
            f"{name} has {byte_size(needed)} of weights in {str(dtype).removeprefix('torch.')}, and "
            f"{byte_size(free)} of memory are free here: take a smaller model of its kind"
        )


def _words(config: Any) -> int:
    """How many tokens any text of it may have; 0: it reads no text."""
    inner = getattr(config, "encoder", config) if config.kind == "sentence" else config
    names = ("vocabulary", "source_vocabulary", "target_vocabulary")
    return min((found for name in names if (found := getattr(inner, name, None))), default=0)


def view_of(
    loaded: OpenModel,
    given: ModelInputs,
    *,
    selection: Selection = Selection(),  # noqa: B008
    lens: bool = True,
    say: Say = lambda line: None,
) -> View:
    """The model, looked at on what was given; `say` hears how far it is."""
    sample = _sample(loaded, given)
    notes = (*loaded.notes, *sample.notes)
    return view_sample(replace(sample, notes=notes), selection=selection, lens=lens, say=say)


def _sample(loaded: OpenModel, given: ModelInputs) -> ModelSample:
    """The sample; a model of ours that reads a source writes the target where there is none."""
    model, tokenizer = loaded.model, loaded.tokenizer
    if own_kind(model) not in ("seq2seq", "recurrent") or given.pair is not None:
        return read(model, given, tokenizer=tokenizer, title=loaded.title)
    # With a target of nothing the source is refused, if it cannot be read, before anything is written.
    read(model, replace(given, pair=()), tokenizer=tokenizer, title=loaded.title)
    written = replace(given, pair=_generate_target(model, given, tokenizer))
    sample = read(model, written, tokenizer=tokenizer, title=loaded.title)
    return replace(sample, notes=(*sample.notes, WRITTEN))


def _generate_target(model: Any, given: ModelInputs, tokenizer: Any) -> tuple[int, ...]:
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
    given, selection = inputs_of(text, pair, image, inputs, tokens), selection_of(layers, heads, rows)
    return view_of(_loaded_model(model, tokenizer, seed), given, selection=selection, lens=lens)


def _loaded_model(model: Any, tokenizer: Any, seed: int) -> OpenModel:
    if isinstance(model, str | Path):
        found = open_target(str(model), seed=seed)
        return found if tokenizer is None else replace(found, tokenizer=tokenizer)
    if isinstance(model, tuple) and len(model) > 1:
        model, tokenizer = model[0], model[1] if tokenizer is None else tokenizer
    if not isinstance(model, nn.Module):
        raise ValueError(f"a {type(model).__name__} cannot be looked at: give a module, a directory or a preset")
    inner = getattr(model, "_orig_mod", None)  # hooks do not go through what torch.compile made
    model = inner if isinstance(inner, nn.Module) else model
    return OpenModel(model, type(model).__name__, tokenizer=tokenizer)


def inputs_of(text: Any, pair: Any = None, image: Any = None, inputs: Any = None, tokens: Any = None) -> ModelInputs:
    """What the model is to read."""
    if text is not None:
        _text(text, "the text")
    pair = _whole_numbers(pair)
    if not isinstance(pair, tuple | None):
        _text(pair, "the pair")
    if not isinstance(image, str | Path | None):
        raise ValueError(f"image= is the path of a picture, not {_named(image)}: a tensor goes into inputs=")
    if not isinstance(inputs, Tensor | Mapping | None):
        raise ValueError(f"inputs= is a tensor or tensors by their names, not {_named(inputs)}")
    if tokens is not None and not isinstance(tokens, Iterable):
        raise ValueError(f"tokens= are names, one for each place, not {_named(tokens)}")
    return ModelInputs(text, pair, image, inputs, None if tokens is None else tuple(map(str, tokens)))


def _text(value: Any, what: str) -> None:
    if not isinstance(value, str):
        raise ValueError(f"{what} is one str, not {_named(value)}: decode bytes, join a list, or pass inputs=")
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise ValueError(f"{what} is not UTF-8: it holds half a character, {value[error.start]!r}, alone") from None


def _named(value: Any) -> str:
    """
    >>> _named(b"a"), _named([0.5] * 99)
    ("b'a'", 'a list')
    """
    shown = repr(value)
    return shown if len(shown) < 40 else f"a {type(value).__name__}"


def _whole_numbers(value: Any) -> Any:
    """Numbers of tokens, whoever holds them; anything else as it is."""
    try:
        return value if isinstance(value, str | bytes) else tuple(index(one) for one in value)
    except TypeError:
        return value


def selection_of(layers: Any, heads: Any, rows: Any) -> Selection:
    """What is asked of every attention; layers and heads are whole numbers, rows a range.

    >>> selection_of([2, 0], None, range(1, 5))
    Selection(layers=(0, 2), heads=None, rows=(1, 4))
    """
    if not isinstance(rows, range | None):
        raise ValueError(f"rows= is a range, such as range(0, 8), not {_named(rows)}")
    if rows is not None and (_none_or_negative(rows) or rows.step != 1):
        raise ValueError(f"rows are counted from 0 on and stand one after the other, at least one of them, not {rows}")
    return Selection(
        _numbers("layers", layers), _numbers("heads", heads), None if rows is None else (rows.start, len(rows))
    )


def _numbers(name: str, asked: Any) -> tuple[int, ...] | None:
    if asked is None:
        return None
    try:
        found = sorted({index(one) for one in asked})
    except TypeError:
        raise ValueError(f"{name}= are whole numbers in a list, such as [0, 3], not {_named(asked)}") from None
    if _none_or_negative(found):
        raise ValueError(f"{name} are counted from 0 on, and at least one is asked for, not {_named(asked)}")
    return tuple(found)


def _none_or_negative(numbers: Any) -> bool:
    return len(numbers) == 0 or min(numbers) < 0
