"""From a model and its input to a ModelSample: tokens, their words, the call, and which attention is which."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from headway.look.reading.foreign import read_foreign
from headway.look.reading.images import davit, vision
from headway.look.reading.sample import AttentionPlace, ModelInputs, ModelSample
from headway.look.reading.texts import classifier, clip, language, masked, pair, read_vectors, sentence
from headway.look.reading.tokens import Vocabulary, numbers, vocabulary_of
from headway.models.own_module import OwnModule, read_logits

__all__ = ["AttentionPlace", "ModelInputs", "ModelSample", "Vocabulary", "numbers", "own_kind", "read", "vocabulary_of"]

# Kind of our models -> what makes a ModelSample of one that reads text, and of one that does not.
TEXTS: dict[str, Callable[[Any, ModelInputs, Vocabulary, str], ModelSample]] = {
    "language": language, "classifier": classifier, "masked": masked, "sentence": sentence, "seq2seq": pair,
    "recurrent": pair, "clip": clip,
}  # fmt: skip
OTHERS: dict[str, Callable[[Any, ModelInputs, str], ModelSample]] = {
    "vision": vision,
    "davit": davit,
    "vectors": read_vectors,
}


def own_kind(model: nn.Module) -> str | None:
    """The kind of one of our models; None of anything else."""
    kind = getattr(getattr(model, "config", None), "kind", None)
    ours = type(model).__module__.startswith("headway.models.")
    return kind if ours and kind in (*TEXTS, *OTHERS) else None


def read(model: nn.Module, given: ModelInputs, *, tokenizer: Any = None, title: str | None = None) -> ModelSample:
    """What is needed to look at the model on what was given; a mistake is a ValueError in one sentence."""
    if isinstance(model, OwnModule):
        return _own_module(model, given, tokenizer, title or type(model.module).__name__)
    kind, title = own_kind(model), title or type(model).__name__
    if kind is None:
        return read_foreign(model, given, tokenizer, title)
    if kind in OTHERS:
        return OTHERS[kind](model, given, title)
    return TEXTS[kind](model, given, _vocabulary(given, tokenizer, title), title)


def _own_module(model: OwnModule, given: ModelInputs, tokenizer: Any, title: str) -> ModelSample:
    """A module of the user's own, trained as a language model: it reads tokens, whatever its forward calls them."""
    if isinstance(given.inputs, Mapping):
        tokens = given.inputs["tokens"]
        given = replace(given, inputs=tokens.reshape(-1, tokens.shape[-1]))
    sample = read_foreign(model.module, given, tokenizer, title)
    count = 1 if given.inputs is None else len(given.inputs)
    shape = torch.zeros(count, len(sample.sides[0].tokens), dtype=torch.long, device="meta")
    return replace(
        sample,
        place=lambda attention: AttentionPlace("decoder"),
        logits=lambda: read_logits(sample.call(), shape, model.config.function),
        outputs=model.config.vocabulary,
    )


def _vocabulary(given: ModelInputs, tokenizer: Any, title: str) -> Vocabulary:
    if tokenizer is not None:
        return vocabulary_of(tokenizer)
    if given.text is not None or isinstance(given.pair, str):
        raise ValueError(f"{title} has no tokenizer (tokenizer.json), so it cannot read text: give inputs= in Python")
    return numbers(1)
