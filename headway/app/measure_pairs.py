"""Pairs of texts: translations with their references, and texts that mean the same."""

import math
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from headway.app.embed import Embedder
from headway.app.evaluate import Asked, Evaluation, Progress, sums, tokenizer_of
from headway.app.translate import Line, Translator
from headway.data.contrast import Contrast, Twin
from headway.data.measures import spearman
from headway.data.pairs import Pairs, pairs_of
from headway.data.source import Record, records
from headway.hub.load import Loaded
from headway.training.objectives.embed import embed as nearest
from headway.training.objectives.seq2seq import seq2seq as next_token

LONGEST = 1024  # tokens of a text, where neither user nor model has a limit
Triple = tuple[str, str, str]  # where, source, target


def seq2seq(loaded: Loaded, asked: Asked, progress: Progress) -> Evaluation:
    """The loss of the references, and BLEU and chrF of what the model writes itself."""
    sacrebleu = _sacrebleu()
    pairs = list(pairs_of(asked.data, asked.data.train))
    measures, counts, notes = _predicted(loaded, asked, pairs, progress)
    written = _translated(loaded, asked, pairs, progress)
    scores, signatures = scored(sacrebleu, written, [target for _, _, target in pairs])
    how = "greedy" if asked.beams is None else f"{asked.beams} beams"
    samples = (
        {"source": pairs[row][1], "reference": pairs[row][2], "text": written[row]}
        for row in evenly(len(pairs), asked.samples)
    )
    return Evaluation(
        "seq2seq", {**measures, **scores}, {"pairs": len(pairs), **counts}, (*signatures, f"decoding: {how}", *notes),
        samples=tuple(samples),
    )  # fmt: skip


def _predicted(
    loaded: Loaded, asked: Asked, pairs: Sequence[Triple], progress: Progress
) -> tuple[dict[str, float], dict[str, int], tuple[str, ...]]:
    """The loss of the references, token by token."""
    place, c = Path(loaded.receipt.path), loaded.model.config
    if (place / "source.spm").exists() and not (place / "tokenizer.json").exists():
        return {}, {}, ("loss: not measured, as the tokenizer of a Marian model cuts sources alone",)
    most = c.length if c.kind == "seq2seq" else None
    length = asked.length or most or LONGEST
    examples = Pairs.of(pairs, tokenizer_of(loaded), c.special, length=length, cut=asked.data.cut)
    losses, hits, counts = sums(loaded.model, next_token, examples, asked.batch, partial(progress, "pairs"))
    count = counts["loss"]
    return {"loss": losses["loss"] / count, "accuracy": hits["loss"] / count}, {"tokens": count}, ()


def _translated(loaded: Loaded, asked: Asked, pairs: Sequence[Triple], progress: Progress) -> list[str]:
    translate = Translator.of(loaded, beams=asked.beams, max_new_tokens=asked.max_new_tokens, cut=asked.data.cut)
    lines = (Line(where, source) for where, source, _ in pairs)
    found = translate.run(lines, batch=asked.batch, progress=lambda done: progress("translated", done, len(pairs)))
    return [" ".join(result.text.splitlines()) for _, result in found]


def scored(sacrebleu: Any, written: Sequence[str], right: Sequence[str]) -> tuple[dict[str, float], tuple[str, ...]]:
    """BLEU and chrF of a corpus (arXiv:1804.08771; Popović 2015), each with its signature."""
    found, notes = {}, []
    for name, metric in (("bleu", sacrebleu.metrics.BLEU()), ("chrf", sacrebleu.metrics.CHRF())):
        found[name] = float(metric.corpus_score(list(written), [list(right)]).score)
        notes.append(f"{name}: {metric.get_signature()}")
    return found, tuple(notes)


def embed(loaded: Loaded, asked: Asked, progress: Progress) -> Evaluation:
    """How often a text is nearer to its twin than to any other of its batch; with scores, how well distances rank."""
    c, d, tokenizer = loaded.model.config, asked.data, tokenizer_of(loaded)
    columns = {"first": d.first, "second": d.second} | ({"score": asked.score} if asked.score else {})
    rows = list(records(d.train, columns=columns, format=d.format))
    twins = [Twin(row.where, row.fields["first"], row.fields["second"]) for row in rows]
    examples = Contrast(twins, tokenizer, limit=c.limit, tail=c.tail, prompt=c.prompt)
    losses, hits, counts = sums(loaded.model, nearest, examples, asked.batch, partial(progress, "pairs"))
    count = counts["loss"]
    measures = {"loss": losses["loss"] / count, "retrieval_accuracy": hits["loss"] / count}
    notes = [f"retrieval: of the second texts of {asked.batch} pairs of similar length, a first text finds its own"]
    if asked.score:
        vectors = Embedder.of(loaded)
        a, b = (_unit(vectors(side)) for side in ([one.first for one in twins], [one.second for one in twins]))
        measures["spearman"] = spearman((a * b).sum(1).astype(np.float64), np.array([_number(row) for row in rows]))
        notes.append(f"spearman: cosines beside the column {asked.score!r}")
    return Evaluation("embed", measures, {"pairs": count}, tuple(notes))


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
