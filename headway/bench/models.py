"""`headway bench models`: whole models beside the libraries that people use, same weights, dtype and threads.

GPT-2 in its smallest size with random weights, saved by headway and loaded by transformers: decoding by each library's
own loop, greedy, tokens compared first; and reading a prompt. Then real sentences through a real encoder (`embed`).
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from importlib.util import find_spec
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from headway.bench.embed import embed
from headway.bench.row import Row, Target, unmeasured
from headway.bench.run import Run
from headway.config import LanguageConfig, Special
from headway.decoding import Request, generate
from headway.hub import save
from headway.models import build, parameters
from headway.presets import preset

PEER = "transformers"
PROMPT, NEW = 16, 48  # tokens read, tokens made
STREAMS = {1: 1.8, 8: 1.3}  # streams -> how many times their rate is asked for
READ = 512


def decode(run: Run) -> Iterator[Row]:
    """New tokens per second, one stream and eight."""
    new = NEW // 4 if run.quick else NEW
    for streams, factor in STREAMS.items():
        row = Row("models", "GPT-2 124M, decode", f"{PROMPT} + {new} tokens", "float32", streams, unit="tokens/s")
        yield _beside(run, row, partial(_decoding, streams=streams, new=new), factor, tokens=streams * new)


def prefill(run: Run) -> Iterator[Row]:
    """A prompt through the model, up to the logits of what follows."""
    length = READ // 4 if run.quick else READ
    row = Row("models", "GPT-2 124M, prefill", f"{length} tokens", "float32", unit="tokens/s")
    yield _beside(run, row, partial(_reading, length=length), 1.1, tokens=length)


def _beside(run: Run, row: Row, contenders: Callable[[Any, Any], dict], factor: float, *, tokens: int) -> Row:
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


CASES: dict[str, Callable[[Run], Iterator[Row]]] = {"decode": decode, "prefill": prefill, "embed": embed}
