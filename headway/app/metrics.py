"""What is measured on data, one function for each task: text, classes, translations, pairs of texts.

Each takes a loaded model and the settings, and returns an Evaluation. Nothing in it is random.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch.nn.functional as F
from torch import Tensor

from headway.app.embed import Embedder
from headway.app.translate import Line, Translator
from headway.config.base import sides
from headway.config.train import DataConfig
from headway.data.batch import Batch, Examples
from headway.data.image_dataset import ImageExamples, read_images
from headway.data.labelled import Labelled, samples_of
from headway.data.masked_text import MaskedText
from headway.data.measures import accuracy, confusion, macro_f1, spearman
from headway.data.sentences import Sentences
from headway.data.shard_writer import build
from headway.data.source import Record, documents, records
from headway.data.text_pairs import ContrastivePairs, Seq2SeqPairs, TextPair, pairs_of
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import literal
from headway.data.windows import Strided
from headway.hub.load import Loaded
from headway.training.objectives import contrastive_loss as nearest
from headway.training.objectives import language_loss as next_token
from headway.training.objectives import masked_loss as hidden_words
from headway.training.objectives import seq2seq_loss as next_target_token
from headway.training.tasks.encoder import whole
from headway.training.trainer import by_size

WINDOW = 1024  # tokens of a window, or of a text, where neither user nor model has a limit
Progress = Callable[[str, int, int], None]  # what is counted, how many are done, of how many (0: unknown)
Triple = tuple[str, str, str]  # where, source, target


@dataclass(frozen=True)
class EvalSettings:
    """The data to measure on, and how."""

    data: DataConfig  # `train` is the data
    length: int | None = None  # tokens of a window or text at most; None: as many as the model reads
    stride: int | None = None  # of windows; None: side by side
    batch: int = 32
    beams: int | None = None
    max_new_tokens: int = 256
    samples: int = 5
    score: str | None = None  # the column of how alike two texts are


@dataclass(frozen=True)
class Evaluation:
    """The result: numbers by name, and for classes a confusion matrix."""

    task: str
    measures: dict[str, float]
    counts: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()  # what a number means, such as a signature
    labels: tuple[str, ...] = ()
    table: np.ndarray | None = None  # class i (row) taken for class j (column)
    samples: tuple[dict[str, str], ...] = ()


def tokenizer_of(loaded: Loaded) -> Tokenizer:
    if loaded.tokenizer is None:
        raise ValueError(f"{loaded.receipt.path} has no tokenizer (tokenizer.json), so it cannot read text")
    # Data is read as it was in training: whoever writes "<|end|>" in a text means these letters.
    return literal(loaded.tokenizer)


def batches(examples: Examples, size: int, progress: Callable[[int, int], None]) -> Iterator[tuple[np.ndarray, Batch]]:
    """All examples, similar sizes together, with their numbers; what is random in one is drawn from its number."""
    order = by_size(examples, len(examples))
    for start in range(0, len(order), size):
        rows = order[start : start + size]
        yield rows, examples.batch(rows, rows.astype(np.int64))
        progress(min(start + size, len(order)), len(order))


def sums(
    model: Any, objective: Callable[..., Any], examples: Examples, size: int, progress: Callable[[int, int], None]
) -> tuple[dict[str, float], dict[str, float], dict[str, int]]:
    """Over all examples, by name: the sum of losses, how many answers are right, and of how many."""
    losses: dict[str, float] = {}
    hits: dict[str, float] = {}
    counts: dict[str, int] = {}
    for _, batch in batches(examples, size, progress):
        found = objective(model, batch.inputs)
        losses |= {name: losses.get(name, 0.0) + float(value) for name, value in found.losses.items()}
        hits |= {name: hits.get(name, 0.0) + float(value) for name, value in found.hits.items()}
        counts |= {name: counts.get(name, 0) + value for name, value in batch.counts.items()}
    return losses, hits, counts


def language(loaded: Loaded, settings: EvalSettings, progress: Progress) -> Evaluation:
    """Loss, perplexity and bits per byte; every token but the very first is predicted once.

    perplexity = exp(loss)        bits per byte = Σ losses / ln 2 / bytes of the text
    """
    most, tokenizer = loaded.model.config.length, tokenizer_of(loaded)
    length = settings.length or min(most, WINDOW)
    if length > most:
        raise ValueError(f"the model reads {most} tokens, and --length asks for {length}")
    with TemporaryDirectory(prefix="headway-") as made:
        d = settings.data
        texts = documents(d.train, format=d.format, column=d.text, document=d.document)
        view = build(texts, tokenizer, made, identity="", progress=lambda now: progress("tokens", now.tokens, 0)).view()
        windows = Strided(view, length, stride=settings.stride)
        losses, hits, counts = sums(loaded.model, next_token, windows, settings.batch, partial(progress, "windows"))
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


def masked(loaded: Loaded, settings: EvalSettings, progress: Progress) -> Evaluation:
    """Loss and accuracy of each question that the model has a head for; what is hidden is drawn from row numbers."""
    c, d, tokenizer = loaded.model.config, settings.data, tokenizer_of(loaded)
    texts = whole(documents(d.train, format=d.format, column=d.text, document=d.document))
    sentences = Sentences.read(texts, tokenizer)
    names = [name for name in ("words", "adjacent", "inverted") if getattr(c, name)]
    measures: dict[str, float] = {}
    numbers: dict[str, int] = {}
    for name in names:
        length = min(settings.length or c.length, c.length)
        examples = MaskedText(sentences, tokenizer, length=length, weights={name: 1.0})
        ask = partial(hidden_words, names=(name,))
        losses, hits, counts = sums(loaded.model, ask, examples, settings.batch, partial(progress, name))
        measures |= {f"{name}_loss": losses[name] / counts[name], f"{name}_accuracy": hits[name] / counts[name]}
        numbers[name] = counts[name]
    notes = ("words: 15 % of the words are hidden, the same ones each time; two answers are possible to the others",)
    return Evaluation("masked", measures, numbers, notes)


def images(loaded: Loaded, settings: EvalSettings, progress: Progress) -> Evaluation:
    c = loaded.model.config
    album = read_images(
        settings.data.train, size=sides(c.image), channels=c.channels, names=labels_of(c), images=c.images,
        progress=partial(progress, "pictures read"),
    )  # fmt: skip
    logits = lambda inputs: loaded.model(inputs["images"])  # noqa: E731
    return _classification("images", logits, ImageExamples(album, c.images), labels_of(c), settings, progress)


def classify(loaded: Loaded, settings: EvalSettings, progress: Progress) -> Evaluation:
    c = loaded.model.config
    if c.outcome != "one":
        raise ValueError(
            f"a classifier with outcome={c.outcome!r} gives no one class for each text: it is not measured"
        )
    examples = _labelled(loaded, settings, labels_of(c), paired=settings.data.paired)
    return _classification("classify", partial(_classes, loaded.model), examples, labels_of(c), settings, progress)


def inference(loaded: Loaded, settings: EvalSettings, progress: Progress) -> Evaluation:
    """What follows logically from what, in labelled pairs."""
    c = loaded.model.config
    labels = c.inference_labels or tuple(str(number) for number in range(c.inference))
    examples = _labelled(loaded, settings, labels, paired=True)
    return _classification("inference", partial(_entailment, loaded.model), examples, labels, settings, progress)


def _labelled(loaded: Loaded, settings: EvalSettings, labels: tuple[str, ...], *, paired: bool) -> Labelled:
    most, data = loaded.model.config.length, settings.data
    length = min(settings.length or most, most)
    samples = samples_of(data, data.train, paired=paired)
    return Labelled(samples, tokenizer_of(loaded), length=length, labels=labels, cut=data.cut)


def _entailment(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    keep = inputs["keep"]
    return model.inference(
        model.hidden_states(inputs["tokens"], keep=keep, types=model.told_apart(inputs["types"])), keep
    )


def _classes(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    return model(inputs["tokens"], keep=inputs["keep"], types=model.told_apart(inputs["types"]))


def labels_of(config: Any) -> tuple[str, ...]:
    return tuple(config.label(index) for index in range(config.classes))


def _classification(
    task: str,
    compute: Callable[[dict[str, Tensor]], Tensor],
    examples: Examples,
    labels: tuple[str, ...],
    settings: EvalSettings,
    progress: Progress,
) -> Evaluation:
    right, found, loss = [], [], 0.0
    for _, part in batches(examples, settings.batch, partial(progress, "classified")):
        logits = compute(part.inputs).float()
        if not bool(logits.isfinite().all()):
            raise ValueError("the logits are not finite numbers: the weights are damaged")
        loss += float(F.cross_entropy(logits, part.inputs["label"], reduction="sum"))
        right.append(part.inputs["label"].numpy())
        found.append(logits.argmax(-1).numpy())
    answers = np.concatenate(right)
    table = confusion(answers, np.concatenate(found), classes=len(labels))
    measures = {
        "loss": loss / len(answers), "accuracy": accuracy(table), "macro_f1": macro_f1(table),
        "majority": float(table.sum(1).max() / len(answers)),
    }  # fmt: skip
    note = "majority: the accuracy of always answering the most frequent class of this data"
    return Evaluation(task, measures, {"examples": len(answers)}, (note,), labels, table)


def seq2seq(loaded: Loaded, settings: EvalSettings, progress: Progress) -> Evaluation:
    """The loss of the references, and BLEU and chrF of what the model writes itself."""
    sacrebleu = _sacrebleu()
    pairs = list(pairs_of(settings.data, settings.data.train))
    measures, counts, notes = _predicted(loaded, settings, pairs, progress)
    written = _translated(loaded, settings, pairs, progress)
    scores, signatures = corpus_scores(sacrebleu, written, [target for _, _, target in pairs])
    how = "greedy" if settings.beams is None else f"{settings.beams} beams"
    samples = (
        {"source": pairs[row][1], "reference": pairs[row][2], "text": written[row]}
        for row in evenly(len(pairs), settings.samples)
    )
    return Evaluation(
        "seq2seq", {**measures, **scores}, {"pairs": len(pairs), **counts}, (*signatures, f"decoding: {how}", *notes),
        samples=tuple(samples),
    )  # fmt: skip


def _predicted(
    loaded: Loaded, settings: EvalSettings, pairs: Sequence[Triple], progress: Progress
) -> tuple[dict[str, float], dict[str, int], tuple[str, ...]]:
    """The loss of the references, token by token."""
    place, c = Path(loaded.receipt.path), loaded.model.config
    if (place / "source.spm").exists() and not (place / "tokenizer.json").exists():
        return {}, {}, ("loss: not measured, as the tokenizer of a Marian model cuts sources alone",)
    most = c.length if c.kind == "seq2seq" else None
    length = settings.length or most or WINDOW
    examples = Seq2SeqPairs.of(pairs, tokenizer_of(loaded), c.special, length=length, cut=settings.data.cut)
    losses, hits, counts = sums(loaded.model, next_target_token, examples, settings.batch, partial(progress, "pairs"))
    count = counts["loss"]
    return {"loss": losses["loss"] / count, "accuracy": hits["loss"] / count}, {"tokens": count}, ()


def _translated(loaded: Loaded, settings: EvalSettings, pairs: Sequence[Triple], progress: Progress) -> list[str]:
    translate = Translator.of(
        loaded, beams=settings.beams, max_new_tokens=settings.max_new_tokens, cut=settings.data.cut
    )
    lines = (Line(where, source) for where, source, _ in pairs)
    found = translate.run(lines, batch=settings.batch, progress=lambda done: progress("translated", done, len(pairs)))
    return [" ".join(result.text.splitlines()) for _, result in found]


def corpus_scores(
    sacrebleu: Any, written: Sequence[str], right: Sequence[str]
) -> tuple[dict[str, float], tuple[str, ...]]:
    """BLEU and chrF of a corpus (arXiv:1804.08771; Popović 2015), each with its signature."""
    found, notes = {}, []
    for name, metric in (("bleu", sacrebleu.metrics.BLEU()), ("chrf", sacrebleu.metrics.CHRF())):
        found[name] = float(metric.corpus_score(list(written), [list(right)]).score)
        notes.append(f"{name}: {metric.get_signature()}")
    return found, tuple(notes)


def embed(loaded: Loaded, settings: EvalSettings, progress: Progress) -> Evaluation:
    """How often a text is nearer to its twin than to any other of its batch; with scores, how well distances rank."""
    c, d, tokenizer = loaded.model.config, settings.data, tokenizer_of(loaded)
    columns = {"first": d.first, "second": d.second} | ({"score": settings.score} if settings.score else {})
    rows = list(records(d.train, columns=columns, several=d.negative, format=d.format))
    twins = [TextPair(row.where, row.fields["first"], row.fields["second"], row.several) for row in rows]
    examples = ContrastivePairs(twins, tokenizer, limit=c.limit, tail=c.tail, prompt=c.prompt)
    losses, hits, counts = sums(loaded.model, nearest, examples, settings.batch, partial(progress, "pairs"))
    count = counts["loss"]
    measures = {"loss": losses["loss"] / count, "retrieval_accuracy": hits["loss"] / count}
    notes = [f"retrieval: of the second texts of {settings.batch} pairs of similar length, a first text finds its own"]
    texts = list(dict.fromkeys(text for one in twins for text in (one.first, one.second, *one.negatives)))
    vectors = dict(
        zip(texts, _unit(Embedder.of(loaded)(texts, lambda n: progress("texts", n, len(texts)))), strict=True)
    )
    ranks, candidates = ranked(twins, vectors)
    measures |= {f"recall_at_{most}": float((ranks < most).mean()) for most in (1, 10)}
    notes.append(f"recall: among all {candidates:,} second texts{' and negatives' if d.negative else ''}, by cosine")
    if settings.score:
        cosines = [float(vectors[one.first] @ vectors[one.second]) for one in twins]
        measures["spearman"] = spearman(np.array(cosines), np.array([_number(row) for row in rows]))
        notes.append(f"spearman: cosines beside the column {settings.score!r}")
    return Evaluation("embed", measures, {"pairs": count}, tuple(notes))


def ranked(twins: Sequence[TextPair], vectors: Mapping[str, np.ndarray]) -> tuple[np.ndarray, int]:
    """How many other texts are at least as near to each first text as its own second one, and among how many.

    The other second texts of the same first text are left out.
    """
    places: dict[str, int] = {}
    own: dict[str, set[int]] = {}
    for one in twins:
        own.setdefault(one.first, set()).add(places.setdefault(one.second, len(places)))
        for text in one.negatives:
            places.setdefault(text, len(places))
    matrix, ranks = np.stack([vectors[text] for text in places]), []
    for one in twins:
        scores = matrix @ vectors[one.first]
        ranks.append(
            (scores >= scores[places[one.second]]).sum()
            - (scores[[*own[one.first]]] >= scores[places[one.second]]).sum()
        )
    return np.array(ranks), len(places)


def _unit(vectors: np.ndarray) -> np.ndarray:
    return vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)


def _number(row: Record) -> float:
    try:
        found = float(row.fields["score"])
    except ValueError:
        found = math.nan
    if not math.isfinite(found):
        raise ValueError(f"{row.where} has the score {row.fields['score']!r}, and a number is expected")
    return found


def evenly(total: int, count: int) -> list[int]:
    """Numbers of examples, from the first to the last.

    >>> evenly(9, 3), evenly(2, 5)
    ([0, 4, 8], [0, 1])
    """
    return np.linspace(0, total - 1, min(total, count)).astype(int).tolist()


def _sacrebleu() -> Any:
    try:
        return import_module("sacrebleu")
    except ImportError:
        raise ValueError(
            'BLEU and chrF are computed by sacrebleu, which is not installed: pip install "headway[metrics]"'
        ) from None
