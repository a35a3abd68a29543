"""Sound models of two libraries, as the laws of numbers and of states meet them."""

from collections.abc import Callable
from functools import cache
from typing import Any

import torch
import transformers
from torch import nn

from headway.adapt.adapter import Adapter
from headway.adapt.guess import guess_adapter
from headway.adapt.model import AdaptedModel
from headway.audit.report import Finding
from headway.audit.search.search_context import QUICK, Effort, SearchContext
from tests.cost.tiny import MODELS
from tests.fresh import fresh
from tests.thorough import THOROUGH

WORDS: dict[str, Any] = dict(vocab_size=29, bos_token_id=0, eos_token_id=1, pad_token_id=None)
SIZE: dict[str, Any] = dict(hidden_size=24, num_hidden_layers=2, num_attention_heads=3, intermediate_size=40)
READS: dict[str, Any] = dict(vocabulary=29, longest=320, mask="attention_mask")

# Kinds of headway's own that differ where these laws look; `make test-thorough` takes them all.
OURS = [name for name in MODELS if THOROUGH or name in ("gpt2", "vit")]


def context_of(model: nn.Module, adapter: Adapter | None = None, effort: Effort = QUICK, **told: Any) -> SearchContext:
    model.eval()
    return SearchContext(AdaptedModel(model, guess_adapter(model, adapter, told)), effort)


@cache
def ours(name: str) -> SearchContext:
    return context_of(fresh(MODELS[name], std=0.3))


def gpt2() -> tuple[nn.Module, Adapter]:
    config = transformers.GPT2Config(n_embd=24, n_layer=2, n_head=3, n_positions=320, **WORDS)
    return transformers.GPT2LMHeadModel(config), Adapter(**READS, positions="position_ids", causal=True)


def bert() -> tuple[nn.Module, Adapter]:
    words: dict[str, Any] = WORDS | dict(pad_token_id=0)
    config = transformers.BertConfig(**SIZE, **words, max_position_embeddings=320)
    return transformers.BertModel(config), Adapter(**READS, causal=False)


def llama() -> tuple[nn.Module, Adapter]:
    config = transformers.LlamaConfig(**SIZE, **WORDS, num_key_value_heads=1, max_position_embeddings=320)
    return transformers.LlamaForCausalLM(config), Adapter(**READS, positions="position_ids", causal=True)


def t5() -> tuple[nn.Module, Adapter]:
    config = transformers.T5Config(d_model=24, d_kv=8, num_layers=2, num_heads=3, d_ff=40, vocab_size=29)
    names = dict(argument="decoder_input_ids", source="input_ids", source_mask="attention_mask")
    adapter = Adapter(vocabulary=29, source_vocabulary=29, mask="decoder_attention_mask", causal=True, **names)  # type: ignore[arg-type]
    return transformers.T5ForConditionalGeneration(config), adapter


def vit() -> tuple[nn.Module, Adapter]:
    config = transformers.ViTConfig(**SIZE, image_size=16, patch_size=4)
    return transformers.ViTForImageClassification(config), Adapter(inputs="images", image=(3, 16, 16))


THEIRS: dict[str, Callable[[], tuple[nn.Module, Adapter]]] = {
    "gpt2": gpt2, "bert": bert, "llama": llama, "t5": t5, "vit": vit,
}  # fmt: skip
SOME = [name for name in THEIRS if THOROUGH or name == "llama"]


@cache
def theirs(name: str) -> SearchContext:
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return context_of(*THEIRS[name]())


def holds(found: Finding) -> bool:
    """Held, after it was tried; what is said otherwise is shown by the assertion."""
    assert not found.broken, (found.module, found.example, found.why)
    return found.status == "holds" and found.trials > 0
