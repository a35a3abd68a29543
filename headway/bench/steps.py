"""One training step of a GPT, by headway and by the libraries that people use.

The peers have torch's fused AdamW, its fastest here. In bfloat16 all weights are bfloat16; headway's optimiser keeps
its masters in float32, the peers have none, which is less work.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from tempfile import TemporaryDirectory
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import LanguageConfig, Special
from headway.config.train import OptimConfig
from headway.hub import save
from headway.models import fresh
from headway.presets.gpt2 import gpt2
from headway.train.learner import Learner, total
from headway.train.objectives.language import language
from headway.train.optim import Optimizer

Inputs = Mapping[str, Tensor]
OPTIM = OptimConfig()


@dataclass(frozen=True)
class Size:
    """A model and a batch."""

    name: str
    layers: int
    width: int
    heads: int
    vocabulary: int
    batch: int
    length: int

    @property
    def config(self) -> LanguageConfig:
        config = gpt2(width=self.width, layers=self.layers, heads=self.heads)
        block = config.stack.block.model_copy(update={"dropout": 0.0})
        stack = config.stack.model_copy(update={"block": block})
        sizes = {"vocabulary": self.vocabulary, "length": self.length, "special": Special(), "stack": stack}
        return config.model_copy(update=sizes)

    @property
    def shape(self) -> str:
        return f"{self.layers} layers of {self.width}, V {self.vocabulary}, batch {self.batch} x {self.length}"


SIZES = {
    "characters": Size("GPT on characters", 4, 128, 4, 65, 12, 64),
    "subwords": Size("GPT on subwords", 6, 256, 8, 8192, 8, 128),
}


def contenders(size: Size, dtype: torch.dtype) -> dict[str, Callable[[], Tensor]]:
    """A training step of each library, on the same tokens."""
    text = torch.randint(0, size.vocabulary, (size.batch, size.length + 1), generator=torch.Generator().manual_seed(3))
    inputs = {"tokens": text[:, :-1].contiguous(), "targets": text[:, 1:].contiguous()}
    model = fresh(size.config, dtype=dtype)
    other, third = _transformers(model, dtype), _x_transformers(size, dtype)
    return {
        "transformers": _plainly(other, lambda tokens: other(tokens, use_cache=False).logits, inputs),
        "x-transformers": _plainly(third, third, inputs),
        "headway": partial(headway_step(model.train()), inputs),
    }


def headway_step(model: nn.Module) -> Callable[[Inputs], Tensor]:
    """A batch in, one step, and its loss out."""
    learner = Learner(model, language)
    optimizer = Optimizer(learner.named_parameters(), OPTIM, master=next(model.parameters()).dtype == torch.bfloat16)

    def step(inputs: Inputs) -> Tensor:
        optimizer.zero()
        loss = total(learner(dict(inputs)), {}, {"loss": float(inputs["targets"].numel())})
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


def _x_transformers(size: Size, dtype: torch.dtype) -> Any:
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
