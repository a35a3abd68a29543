"""What a model in training can do by now: texts that it writes, sources that it translates."""

from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from headway.data.batch import IGNORED
from headway.decoding import Request, generate
from headway.training.work import Work

PROMPT = 16  # tokens of a held-out text to go on from
TOKENS = 120  # that are written


def samples(work: Work, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A few texts after a validation, the same prompts each time; nothing for models that write none.

    Where translations are to be scored, their chrF and BLEU go into the row.
    """
    if work.validation is None or work.tokenizer is None:
        return
    if work.config.task == "language" and work.config.samples:
        yield from _continued(work)
    if work.config.task == "seq2seq":
        row |= _scores(work)
        yield from _translated(work, work.config.samples)


def _some(work: Work, count: int) -> dict[str, Any]:
    assert work.validation is not None
    rows = np.linspace(0, len(work.validation) - 1, min(count, len(work.validation))).astype(np.int64)
    return work.validation.batch(rows, rows).inputs


def _continued(work: Work) -> Iterator[dict[str, Any]]:
    tokens = _some(work, work.config.samples)["tokens"]
    prompts = [tuple(row[: max(1, min(PROMPT, len(row) // 2))]) for row in tokens.tolist()]
    room = max(1, min(TOKENS, work.model.config.length - max(map(len, prompts))))
    requests = [
        Request(prompt=prompt, max_new_tokens=room, temperature=0.8, top_p=0.95, seed=seed)
        for seed, prompt in enumerate(prompts)
    ]
    for prompt, found in zip(prompts, generate(work.model, requests, tokenizer=work.tokenizer), strict=True):
        yield {"prompt": _text(work, prompt), "text": found.text}


def _translated(work: Work, count: int) -> Iterator[dict[str, Any]]:
    """Held-out sources with what the model makes of them, the likeliest token each time, and what was wanted."""
    if not count:
        return
    inputs = _some(work, count)
    kept = zip(inputs["source"].tolist(), inputs["source_keep"].tolist(), strict=True)
    sources = [tuple(token for token, real in zip(*pair, strict=True) if real) for pair in kept]
    most = min(2 * inputs["targets"].shape[1], work.config.length)
    requests = [Request(prompt=source, max_new_tokens=most) for source in sources]
    found = generate(work.model, requests, tokenizer=work.tokenizer)
    for source, result, target in zip(sources, found, inputs["targets"].tolist(), strict=True):
        wanted = _text(work, [token for token in target if token != IGNORED])
        yield {"prompt": _text(work, source), "text": result.text, "wanted": wanted}


def _scores(work: Work) -> dict[str, float]:
    """chrF and BLEU of some held-out pairs; nothing where nobody asked, or where sacrebleu is not installed."""
    if not work.config.scored or find_spec("sacrebleu") is None:
        return {}
    from headway.app.measure_pairs import scored

    pairs = list(_translated(work, work.config.scored))
    written = [" ".join(one["text"].splitlines()) for one in pairs]
    return scored(import_module("sacrebleu"), written, [one["wanted"] for one in pairs])[0]


def _text(work: Work, tokens: Any) -> str:
    assert work.tokenizer is not None
    return work.tokenizer.decode(list(tokens))
