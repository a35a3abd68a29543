"""Somebody else's model: in the manner of transformers with its tokenizer, or any module with its inputs."""

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.signature import Signature
from headway.config import nearest
from headway.look.reading.images import address, patches, to_pixels
from headway.look.reading.sample import (
    AttentionInfo,
    AttentionPlace,
    ModelInputs,
    ModelSample,
    at_rest,
    check_length,
    only_one,
    positions,
    text_of,
    with_names,
)
from headway.look.reading.texts import ONE_OF_SEVERAL, SOURCE, TARGET, target_cut, target_side
from headway.look.reading.tokens import TokenizedText, Vocabulary, numbers, vocabulary_of
from headway.look.record import Side
from headway.models.own_module import length_of

NEW = 64  # tokens of a target that the model writes itself, at most
WRITTEN = "The target was written by the model itself: the likeliest token each time."


def read_foreign(model: nn.Module, given: ModelInputs, tokenizer: Any, title: str) -> ModelSample:
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
    side = with_names(vocabulary.side("text", cut), given.tokens)
    return _sample(model, _keywords(model, cut), (side,), vocabulary, title)


def _main(model: nn.Module) -> str:
    named = getattr(model, "main_input_name", None)
    return named if isinstance(named, str) and named in Signature(model).names else "inputs"


def _processed(given: ModelInputs, processor: Any, title: str) -> Mapping[str, Any]:
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


def _keywords(model: nn.Module, cut: TokenizedText) -> dict[str, Tensor]:
    device = next((one.device for one in model.parameters()), torch.device("cpu"))
    ids = torch.tensor([cut.ids], device=device)
    types = {"token_type_ids": torch.tensor([cut.types], device=device)} if cut.types else {}
    if "input_ids" not in Signature(model).names:
        return {"tokens": ids}
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), **types}


def _pair(model: nn.Module, given: ModelInputs, vocabulary: Vocabulary, text: str, title: str) -> ModelSample:
    """The source, and the target as its decoder reads it: given, or written by the model."""
    source = vocabulary.cut(text, None)
    check_length(len(source.ids), None, what="the source", title=title)
    keywords, notes = _keywords(model, source), ()
    start = config_of(model, "decoder_start_token_id", "pad_token_id")
    if given.pair is None:
        target, notes = _generate_target(model, keywords, start, title), (WRITTEN,)
    else:
        target = target_cut(given.pair, vocabulary, start, _ends(model), title)
    keywords["decoder_input_ids"] = torch.tensor([target.ids], device=keywords["input_ids"].device)
    sides = (with_names(vocabulary.side("source", source), given.tokens), target_side(vocabulary, target))
    return _sample(model, keywords, sides, vocabulary, title, notes)


def _ends(model: nn.Module) -> tuple[int, ...]:
    found = config_of(model, "eos_token_id")
    return () if found is None else (found,) if isinstance(found, int) else tuple(found)


def _generate_target(model: Any, keywords: Mapping[str, Tensor], start: int | None, title: str) -> TokenizedText:
    if not callable(getattr(model, "generate", None)) or start is None:
        raise ValueError(f"{title} reads a source and a target: give the target as the pair too")
    greedy = {"max_new_tokens": NEW, "do_sample": False, "num_beams": 1, "decoder_start_token_id": start}
    with at_rest(model):
        found = model.generate(**keywords, **greedy)
    ids = tuple(found[0].tolist())
    return TokenizedText(ids[:-1] if len(ids) > 1 and ids[-1] in _ends(model) else ids)


def _sample(
    model: nn.Module,
    keywords: Mapping[str, Any],
    sides: tuple[Side, ...],
    vocabulary: Vocabulary,
    title: str,
    notes: tuple[str, ...] = (),
) -> ModelSample:
    call, both = calling(model, keywords, title), len(sides) > 1
    return ModelSample(
        title, model, sides, call, lambda attention: where(model, attention, both=both), logits_of(model, call),
        TARGET if both else 0, vocabulary.word, vocabulary_size(model), notes,
    )  # fmt: skip


def _from_tensors(
    model: nn.Module, inputs: Mapping[str, Any], given: ModelInputs, tokenizer: Any, title: str
) -> ModelSample:
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
        sides[0] = _with_names(sides[0], given.tokens)
    count = len(tensors[main])
    notes = (ONE_OF_SEVERAL.format(count),) if count > 1 and sides[0].name != "positions" else ()
    return _sample(model, inputs, tuple(sides), vocabulary, title, notes)


def _side(model: nn.Module, x: Tensor, name: str, vocabulary: Vocabulary) -> Side:
    """Tokens by their numbers, images by their patches, of vectors the places."""
    if not x.is_floating_point():
        return vocabulary.side(name, TokenizedText(tuple(x[0].flatten().tolist())))
    patch = config_of(model, "patch_size")
    if x.ndim != 4 or patch is None:
        return positions(x.shape[1])
    down, across = (patch, patch) if isinstance(patch, int) else tuple(patch)
    rows, columns = x.shape[2] // down, x.shape[3] // across
    seen = to_pixels(x[0, :, : rows * down, : columns * across])
    return patches("image", (rows, columns), (), address(seen))


