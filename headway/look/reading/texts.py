"""Our own models that read text (language, masked, sentence, encoder-decoder, recurrent), and our layers alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from headway.look.reading.images import patches, vision
from headway.look.reading.sample import (
    AttentionInfo,
    AttentionPlace,
    ModelInputs,
    ModelSample,
    check_length,
    only_one,
    positions,
    text_of,
    with_names,
)
from headway.look.reading.tokens import TokenizedText, Vocabulary
from headway.look.record import Side

DECODER, ENCODER = AttentionPlace("decoder"), AttentionPlace("encoder")
ONE_OF_SEVERAL = "The first of {} inputs is shown."


def cut_of(
    given: ModelInputs, vocabulary: Vocabulary, title: str, *, before: str = ""
) -> tuple[TokenizedText, tuple[str, ...]]:
    """The tokens of what was given (as numbers: those, or `tokens` and `types`), and what is to be said of them."""
    if given.inputs is None:
        text = before + text_of(given, title)
        assert given.pair is None or isinstance(given.pair, str)
        return vocabulary.cut(text, given.pair), ()
    named = given.inputs if isinstance(given.inputs, Mapping) else {"tokens": given.inputs}
    rows = token_rows(named.get("tokens"), title)
    types = token_rows(named["types"], title)[0].tolist() if "types" in named else ()
    notes = (ONE_OF_SEVERAL.format(len(rows)),) if len(rows) > 1 else ()
    return TokenizedText(tuple(rows[0].tolist()), tuple(types)), notes


def token_rows(inputs: Any, title: str) -> Int[Tensor, "B L"]:
    """Numbers of tokens, of one text or of several."""
    if not isinstance(inputs, Tensor) or inputs.is_floating_point() or inputs.ndim not in (1, 2):
        what = f"{inputs.dtype} of shape {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else type(inputs).__name__
        raise ValueError(f"{title} reads numbers of tokens, a tensor of shape L or B L, not {what}")
    return inputs if inputs.ndim == 2 else inputs[None]


def row(cut: TokenizedText, like: Tensor) -> Int[Tensor, "1 L"]:
    return torch.tensor([cut.ids], device=like.device)


def language(model: Any, given: ModelInputs, vocabulary: Vocabulary, title: str) -> ModelSample:
    only_one(given, title)
    config = model.config
    cut, notes = cut_of(given, vocabulary, title)
    # Positions that are computed go on for ever; a table ends.
    limit = config.length if config.positions == "learned" else None
    check_length(len(cut.ids), limit, what="the text", title=title)
    if len(cut.ids) > config.length:
        notes += (f"The text has {len(cut.ids):,} tokens, and the model was made for {config.length:,}.",)
    side, tokens = with_names(vocabulary.side("text", cut), given.tokens), row(cut, model.tokens.weight)
    return ModelSample(
        title, model, (side,), lambda: model.hidden_states(tokens), lambda attention: DECODER, lambda: model(tokens),
        word=vocabulary.word, outputs=config.vocabulary, notes=notes,
    )  # fmt: skip


def classifier(model: Any, given: ModelInputs, vocabulary: Vocabulary, title: str) -> ModelSample:
    """As a language model, but that no token follows."""
    return replace(language(model, given, vocabulary, title), logits=None)


def masked(model: Any, given: ModelInputs, vocabulary: Vocabulary, title: str) -> ModelSample:
    config = model.config
    cut, notes = cut_of(given, vocabulary, title)
    check_length(len(cut.ids), config.length, what="the text", title=title)
    side, tokens = with_names(vocabulary.side("text", cut), given.tokens), row(cut, model.tokens.weight)
    types = None
    if cut.types and max(cut.types) < config.types:
        types = torch.tensor([cut.types], device=tokens.device)
    speaks = model.word_head is not None
    return ModelSample(
        title, model, (side,), lambda: model.hidden_states(tokens, types=types), lambda attention: ENCODER,
        (lambda: model.words(model.hidden_states(tokens, types=types))) if speaks else None,
        word=vocabulary.word, outputs=config.vocabulary, notes=notes,
    )  # fmt: skip


def sentence(model: Any, given: ModelInputs, vocabulary: Vocabulary, title: str) -> ModelSample:
    only_one(given, title)
    config = model.config
    cut, notes = cut_of(given, vocabulary, title, before=config.prompt)
    check_length(len(cut.ids), config.limit, what="the text", title=title)
    side, tokens = with_names(vocabulary.side("text", cut), given.tokens), row(cut, model.encoder.tokens.weight)
    return ModelSample(
        title, model, (side,), lambda: model.encoder.hidden_states(tokens), lambda attention: ENCODER, notes=notes
    )


def clip(model: Any, given: ModelInputs, vocabulary: Vocabulary, title: str) -> ModelSample:
    """The tower of what was given: a picture, or a text."""
    if given.image is not None or (isinstance(given.inputs, torch.Tensor) and given.inputs.is_floating_point()):
        return vision(model.vision, given, title)
    only_one(given, title)
    cut, notes = cut_of(given, vocabulary, title)
    check_length(len(cut.ids), model.config.length, what="the text", title=title)
    side, tokens = with_names(vocabulary.side("text", cut), given.tokens), row(cut, model.tokens.weight)
    where = DECODER if model.config.stack.block.attention.causal else ENCODER
    return ModelSample(title, model, (side,), lambda: model.hidden_states(tokens), lambda attention: where, notes=notes)


SOURCE, TARGET = 0, 1
TARGET_DECODER, CROSS = AttentionPlace("decoder", TARGET, TARGET), AttentionPlace("cross", TARGET, SOURCE)
AS_A_SOURCE = "The target was cut into tokens as a source is: Marian's directories have no other way."


def pair(model: Any, given: ModelInputs, vocabulary: Vocabulary, title: str) -> ModelSample:
    """The source, and the target as a decoder reads it: its start token first, each token predicts the next."""
    config = model.config
    if given.pair is None:
        raise ValueError(f"{title} reads a source and a target: give the target as the pair too")
    source, notes = cut_of(replace(given, pair=None), vocabulary, title)
    target = target_cut(given.pair, vocabulary, config.special.start, config.special.end, title)
    limit = config.length if config.kind == "seq2seq" else None
    check_length(len(source.ids), limit, what="the source", title=title)
    check_length(len(target.ids), limit, what="the target", title=title)
    if config.family == "marian" and isinstance(given.pair, str):
        notes += (AS_A_SOURCE,)
    sides = (with_names(vocabulary.side("source", source), given.tokens), target_side(vocabulary, target))
    like = next(model.parameters())
    read, written = row(source, like), row(target, like)
    outputs = config.outputs if config.kind == "seq2seq" else config.vocabulary
    return ModelSample(
        title, model, sides, lambda: _read(model, read, written), place, lambda: model(read, written),
        TARGET, vocabulary.word, outputs, notes,
    )  # fmt: skip


def _read(model: Any, source: torch.Tensor, target: torch.Tensor) -> Any:
    return model.hidden_states(target, model.encode(source))


def target_cut(
    target: str | Sequence[int], vocabulary: Vocabulary, start: int | None, ends: Sequence[int], title: str
) -> TokenizedText:
    """What a decoder reads of a target: the start token, then all but the token that ends it."""
    if start is None:
        raise ValueError(f"{title} does not say which token its targets begin with (special.start in its config.json)")
    cut = vocabulary.target(target) if isinstance(target, str) else TokenizedText(tuple(target))
    ended = bool(cut.ids) and cut.ids[-1] in ends
    last = len(cut.ids) - ended
    words = None if cut.words is None else (-1, *cut.words[:last])
    tokens = None if cut.tokens is None else (vocabulary.word(start), *cut.tokens[:last])
    return TokenizedText((start, *cut.ids[:last]), (), words, tokens)


def target_side(vocabulary: Vocabulary, cut: TokenizedText) -> Side:
    """The token that a target begins with stands for no text, whatever the tokenizer calls it."""
    side = vocabulary.side("target", cut)
    return replace(side, special=tuple(sorted({0, *side.special})))


def place(attention: AttentionInfo) -> AttentionPlace:
    """By the name of its module."""
    if attention.name.startswith("encoder."):
        return ENCODER
    return TARGET_DECODER if attention.name.startswith("decoder.") and not attention.name.endswith(".cross") else CROSS


def read_vectors(model: Any, given: ModelInputs, title: str) -> ModelSample:
    """Positions in a row, or on the grid of the attention."""
    x = given.inputs
    if not isinstance(x, Tensor):
        raise ValueError(f"{title} reads vectors and no text: give them in Python, headway.show(model, inputs=x)")
    if not x.is_floating_point() or x.ndim not in (2, 3):
        raise ValueError(f"{title} reads vectors of shape L D or B L D, not {x.dtype} of shape {tuple(x.shape)}")
    x = x if x.ndim == 3 else x[None]
    notes = (ONE_OF_SEVERAL.format(len(x)),) if len(x) > 1 else ()
    attention = model.config.stack.block.attention
    place = AttentionPlace("decoder" if attention.causal else "encoder")
    grid = getattr(attention.mechanism, "grid", None)
    side = positions(x.shape[1]) if grid is None else patches("image", grid, (), None)
    side = with_names(side, given.tokens)
    return ModelSample(title, model, (side,), lambda: model(x[:1]), lambda attention: place, notes=notes)
