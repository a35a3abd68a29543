"""One training step of a GPT, by headway and by the libraries that people use.

The peers have torch's fused AdamW, its fastest here. In bfloat16 all weights are bfloat16; headway's optimiser keeps
its masters in float32, the peers have none, which is less work.

`feeding` measures how long a step waits for data: batches are cut from memory-mapped tokens of real text by a thread
beside the step. Its row is the time that a step waited; its note says how long making a batch takes, which the other
cores lose where none is idle.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.bench.plain import plain_gpt
from headway.bench.row import Row, Target, counted
from headway.bench.run import Bench
from headway.bench.sizes import SIZES, GPTSize
from headway.config.train import OptimConfig, TokenizerConfig
from headway.data.builtin_data import python_reference
from headway.data.loader import Loader, Order
from headway.data.shard_writer import build as build_shards
from headway.data.source import Document
from headway.data.tokenizer_training import train_tokenizer
from headway.data.windows import Windows
from headway.hub import save
from headway.models import build
from headway.training.objectives import Learner, language_loss, total_loss
from headway.training.optim import Optimizer
from headway.training.trainer import keep_memory

Inputs = Mapping[str, Tensor]
OPTIM = OptimConfig()


PEERS = ("plain PyTorch", "transformers", "x-transformers")


def contender(name: str, size: GPTSize, dtype: torch.dtype) -> Callable[[], Tensor]:
    """A training step of one library, on the same tokens and, where it has such a model, the same weights."""
    text = torch.randint(0, size.vocabulary, (size.batch, size.length + 1), generator=torch.Generator().manual_seed(3))
    inputs = {"tokens": text[:, :-1].contiguous(), "targets": text[:, 1:].contiguous()}
    model = build(size.config, dtype=dtype)
    if name == "headway":
        keep_memory()  # as `headway train` does
        return partial(headway_step(model.train()), inputs)
    if name == "transformers":
        other = _transformers(model, dtype)
        return _plainly(other, lambda tokens: other(tokens, use_cache=False).logits, inputs)
    other = plain_gpt(model, size) if name == "plain PyTorch" else _x_transformers(size, dtype)
    return _plainly(other, other, inputs)


def headway_step(model: nn.Module) -> Callable[[Inputs], Tensor]:
    """A batch in, one step, and its loss out."""
    learner = Learner(model, language_loss)
    optimizer = Optimizer(learner.named_parameters(), OPTIM, master=next(model.parameters()).dtype == torch.bfloat16)

    def step(inputs: Inputs) -> Tensor:
        optimizer.zero()
        loss = total_loss(learner(dict(inputs)), {}, {"loss": float(inputs["targets"].numel())})
        loss.backward()
        optimizer.clip(OPTIM.clip)
        optimizer.step(1.0)
        return loss.detach()

    return step


def _plainly(model: nn.Module, logits: Callable[[Tensor], Tensor], inputs: Inputs) -> Callable[[], Tensor]:
    """A training step as every tutorial has it."""
    weights = list(model.train().parameters())
    groups = [
        {"params": [p for p in weights if p.ndim >= 2], "weight_decay": OPTIM.decay},
        {"params": [p for p in weights if p.ndim < 2], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=OPTIM.rate, betas=OPTIM.betas, eps=OPTIM.eps, fused=True)

    def step() -> Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(logits(inputs["tokens"]).flatten(0, 1).float(), inputs["targets"].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(weights, OPTIM.clip)
        optimizer.step()
        return loss.detach()

    return step


def _transformers(model: Any, dtype: torch.dtype) -> Any:
    """headway's own weights in the other library."""
    from transformers import AutoModelForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    with TemporaryDirectory() as place:
        save(model, f"{place}/model")
        options = {"embd_pdrop": 0.0, "resid_pdrop": 0.0, "attn_pdrop": 0.0}
        return AutoModelForCausalLM.from_pretrained(f"{place}/model", dtype=dtype, **options)


def _x_transformers(size: GPTSize, dtype: torch.dtype) -> Any:
    from x_transformers import Decoder, TransformerWrapper

    layers = Decoder(
        dim=size.width, depth=size.layers, heads=size.heads, attn_dim_head=size.width // size.heads, attn_flash=True
    )
    with torch.random.fork_rng():
        torch.manual_seed(5)
        model = TransformerWrapper(
            num_tokens=size.vocabulary, max_seq_len=size.length, attn_layers=layers, tie_embedding=True
        )
    return model.to(dtype)


TARGET = Target("the cores idle below 2 % of the time", at_most=2.0, ratio=False)
STEPS = 100


def feeding(run: Bench) -> Iterator[Row]:
    """The share of the time that training waits for its next batch."""
    size = SIZES["characters"]
    with TemporaryDirectory() as place:
        yield waiting(size, Path(place), steps=10 if run.quick else STEPS)


def waiting(size: GPTSize, place: Path, *, steps: int) -> Row:
    """One row: real steps on real text, after a few that warm up."""
    feed, vocabulary = feed_of(size, place)
    step = headway_step(build(replace(size, vocabulary=vocabulary).config))
    for batches in feed.steps(0, 3):
        step(batches[0].inputs)
    feed.waited, begun = 0.0, time.perf_counter()
    for batches in feed.steps(3, 3 + steps):
        step(batches[0].inputs)
    passed = time.perf_counter() - begun
    row = Row("train", f"{size.name}, waiting for data", size.shape, "float32", unit="%")
    making = f"making a batch takes {100 * seconds_of_a_batch(feed) * steps / passed:.2g} % of a step"
    return counted(replace(row, note=making), 100 * feed.waited / passed, target=TARGET)


def feed_of(size: GPTSize, place: Path) -> tuple[Loader, int]:
    """Windows over the Python reference, in characters, and how many characters there are."""
    texts = [Document(where, fields["text"]) for where, fields in python_reference()]
    tokenizer = train_tokenizer((text.text for text in texts), TokenizerConfig(kind="character"), task="language")
    examples = Windows(build_shards(texts, tokenizer, place, identity="the Python reference").view(), size.length)
    return Loader(examples, Order(len(examples), seed=0), size.batch), tokenizer.size


def seconds_of_a_batch(feed: Loader, *, count: int = 50) -> float:
    begun = time.perf_counter()
    for step in range(1000, 1000 + count):
        feed.step(step)
    return (time.perf_counter() - begun) / count