def _with_names(side: Side, tokens: Any) -> Side:
    """Of vectors nobody knows which axis counts the places, but the user who has a name for each."""
    return Side("positions", tuple(map(str, tokens))) if side.name == "positions" else with_names(side, tokens)


TARGETS = ("decoder_input_ids", "decoder_inputs_embeds", "tgt", "target", "trg")


def config_of(model: nn.Module, *names: str) -> Any:
    """The first of these settings that the model's configuration has, also for generating; None: it has none."""
    holders = (getattr(model, "config", None), getattr(model, "generation_config", None))
    found = (getattr(holder, name, None) for holder in holders for name in names)
    return next((one for one in found if one is not None), None)


def check_names(model: nn.Module, inputs: Mapping[str, Any], title: str) -> None:
    """Refuse what `forward` does not name: it would not be read. A tokenizer's types are left out without a word."""
    names = Signature(model).names
    unknown = [name for name in inputs if name not in names and name != "token_type_ids"]
    if unknown and names:
        raise ValueError(
            f"{title} takes no {unknown[0]!r}{nearest(unknown[0], sorted(names))}: name inputs= as its forward does, "
            f"such as {', '.join(names[:3])}"
        )


def translates(model: nn.Module) -> bool:
    """Whether it reads a source and a target."""
    return Signature(model).has("input_ids", "decoder_input_ids")


def calling(model: nn.Module, keywords: Mapping[str, Any], title: str) -> Callable[[], Any]:
    """The call; what goes wrong inside is told in one sentence, with the length where that may be why."""
    names = Signature(model).names
    more = {"use_cache": False} if "use_cache" in names else {}
    given = {name: value for name, value in keywords.items() if name in names}

    def call() -> Any:
        try:
            return model(**given, **more) if given else model(*keywords.values())
        except Exception as error:
            raise ValueError(_why(model, keywords, title, error)) from error

    return call


def _why(model: nn.Module, keywords: Mapping[str, Any], title: str, error: Exception) -> str:
    longest = max((one.shape[1] for one in keywords.values() if isinstance(one, Tensor) and one.ndim == 2), default=0)
    limit = length_of(model)
    if limit is not None and longest > limit:
        return f"the text has {longest:,} tokens, and {title} has positions for {limit:,}: shorten it"
    said = (str(error).strip().splitlines() or [""])[0]
    shapes = ", ".join(f"{name} {tuple(one.shape)}" for name, one in keywords.items() if isinstance(one, Tensor))
    return f"{title}, called with {shapes or 'nothing'}, failed: {type(error).__name__}: {said}"


def logits_of(model: nn.Module, call: Callable[[], Any]) -> Callable[[], Tensor] | None:
    """The logits in its output, of a model that has words to say."""
    head = getattr(model, "get_output_embeddings", None)
    if not callable(head) or not isinstance(head(), nn.Module):
        return None
    return lambda: call().logits


def vocabulary_size(model: nn.Module) -> int:
    found = config_of(model, "vocab_size")
    return found if isinstance(found, int) else 0


_CROSS_NAMES = re.compile(
    r"encoder_attn|encdecattention|cross_?attention|cross_?attn|\bcross\b|multihead_attn|src_attn", re.I
)
_ONE_WAY = ("is_causal", "is_decoder", "causal")


def where(model: nn.Module, attention: AttentionInfo, *, both: bool) -> AttentionPlace:
    """`both`: it reads a source and a target, and its modules say which of them they are for."""
    if not both:
        return AttentionPlace("decoder" if one_way(model, attention.name) else "encoder")
    parts = attention.name.lower().split(".")
    if _CROSS_NAMES.search(attention.name):
        return AttentionPlace("cross", TARGET, SOURCE)
    if any(part.startswith("decoder") for part in parts):
        return AttentionPlace("decoder", TARGET, TARGET)
    return AttentionPlace("encoder")


def one_way(model: nn.Module, name: str) -> bool:
    """Whether the module, or the nearest one around it that says anything, reads from left to right."""
    parts = name.split(".") if name else []
    for end in range(len(parts), 0, -1):
        holder = _submodule(model, ".".join(parts[:end]))
        for flag in _ONE_WAY:
            if isinstance(found := getattr(holder, flag, None), bool):
                return found
    return getattr(getattr(model, "config", None), "is_decoder", False) is True


def reads_one_way(model: nn.Module) -> bool:
    """Whether any part of it says that it reads from left to right."""
    parts = (*model.modules(), getattr(model, "config", None))
    return any(getattr(part, flag, None) is True for part in parts for flag in _ONE_WAY)


def _submodule(model: nn.Module, name: str) -> nn.Module | None:
    try:
        return model.get_submodule(name)
    except AttributeError:
        return None
