"""Somebody else's model: in the manner of transformers with its tokenizer, or any module with its inputs."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headway.look.reading.called import (
    TARGETS,
    calling,
    check_names,
    config_of,
    logits_of,
    takes,
    translates,
    vocabulary_size,
)
from headway.look.reading.cutting import Cut
from headway.look.reading.given import Given, check_length, only_one, renamed, text_of
from headway.look.reading.images import address, patches, stretched
from headway.look.reading.pairs import target_cut, target_side
from headway.look.reading.sample import Sample, at_rest
from headway.look.reading.texts import ONE_OF_SEVERAL
from headway.look.reading.vectors import positions
from headway.look.reading.vocabulary import Vocabulary, numbers, vocabulary_of
from headway.look.reading.where import TARGET, reads_one_way, where
from headway.look.record import Side

NEW = 64  # tokens of a target that the model writes itself, at most
WRITTEN = "The target was written by the model itself: the likeliest token each time."


def read_foreign(model: nn.Module, given: Given, tokenizer: Any, title: str) -> Sample:
    """From tensors as they are; else from an image or a text by way of the tokenizer."""
    if given.inputs is not None:
        inputs = given.inputs if isinstance(given.inputs, Mapping) else {_main(model): given.inputs}
        if inputs is given.inputs:
            check_names(model, inputs, title)
        return _from_tensors(model, inputs, given, tokenizer, title)
    if tokenizer is None:
        raise ValueError(
            f"{title} has no tokenizer of its own: let the function give the model and its tokenizer (or what prepares "
            "its images), or in Python pass tokenizer= or inputs="
        )
    if given.image is not None:
        return _from_tensors(model, _processed(given, tokenizer, title), given, None, title)
    vocabulary, text = vocabulary_of(tokenizer), text_of(given, title)
    if translates(model):
        return _pair(model, given, vocabulary, text, title)
    pair = given.pair
    if pair is not None and not isinstance(pair, str):
        raise ValueError(f"{title} reads no target: give the pair as a text")
    if reads_one_way(model):
        only_one(given, title)
    cut = vocabulary.cut(text, pair)
    check_length(len(cut.ids), None, what="the text", title=title)
    side = renamed(vocabulary.side("text", cut), given.tokens)
    return _sample(model, _keywords(model, cut), (side,), vocabulary, title)


def _main(model: nn.Module) -> str:
    named = getattr(model, "main_input_name", None)
    return named if isinstance(named, str) and named in takes(model) else "inputs"


def _processed(given: Given, processor: Any, title: str) -> Mapping[str, Any]:
    """An image by the model's own processor, which is given in the place of the tokenizer."""
    from headway.data.image import open_picture

    assert given.image is not None
    picture = open_picture(given.image, 3)
    try:
        return dict(processor(images=picture, return_tensors="pt"))
    except Exception as error:
        raise ValueError(
            f"{title} comes with a {type(processor).__name__}, which makes nothing of an image: give a text, or the "
            "model with what prepares its images"
        ) from error


def _keywords(model: nn.Module, cut: Cut) -> dict[str, Tensor]:
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    ids = torch.tensor([cut.ids], device=device)
    types = {"token_type_ids": torch.tensor([cut.types], device=device)} if cut.types else {}
    if "input_ids" not in takes(model):
        return {"tokens": ids}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **types}


def _pair(model: nn.Module, given: Given, vocabulary: Vocabulary, text: str, title: str) -> Sample:
    """The source, and the target as its decoder reads it: given, or written by the model."""
    source = vocabulary.cut(text, None)
    check_length(len(source.ids), None, what="the source", title=title)
    keywords, notes = _keywords(model, source), ()
    start = config_of(model, "decoder_start_token_id", "pad_token_id")
    if given.pair is None:
        target, notes = _written(model, keywords, start, title), (WRITTEN,)
    else:
        target = target_cut(given.pair, vocabulary, start, _ends(model), title)
    keywords["decoder_input_ids"] = torch.tensor([target.ids], device=keywords["input_ids"].device)
    sides = (renamed(vocabulary.side("source", source), given.tokens), target_side(vocabulary, target))
    return _sample(model, keywords, sides, vocabulary, title, notes)


def _ends(model: nn.Module) -> tuple[int, ...]:
    found = config_of(model, "eos_token_id")
    return () if found is None else (found,) if isinstance(found, int) else tuple(found)


def _written(model: Any, keywords: Mapping[str, Tensor], start: int | None, title: str) -> Cut:
    if not callable(getattr(model, "generate", None)) or start is None:
        raise ValueError(f"{title} reads a source and a target: give the target as the pair too")
    greedy = {"max_new_tokens": NEW, "do_sample": False, "num_beams": 1, "decoder_start_token_id": start}
    with at_rest(model):
        found = model.generate(**keywords, **greedy)
    ids = tuple(found[0].tolist())
    return Cut(ids[:-1] if len(ids) > 1 and ids[-1] in _ends(model) else ids)


def _sample(
    model: nn.Module,
    keywords: Mapping[str, Any],
    sides: tuple[Side, ...],
    vocabulary: Vocabulary,
    title: str,
    notes: tuple[str, ...] = (),
) -> Sample:
    call, both = calling(model, keywords, title), len(sides) > 1
    return Sample(
        title, model, sides, call, lambda attention: where(model, attention, both=both), logits_of(model, call),
        TARGET if both else 0, vocabulary.word, vocabulary_size(model), notes,
    )  # fmt: skip


def _from_tensors(model: nn.Module, inputs: Mapping[str, Any], given: Given, tokenizer: Any, title: str) -> Sample:
    """The main input is the first tensor; a target is known by its name."""
    vocabulary = numbers(1) if tokenizer is None else vocabulary_of(tokenizer)
    tensors = {name: one for name, one in inputs.items() if isinstance(one, Tensor) and one.ndim > 1}
    target = next((name for name in TARGETS if name in tensors), None)
    main = next((name for name in tensors if name != target), None)
    if main is None:
        raise ValueError(f"inputs= of {title} hold no tensor of a batch: give them as its forward takes them")
    names = [(main, "text" if target is None else "source"), *([] if target is None else [(target, "target")])]
    sides = [_side(model, tensors[name], called, vocabulary) for name, called in names]
    if given.tokens is not None:
        sides[0] = _renamed(sides[0], given.tokens)
    count = len(tensors[main])
    notes = (ONE_OF_SEVERAL.format(count),) if count > 1 and sides[0].name != "positions" else ()
    return _sample(model, inputs, tuple(sides), vocabulary, title, notes)


def _side(model: nn.Module, x: Tensor, name: str, vocabulary: Vocabulary) -> Side:
    """Tokens by their numbers, images by their patches, of vectors the places."""
    if not x.is_floating_point():
        return vocabulary.side(name, Cut(tuple(x[0].flatten().tolist())))
    patch = config_of(model, "patch_size")
    if x.ndim != 4 or patch is None:
        return positions(x.shape[1])
    down, across = (patch, patch) if isinstance(patch, int) else tuple(patch)
    rows, columns = x.shape[2] // down, x.shape[3] // across
    seen = stretched(x[0, :, : rows * down, : columns * across])
    return patches("image", (rows, columns), (), address(seen))


def _renamed(side: Side, tokens: Any) -> Side:
    """Of vectors nobody knows which axis counts the places, but the user who has a name for each."""
    return Side("positions", tuple(map(str, tokens))) if side.name == "positions" else renamed(side, tokens)
