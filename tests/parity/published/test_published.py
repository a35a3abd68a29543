"""Directories as their makers published them, at a tiny size: every key of config.json, every name of a tensor.

A model of each kind is made by transformers; its tensors are renamed, joined by buffers and saved the way the published
file has them. Then headway has to give transformers' logits, and to account for every tensor.
"""

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import save_file
from torch import Tensor

import headway
from tests.parity.compare import close, shake
from tests.parity.published.configs import CONFIGS, FOLDERS, GENERATION, PREPROCESSOR, TINY

Tensors = dict[str, Tensor]
PLAIN = {".gitattributes": "*.safetensors filter=lfs diff=lfs merge=lfs -text\n", "README.md": "---\nlicense: mit\n---\n"}


def as_is(tensors: Tensors) -> Tensors:
    return tensors


def bare(tensors: Tensors, *prefixes: str, drop: tuple[str, ...] = ()) -> Tensors:
    """Without a prefix, and without the tensors that begin with another one."""
    kept = {name: tensor for name, tensor in tensors.items() if not name.startswith(drop)} if drop else tensors
    for prefix in prefixes:
        kept = {name.removeprefix(prefix): tensor for name, tensor in kept.items()}
    return kept


def gpt2(tensors: Tensors) -> Tensors:
    masks = {f"h.{i}.attn.bias": torch.ones(1, 1, 23, 23).tril() for i in range(2)}
    return bare(tensors, "transformer.", drop=("lm_head",)) | masks


def distilgpt2(tensors: Tensors) -> Tensors:
    masks = {f"transformer.h.{i}.attn.bias": torch.ones(1, 1, 23, 23).tril().to(torch.uint8) for i in range(2)}
    numbers = {f"transformer.h.{i}.attn.masked_bias": torch.tensor(-1e4) for i in range(2)}
    return tensors | masks | numbers


def gamma(tensors: Tensors) -> Tensors:
    """The first releases' names of a norm's numbers."""
    found = bare(tensors, drop=("cls.predictions.decoder",))
    return {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in found.items()
    }


def positions(tensors: Tensors, prefix: str = "") -> Tensors:
    return tensors | {f"{prefix}embeddings.position_ids": torch.arange(23)[None]}


def t5(tensors: Tensors) -> Tensors:
    unread = "decoder.block.0.layer.1.EncDecAttention.relative_attention_bias.weight"
    return bare(tensors, drop=("encoder.embed", "decoder.embed", "lm_head")) | {unread: torch.randn(32, 3)}


def gated_t5(tensors: Tensors) -> Tensors:
    return bare(tensors, drop=("encoder.embed", "decoder.embed"))


def bart_base(tensors: Tensors) -> Tensors:
    return bare(tensors, "model.", drop=("lm_head", "final", "model.encoder.embed_t", "model.decoder.embed_t"))


def bart_large_cnn(tensors: Tensors) -> Tensors:
    """The one embedding stands under its alphabetically first name."""
    return bare(tensors, drop=("lm_head", "model.shared", "model.encoder.embed_tokens"))


def marian(tensors: Tensors) -> Tensors:
    return {name: tensor for name, tensor in tensors.items() if name != "lm_head.weight"}


def frequencies(tensors: Tensors) -> Tensors:
    """In float32, whatever the weights are in."""
    return tensors | {f"model.layers.{i}.self_attn.rotary_emb.inv_freq": torch.rand(2) for i in range(2)}


def tied(tensors: Tensors) -> Tensors:
    return bare(tensors, drop=("lm_head",))


@dataclass(frozen=True)
class Published:
    """How a directory came to be: its class, and what its file calls the tensors."""

    kind: str
    names: Callable[[Tensors], Tensors] = as_is
    dtype: torch.dtype = torch.float32
    shards: int = 1
    metadata: Mapping[str, str] = field(default_factory=lambda: {"format": "pt"})


MODELS = {
    "gpt2": Published("GPT2LMHeadModel", gpt2),
    "distilgpt2": Published("GPT2LMHeadModel", distilgpt2),
    "bert-base-uncased": Published("BertForPreTraining", gamma),
    "bert_uncased_L-2_H-128_A-2": Published("BertForPreTraining", gamma),
    "ms-marco-MiniLM-L-6-v2": Published("BertForSequenceClassification", partial(positions, prefix="bert.")),
    "all-MiniLM-L6-v2": Published("BertModel", positions),
    "bge-small-en": Published("BertModel", positions),
    "t5-small": Published("T5ForConditionalGeneration", t5),
    "flan-t5-small": Published("T5ForConditionalGeneration", gated_t5),
    "t5-v1_1-small": Published("T5ForConditionalGeneration"),
    "bart-base": Published("BartForConditionalGeneration", bart_base),
    "bart-large-cnn": Published("BartForConditionalGeneration", bart_large_cnn),
    "opus-mt-en-de": Published("MarianMTModel", marian, metadata={}),
    "Llama-2-7b-hf": Published("LlamaForCausalLM", frequencies, torch.float16, shards=2),
    "Llama-3.2-1B": Published("LlamaForCausalLM", tied, torch.bfloat16),
    "TinyLlama-1.1B-Chat-v1.0": Published("LlamaForCausalLM", dtype=torch.bfloat16),
    "SmolLM2-135M": Published("LlamaForCausalLM", tied, torch.bfloat16),
    "Mistral-7B-v0.1": Published("MistralForCausalLM", dtype=torch.bfloat16, shards=2),
    "Mistral-7B-v0.3": Published("MistralForCausalLM", dtype=torch.bfloat16, shards=3),
    "Qwen2-0.5B": Published("Qwen2ForCausalLM", tied, torch.bfloat16),
    "vit-base-patch16-224": Published("ViTForImageClassification"),
    "deit-base-distilled-patch16-224": Published("DeiTForImageClassificationWithTeacher"),
}


