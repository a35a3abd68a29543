"""From a model and its input to a ModelSample: tokens, their words, the call, and which attention is which."""

from collections.abc import Callable
from typing import Any

from torch import nn

from headway.look.reading.foreign import read_foreign
from headway.look.reading.images import davit, vision
from headway.look.reading.sample import AttentionPlace, ModelInputs, ModelSample
from headway.look.reading.texts import classifier, clip, language, masked, pair, read_vectors, sentence
from headway.look.reading.tokens import Vocabulary, numbers, vocabulary_of
from headway.models.own_module import OwnModule

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
    model = model.module if isinstance(model, OwnModule) else model
    kind, title = own_kind(model), title or type(model).__name__
    if kind is None:
        return read_foreign(model, given, tokenizer, title)
    if kind in OTHERS:
        return OTHERS[kind](model, given, title)
    return TEXTS[kind](model, given, _vocabulary(given, tokenizer, title), title)


def _vocabulary(given: ModelInputs, tokenizer: Any, title: str) -> Vocabulary:
    if tokenizer is not None:
        return vocabulary_of(tokenizer)
    if given.text is not None or isinstance(given.pair, str):
        raise ValueError(f"{title} has no tokenizer (tokenizer.json), so it cannot read text: give inputs= in Python")
    return numbers(1)
