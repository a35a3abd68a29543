"""Plain text: how well a model predicts the next token, or tokens that are hidden."""

import math
from functools import partial
from tempfile import TemporaryDirectory

from headway.app.evaluate import Asked, Evaluation, Progress, sums, tokenizer_of
from headway.data.objectives import MaskedText
from headway.data.sentences import Sentences
from headway.data.shards import build
from headway.data.source import documents
from headway.data.strided import Strided
from headway.hub.load import Loaded
from headway.training.objectives.language import language as next_token
from headway.training.objectives.masked import masked as hidden_words
from headway.training.tasks.masked import whole

WINDOW = 1024  # tokens of a window at most, where nobody says


def language(loaded: Loaded, asked: Asked, progress: Progress) -> Evaluation:
    """Loss, perplexity and bits per byte; every token but the very first is predicted once.

    perplexity = exp(loss)        bits per byte = Σ losses / ln 2 / bytes of the text
    """
    most, tokenizer = loaded.model.config.length, tokenizer_of(loaded)
    length = asked.length or min(most, WINDOW)
    if length > most:
        raise ValueError(f"the model reads {most} tokens, and --length asks for {length}")
    with TemporaryDirectory(prefix="headway-") as made:
        d = asked.data
        texts = documents(d.train, format=d.format, column=d.text, document=d.document)
        view = build(texts, tokenizer, made, identity="", progress=lambda now: progress("tokens", now.tokens, 0)).view()
        windows = Strided(view, length, stride=asked.stride)
        losses, hits, counts = sums(loaded.model, next_token, windows, asked.batch, partial(progress, "windows"))
        size = view.bytes
    count = counts["loss"]
    loss = losses["loss"] / count
    least = windows.length - windows.stride + 1
    measures = {
        "loss": loss, "perplexity": math.exp(min(loss, 700.0)), "bits_per_byte": losses["loss"] / math.log(2) / size,
        "accuracy": hits["loss"] / count,
    }  # fmt: skip
    note = (
        f"context: windows of {windows.length} tokens, one every {windows.stride}: each token is predicted from "
        f"{least} to {windows.length} tokens (in the first window from those there are), the very first not at all"
    )
    return Evaluation("language", measures, {"tokens": count, "bytes": size, "windows": len(windows)}, (note,))


def masked(loaded: Loaded, asked: Asked, progress: Progress) -> Evaluation:
    """Loss and accuracy of each question that the model has a head for; what is hidden is drawn from row numbers."""
    c, d, tokenizer = loaded.model.config, asked.data, tokenizer_of(loaded)
    texts = whole(documents(d.train, format=d.format, column=d.text, document=d.document))
    sentences = Sentences.read(texts, tokenizer)
    names = [name for name in ("words", "adjacent", "inverted") if getattr(c, name)]
    measures: dict[str, float] = {}
    numbers: dict[str, int] = {}
    for name in names:
        length = min(asked.length or c.length, c.length)
        examples = MaskedText(sentences, tokenizer, length=length, weights={name: 1.0})
        ask = partial(hidden_words, names=(name,))
        losses, hits, counts = sums(loaded.model, ask, examples, asked.batch, partial(progress, name))
        measures |= {f"{name}_loss": losses[name] / counts[name], f"{name}_accuracy": hits[name] / counts[name]}
        numbers[name] = counts[name]
    notes = ("words: 15 % of the words are hidden, the same ones each time; two answers are possible to the others",)
    return Evaluation("masked", measures, numbers, notes)