def config_of(name: str) -> dict[str, Any]:
    """The published keys, with sizes of our own; no key is added."""
    tiny = TINY[CONFIGS[name]["model_type"]] | TINY.get(name, {})
    return CONFIGS[name] | {key: value for key, value in tiny.items() if key in CONFIGS[name]}


def build(name: str, place: Path) -> transformers.PreTrainedModel:
    """The directory, and transformers' model with the very weights in it."""
    how, config = MODELS[name], config_of(name)
    kind = getattr(transformers, how.kind)
    torch.manual_seed(3)
    model = kind(kind.config_class.from_dict(config)).eval()
    shake(model)
    model = model.to(how.dtype).float()
    write(place / "config.json", config)
    files = {"generation_config.json": GENERATION, "preprocessor_config.json": PREPROCESSOR}
    for file, held in files.items():
        if name in held:
            write(place / file, held[name])
    for file, content in FOLDERS.get(name, {}).items():
        write(place / file, content)
    store(how, model, place)
    return model


def store(how: Published, model: transformers.PreTrainedModel, place: Path) -> None:
    tensors = {name: tensor.to(how.dtype).clone() for name, tensor in model.state_dict().items()}
    found = {name: tensor.contiguous() for name, tensor in how.names(tensors).items()}
    if how.shards == 1:
        save_file(found, place / "model.safetensors", metadata=dict(how.metadata))
        return
    places = {}
    for number in range(how.shards):
        file = f"model-{number + 1:05d}-of-{how.shards:05d}.safetensors"
        part = dict(list(found.items())[number :: how.shards])
        save_file(part, place / file, metadata=dict(how.metadata))
        places |= dict.fromkeys(part, file)
    total = sum(tensor.nbytes for tensor in found.values())
    write(place / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": places})


def write(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content if isinstance(content, str) else json.dumps(content, indent=2))


def clutter(place: Path) -> None:
    """What stands beside the weights and is no part of them."""
    for file, content in PLAIN.items():
        write(place / file, content)
    for file in ("pytorch_model.bin", "tf_model.h5", "onnx/model.onnx", "openvino/openvino_model.bin"):
        write(place / file, "not to be opened")


def in_a_cache(place: Path) -> Path:
    """The directory as the hub's client lays it out: names that point to blobs."""
    root = place.parent / f"models--{place.name}"
    snapshot = root / "snapshots" / "a1b2"
    for number, file in enumerate(sorted(path for path in place.rglob("*") if path.is_file())):
        blob, link = root / "blobs" / f"{number:040x}", snapshot / file.relative_to(place)
        for path in (blob, link):
            path.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(file, blob)
        link.symlink_to(Path(*[".."] * (len(link.relative_to(root).parts) - 1)) / "blobs" / blob.name)
    return snapshot


def inputs(model: transformers.PreTrainedModel, seed: int = 7) -> tuple[Tensor, ...]:
    draw = torch.Generator().manual_seed(seed)
    config = model.config
    if config.model_type in ("vit", "deit"):
        return (torch.randn(2, 3, config.image_size, config.image_size, generator=draw),)
    tokens = torch.randint(3, config.vocab_size, (2, 11), generator=draw)
    return (tokens, tokens[:, :7].flip(1)) if config.is_encoder_decoder else (tokens,)


@torch.no_grad()
def agree(model: Any, other: transformers.PreTrainedModel) -> bool:
    """Whether both give the same, in every output that theirs has."""
    given = inputs(other)
    kind = type(other).__name__
    if kind.startswith(("GPT2", "Llama", "Mistral", "Qwen2")):
        return close(model(given[0]), other(given[0]).logits)
    if other.config.is_encoder_decoder:
        return close(model(*given), other(input_ids=given[0], decoder_input_ids=given[1]).logits)
    if kind.startswith("DeiT"):
        found = other(given[0])
        return close(model(given[0]), found.logits)
    if kind == "ViTForImageClassification":
        return close(model(given[0]), other(given[0]).logits)
    return bert_agrees(model, other, given[0])


def bert_agrees(model: Any, other: transformers.PreTrainedModel, tokens: Tensor) -> bool:
    types = (torch.arange(tokens.shape[1]) > 4).long().expand_as(tokens)
    found = other(tokens, token_type_ids=types)
    kind = type(other).__name__
    if kind == "BertModel":
        encoder = model.encoder if model.config.family == "sentence" else model
        hidden = encoder.read(tokens, types=types)
        return close(hidden, found.last_hidden_state) and close(encoder.pool(hidden), found.pooler_output)
    hidden = model.read(tokens, types=types)
    if kind == "BertForSequenceClassification":
        return close(model.classify(tokens, types=types), found.logits)
    return close(model.logits(hidden), found.prediction_logits) and close(
        model.adjacent_logits(hidden), found.seq_relationship_logits
    )
