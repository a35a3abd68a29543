"""Our own models that read one text: language models, masked-word models, sentence encoders."""

from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Int
from torch import Tensor

from headway.look.reading.cutting import Cut
from headway.look.reading.given import Given, check_length, only_one, renamed, text_of
from headway.look.reading.sample import Place, Sample
from headway.look.reading.vocabulary import Vocabulary

DECODER, ENCODER = Place("decoder"), Place("encoder")
ONE_OF_SEVERAL = "The first of {} inputs is shown."


def cut_of(given: Given, vocabulary: Vocabulary, title: str, *, before: str = "") -> tuple[Cut, tuple[str, ...]]:
    """The tokens of what was given (as numbers: those, or `tokens` and `types`), and what is to be said of them."""
    if given.inputs is None:
        text = before + text_of(given, title)
        assert given.pair is None or isinstance(given.pair, str)
        return vocabulary.cut(text, given.pair), ()
    named = given.inputs if isinstance(given.inputs, Mapping) else {"tokens": given.inputs}
    rows = token_rows(named.get("tokens"), title)
    types = token_rows(named["types"], title)[0].tolist() if "types" in named else ()
    notes = (ONE_OF_SEVERAL.format(len(rows)),) if len(rows) > 1 else ()
    return Cut(tuple(rows[0].tolist()), tuple(types)), notes


def token_rows(inputs: Any, title: str) -> Int[Tensor, "B L"]:
    """Numbers of tokens, of one text or of several."""
    if not isinstance(inputs, Tensor) or inputs.is_floating_point() or inputs.ndim not in (1, 2):
        what = f"{inputs.dtype} of shape {tuple(inputs.shape)}" if isinstance(inputs, Tensor) else type(inputs).__name__
        raise ValueError(f"{title} reads numbers of tokens, a tensor of shape L or B L, not {what}")
    return inputs if inputs.ndim == 2 else inputs[None]


def row(cut: Cut, like: Tensor) -> Int[Tensor, "1 L"]:
    return torch.tensor([cut.ids], device=like.device)


def language(model: Any, given: Given, vocabulary: Vocabulary, title: str) -> Sample:
    only_one(given, title)
    config = model.config
    cut, notes = cut_of(given, vocabulary, title)
    # Positions that are computed go on for ever; a table ends.
    limit = config.length if config.positions == "learned" else None
    check_length(len(cut.ids), limit, what="the text", title=title)
    if len(cut.ids) > config.length:
        notes += (f"The text has {len(cut.ids):,} tokens, and the model was made for {config.length:,}.",)
    side, tokens = renamed(vocabulary.side("text", cut), given.tokens), row(cut, model.tokens.weight)
    return Sample(
        title, model, (side,), lambda: model.hidden_states(tokens), lambda attention: DECODER, lambda: model(tokens),
        word=vocabulary.word, outputs=config.vocabulary, notes=notes,
    )  # fmt: skip


def masked(model: Any, given: Given, vocabulary: Vocabulary, title: str) -> Sample:
    config = model.config
    cut, notes = cut_of(given, vocabulary, title)
    check_length(len(cut.ids), config.length, what="the text", title=title)
    side, tokens = renamed(vocabulary.side("text", cut), given.tokens), row(cut, model.tokens.weight)
    types = None
    if cut.types and max(cut.types) < config.types:
        types = torch.tensor([cut.types], device=tokens.device)
    speaks = model.word_head is not None
    return Sample(
        title, model, (side,), lambda: model.hidden_states(tokens, types=types), lambda attention: ENCODER,
        (lambda: model.words(model.hidden_states(tokens, types=types))) if speaks else None,
        word=vocabulary.word, outputs=config.vocabulary, notes=notes,
    )  # fmt: skip


def sentence(model: Any, given: Given, vocabulary: Vocabulary, title: str) -> Sample:
    only_one(given, title)
    config = model.config
    cut, notes = cut_of(given, vocabulary, title, before=config.prompt)
    check_length(len(cut.ids), config.limit, what="the text", title=title)
    side, tokens = renamed(vocabulary.side("text", cut), given.tokens), row(cut, model.encoder.tokens.weight)
    return Sample(
        title, model, (side,), lambda: model.encoder.hidden_states(tokens), lambda attention: ENCODER, notes=notes
    )
