"""Our own models that read a source and a target: encoder-decoders, and Bahdanau's recurrent one."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch

from headway.look.reading.cutting import Cut
from headway.look.reading.given import Given, check_length, renamed
from headway.look.reading.sample import Known, Place, Sample
from headway.look.reading.texts import cut_of, row
from headway.look.reading.vocabulary import Vocabulary
from headway.look.record import Side

SOURCE, TARGET = 0, 1
ENCODER, DECODER, CROSS = Place("encoder"), Place("decoder", TARGET, TARGET), Place("cross", TARGET, SOURCE)
AS_A_SOURCE = "The target was cut into tokens as a source is: Marian's directories have no other way."


def pair(model: Any, given: Given, vocabulary: Vocabulary, title: str) -> Sample:
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
    sides = (renamed(vocabulary.side("source", source), given.tokens), target_side(vocabulary, target))
    like = next(model.parameters())
    read, written = row(source, like), row(target, like)
    outputs = config.outputs if config.kind == "seq2seq" else config.vocabulary
    return Sample(
        title, model, sides, lambda: _read(model, read, written), place, lambda: model(read, written),
        TARGET, vocabulary.word, outputs, notes,
    )  # fmt: skip


def _read(model: Any, source: torch.Tensor, target: torch.Tensor) -> Any:
    return model.hidden_states(target, model.encode(source))


def target_cut(
    target: str | Sequence[int], vocabulary: Vocabulary, start: int | None, ends: Sequence[int], title: str
) -> Cut:
    """What a decoder reads of a target: the start token, then all but the token that ends it."""
    if start is None:
        raise ValueError(f"{title} does not say which token its targets begin with (special.start in its config.json)")
    cut = vocabulary.target(target) if isinstance(target, str) else Cut(tuple(target))
    ended = bool(cut.ids) and cut.ids[-1] in ends
    last = len(cut.ids) - ended
    words = None if cut.words is None else (-1, *cut.words[:last])
    tokens = None if cut.tokens is None else (vocabulary.word(start), *cut.tokens[:last])
    return Cut((start, *cut.ids[:last]), (), words, tokens)


def target_side(vocabulary: Vocabulary, cut: Cut) -> Side:
    """The token that a target begins with stands for no text, whatever the tokenizer calls it."""
    side = vocabulary.side("target", cut)
    return replace(side, special=tuple(sorted({0, *side.special})))


def place(attention: Known) -> Place:
    """By the name of its module."""
    if attention.name.startswith("encoder."):
        return ENCODER
    return DECODER if attention.name.startswith("decoder.") and not attention.name.endswith(".cross") else CROSS
