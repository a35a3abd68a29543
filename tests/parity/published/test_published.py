"""Directories as their makers published them, at a tiny size: every key of config.json, every name of a tensor.

A model of each kind is made by transformers; its tensors are renamed, joined by buffers and saved the way the published
file has them. Then headway has to give transformers' logits, and to account for every tensor.
"""

import json
import math
import shutil
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from safetensors.torch import load_file, save_file
from torch import Tensor

import headway
from headway.hub.describe import describe
from tests.parity.compare import close, shake
from tests.parity.published.configs import CONFIGS, FOLDERS, GENERATION, PREPROCESSOR, TINY

Tensors = dict[str, Tensor]
SECOND = ("lm_head.weight", "embed_tokens.weight", "embed_positions.weight", "cls.predictions.decoder.weight")
PLAIN = {
    ".gitattributes": "*.safetensors filter=lfs diff=lfs merge=lfs -text\n",
    "README.md": "---\nlicense: mit\n---\n",
}


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


def neox_buffers(tensors: Tensors) -> Tensors:
    """Masks and frequencies beside the weights."""
    masks = {f"gpt_neox.layers.{i}.attention.bias": torch.ones(1, 1, 5, 5, dtype=torch.bool) for i in range(2)}
    numbers = {f"gpt_neox.layers.{i}.attention.masked_bias": torch.tensor(-1e9) for i in range(2)}
    turning = {f"gpt_neox.layers.{i}.attention.rotary_emb.inv_freq": torch.rand(1) for i in range(2)}
    return bare(tensors, drop=("lm_head",)) | masks | numbers | turning


def bare_opt(tensors: Tensors) -> Tensors:
    """Names without the first word, and the head beside the embedding that it is."""
    named = {name.removeprefix("model."): tensor for name, tensor in tensors.items()}
    return named | {"lm_head.weight": tensors["model.decoder.embed_tokens.weight"].clone()}


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
    "Qwen3-0.6B": Published("Qwen3ForCausalLM", dtype=torch.bfloat16),
    "granite-3.1-2b-base": Published("GraniteForCausalLM", tied, torch.bfloat16, shards=2),
    "SmolLM3-3B-Base": Published("SmolLM3ForCausalLM", tied, torch.bfloat16, shards=2),
    "OLMo-2-1124-7B": Published("Olmo2ForCausalLM", shards=2),
    "Phi-3-mini-4k-instruct": Published("Phi3ForCausalLM", dtype=torch.bfloat16, shards=2),
    "Phi-3-mini-128k-instruct": Published("Phi3ForCausalLM", dtype=torch.bfloat16),
    "gemma-2-2b": Published("Gemma2ForCausalLM", tied, shards=2),
    "gemma-3-1b-pt": Published("Gemma3ForCausalLM", tied, torch.bfloat16),
    "pythia-70m": Published("GPTNeoXForCausalLM", neox_buffers, torch.float16),
    "opt-350m": Published("OPTForCausalLM", bare_opt, torch.float16),
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
    if "feed_forward_proj" in config:  # transformers makes a head of its own out of a file only
        model.lm_head.weight = torch.nn.Parameter(torch.randn_like(model.lm_head.weight))
    shake(model)
    settle(model, how.dtype)
    write(place / "config.json", config)
    files = {"generation_config.json": GENERATION, "preprocessor_config.json": PREPROCESSOR}
    for file, held in files.items():
        if name in held:
            write(place / file, held[name])
    for file, content in FOLDERS.get(name, {}).items():
        write(place / file, content)
    store(how, model, place)
    return model


@torch.no_grad()
def settle(model: transformers.PreTrainedModel, dtype: torch.dtype) -> None:
    """Every weight is what the file can say; Marian's sinusoids, which are weights there, are themselves again."""
    for name, parameter in model.named_parameters():
        parameter.copy_(parameter.to(dtype))
        if name.endswith("embed_positions.weight") and not parameter.requires_grad:
            table: Any = model.get_submodule(name.rpartition(".")[0])
            parameter.copy_(table.create_weight())


def store(how: Published, model: transformers.PreTrainedModel, place: Path) -> None:
    model.save_pretrained(place / "now")
    saved = load_file(place / "now" / "model.safetensors")
    shutil.rmtree(place / "now")
    # What save_pretrained leaves out today: second names of a tensor, and Marian's sinusoids.
    left = {name: tensor for name, tensor in model.state_dict().items() if name.endswith(SECOND) and name not in saved}
    saved |= {name: tensor.clone() for name, tensor in left.items()}
    tensors = {name: tensor.to(how.dtype) for name, tensor in saved.items()}
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
    if kind.endswith(("ForCausalLM", "LMHeadModel")):
        return close(model(given[0]), other(given[0]).logits)
    if other.config.is_encoder_decoder:
        return close(model(*given), other(input_ids=given[0], decoder_input_ids=given[1]).logits)
    if kind.startswith(("DeiT", "ViT")):
        return close(model(given[0]), other(given[0]).logits)
    return bert_agrees(model, other, given[0])


def bert_agrees(model: Any, other: transformers.PreTrainedModel, tokens: Tensor) -> bool:
    types = (torch.arange(tokens.shape[1]) > 4).long().expand_as(tokens)
    found = other(tokens, token_type_ids=types)
    encoder = model.encoder if model.config.kind == "sentence" else model
    hidden = encoder.hidden_states(tokens, types=types)
    if isinstance(other, transformers.BertModel):
        return close(hidden, found.last_hidden_state) and close(encoder.pooled(hidden), found.pooler_output)
    if isinstance(other, transformers.BertForSequenceClassification):
        return close(encoder.classify(hidden), found.logits)
    pairs = ((encoder.words, found.prediction_logits), (encoder.adjacent, found.seq_relationship_logits))
    return all(close(head(hidden), logits) for head, logits in pairs)


@pytest.mark.parametrize("name", MODELS)
def test_a_published_directory_gives_its_makers_logits(name: str, tmp_path: Path) -> None:
    other = build(name, tmp_path / name)
    clutter(tmp_path / name)
    model, _, receipt = headway.load(in_a_cache(tmp_path / name), dtype="float32")
    assert receipt.expected == receipt.found and not receipt.missing
    assert agree(model, other)
    assert not describe(str(tmp_path / name)).notes
    headway.save(model, tmp_path / "again")
    assert headway.load(tmp_path / "again").model.config == model.config
    with torch.no_grad():
        first = next(iter(model.parameters()))
        first.add_(torch.linspace(0.1, 0.3, first.numel()).view_as(first))
    assert not agree(model, other)


def test_a_sharded_index_may_name_a_tied_tensor_more_often_than_its_files_hold_it(tmp_path: Path) -> None:
    """flan-t5-xl: the index lists three names of the embedding, the files hold one."""
    name = "Llama-2-7b-hf"
    build(name, tmp_path)
    where = tmp_path / "model.safetensors.index.json"
    index = json.loads(where.read_text())
    write(tmp_path / "config.json", config_of(name) | {"tie_word_embeddings": True})
    for file in set(index["weight_map"].values()):
        held = load_file(tmp_path / file)
        held.pop("lm_head.weight", None)
        save_file(held, tmp_path / file)
    assert headway.load(tmp_path).receipt.tied == ("lm_head.weight",)
    index["weight_map"]["model.norm.bias"] = "model-00001-of-00002.safetensors"
    write(where, index)
    with pytest.raises(ValueError, match=r"says that model-00001-of-00002.safetensors holds 'model.norm.bias'"):
        headway.load(tmp_path)


def test_two_sets_of_weights_in_one_directory_are_not_chosen_from(tmp_path: Path) -> None:
    build("Mistral-7B-v0.3", tmp_path)
    save_file({"model.norm.weight": torch.ones(24)}, tmp_path / "consolidated.safetensors")  # Mistral's own, beside
    headway.load(tmp_path)
    save_file({"model.norm.weight": torch.ones(24)}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"holds model.safetensors and model.safetensors.index.json"):
        headway.load(tmp_path)


@pytest.mark.parametrize(
    ("name", "dtype"),
    [("Llama-2-7b-hf", "float32"), ("Mistral-7B-v0.3", "bfloat16"), ("gpt2", "float32"), ("distilgpt2", "float32")],
)
def test_buffers_do_not_say_in_which_dtype_the_weights_are(name: str, dtype: str, tmp_path: Path) -> None:
    """float16 becomes float32; bfloat16 stays, though old files hold frequencies in float32 beside it."""
    build(name, tmp_path)
    if dtype == "bfloat16":
        file = tmp_path / "model-00001-of-00003.safetensors"
        save_file(load_file(file) | {"model.layers.0.self_attn.rotary_emb.inv_freq": torch.rand(2)}, file)
    model, _, receipt = headway.load(tmp_path)
    assert receipt.dtype == dtype and {parameter.dtype for parameter in model.parameters()} == {getattr(torch, dtype)}


def test_tokens_of_decoding_are_followed_and_the_other_settings_said(tmp_path: Path) -> None:
    for name in ("bart-large-cnn", "opus-mt-en-de", "Llama-3.2-1B", "t5-small"):
        build(name, tmp_path / name)
    found = {path.name: headway.load(path) for path in tmp_path.iterdir()}
    bart, marian_, llama = (found[name].model.config for name in ("bart-large-cnn", "opus-mt-en-de", "Llama-3.2-1B"))
    assert (bart.forced.first, bart.forced.last, bart.special.start) == (0, 2, 2)
    assert (marian_.forced.last, marian_.forced.never, marian_.special.start) == (0, (52,), 52)
    assert llama.special.end == (51, 47, 48)
    asked = found["bart-large-cnn"].receipt.generation_settings
    assert set(asked) == {
        "num_beams=4", "length_penalty=2.0", "early_stopping=True", "min_length=56", "no_repeat_ngram_size=3",
    }  # fmt: skip
    assert "suggested for decoding, not followed: num_beams=4" in str(found["bart-large-cnn"].receipt)
    assert set(found["opus-mt-en-de"].receipt.generation_settings) == {"num_beams=6", "renormalize_logits=True"}
    assert set(found["Llama-3.2-1B"].receipt.generation_settings) == {"do_sample=True", "temperature=0.6", "top_p=0.9"}
    assert found["t5-small"].receipt.generation_settings == ()
    (tmp_path / "bart-large-cnn" / "generation_config.json").unlink()
    assert (
        headway.load(tmp_path / "bart-large-cnn").receipt.generation_settings == asked
    )  # older directories say it in config.json


@pytest.mark.parametrize(
    ("curve", "outcome"),
    [("linear.Identity", "value"), ("activation.Sigmoid", "several"), (None, "several")],
)
def test_what_a_cross_encoder_makes_of_its_one_number(curve: str | None, outcome: str, tmp_path: Path) -> None:
    name = "ms-marco-MiniLM-L-6-v2"
    build(name, tmp_path)
    config = config_of(name) | {"sentence_transformers": curve and {"activation_fn": f"torch.nn.modules.{curve}"}}
    config.pop("sbert_ce_default_activation_function")
    write(tmp_path / "config.json", config)
    assert headway.load(tmp_path).model.config.outcome == outcome


def test_a_pointer_of_git_lfs_is_called_one(tmp_path: Path) -> None:
    build("gpt2", tmp_path)
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{'0' * 64}\nsize 548105171\n"
    (tmp_path / "model.safetensors").write_text(pointer)
    with pytest.raises(ValueError, match=r"model.safetensors is not a whole .* pointer of git-lfs"):
        headway.load(tmp_path)


def test_pictures_are_prepared_as_the_directory_says(tmp_path: Path) -> None:
    for name in ("vit-base-patch16-224", "deit-base-distilled-patch16-224"):
        build(name, tmp_path / name)
    vit = headway.load(tmp_path / "vit-base-patch16-224").model.config
    assert (vit.images.resize, vit.images.crop, vit.images.resample) == ((35, 35), None, "bilinear")
    assert vit.labels == ("tench, Tinca tinca", "crane", "crane")
    deit = headway.load(tmp_path / "deit-base-distilled-patch16-224").model.config.images
    assert (deit.resize, deit.crop, deit.resample) == ((41, 41), (35, 35), "bicubic")
    assert deit.mean == (0.485, 0.456, 0.406)


NOMIC = {
    "architectures": ["NomicBertModel"], "activation_function": "swiglu", "model_type": "nomic_bert", "n_embd": 768,
    "n_head": 12, "n_inner": 3072, "n_layer": 12, "n_positions": 8192, "rotary_emb_fraction": 1.0, "vocab_size": 30528,
}  # fmt: skip


def test_an_architecture_that_headway_lacks_is_named(tmp_path: Path) -> None:
    """nomic-embed-text-v1: a sentence encoder like the others, around another encoder."""
    for file, content in FOLDERS["all-MiniLM-L6-v2"].items():
        write(tmp_path / file, content)
    write(tmp_path / "config.json", NOMIC)
    with pytest.raises(ValueError, match=r"headway knows no architecture 'nomic_bert'.*; it reads .*bert"):
        headway.load(tmp_path)


DAVIT = {
    "architecture": "davit_tiny", "num_classes": 1000, "num_features": 768, "pretrained_cfg": {
        "tag": "msft_in1k", "custom_load": False, "input_size": [3, 224, 224], "fixed_input_size": False,
        "interpolation": "bicubic", "crop_pct": 0.95, "crop_mode": "center", "mean": [0.485, 0.456, 0.406],
        "std": [0.229, 0.224, 0.225], "num_classes": 1000, "pool_size": [7, 7], "first_conv": "stem.conv",
        "classifier": "head.fc",
    },
}  # fmt: skip


def davit_shapes() -> dict[str, tuple[int, ...]]:
    """Every tensor of timm/davit_tiny.msft_in1k: this config.json has no word with which to make it smaller."""
    widths, depths = (96, 192, 384, 768), (1, 1, 3, 1)
    maps: dict[str, tuple[int, ...]] = {"stem.conv": (96, 3, 7, 7), "stem.norm": (96,), "head.norm": (768,)}
    maps["head.fc"] = (1000, 768)
    for stage, (width, depth) in enumerate(zip(widths, depths, strict=True)):
        if stage:
            maps[f"stages.{stage}.downsample.norm"] = (width // 2,)
            maps[f"stages.{stage}.downsample.conv"] = (width, width // 2, 2, 2)
        for half in [f"stages.{stage}.blocks.{block}.{half}" for block in range(depth) for half in range(2)]:
            maps |= {f"{half}.{name}": (width, 1, 3, 3) for name in ("cpe1.proj", "cpe2.proj")}
            maps |= {f"{half}.{name}": (width,) for name in ("norm1", "norm2")}
            maps |= {f"{half}.attn.qkv": (3 * width, width), f"{half}.attn.proj": (width, width)}
            maps |= {f"{half}.mlp.fc1": (4 * width, width), f"{half}.mlp.fc2": (width, 4 * width)}
    weights = {f"{name}.weight": shape for name, shape in maps.items()}
    # The first size of a map is what it gives, and so its bias; a norm's two are alike.
    return weights | {f"{name}.bias": shape[:1] for name, shape in maps.items()}


def test_timms_davit_at_its_own_size(tmp_path: Path) -> None:
    """Names and shapes; the file is a hole of zeros. The numbers are compared in tests/parity/davit."""
    header, at = {}, 0
    for name, shape in davit_shapes().items():
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [at, at + size]}
        at += size
    content = json.dumps(header).encode()
    with (tmp_path / "model.safetensors").open("wb") as file:
        file.write(struct.pack("<Q", len(content)) + content)
        file.truncate(8 + len(content) + at)
    write(tmp_path / "config.json", DAVIT)
    write(tmp_path / "pytorch_model.bin", "not to be opened")
    model, _, receipt = headway.load(tmp_path)
    assert (receipt.family, receipt.parameters, receipt.unused) == ("davit", 28_360_168, ())
    assert (model.config.images.resize, model.config.images.crop) == (235, (224, 224))


def test_stored_sinusoids_have_to_be_sinusoids(tmp_path: Path) -> None:
    """Other libraries read Marian's from the file, so that a table of another kind would be another model."""
    build("opus-mt-en-de", tmp_path)
    held, name = load_file(tmp_path / "model.safetensors"), "model.encoder.embed_positions.weight"
    save_file(held | {name: held[name].half()}, tmp_path / "model.safetensors")
    assert name in headway.load(tmp_path).receipt.unused
    for wrong in (held[name] + 0.01, held[name][1:].clone()):
        save_file(held | {name: wrong}, tmp_path / "model.safetensors")
        with pytest.raises(
            ValueError, match=r"'model.encoder.embed_positions.weight' is not what config.json makes it"
        ):
            headway.load(tmp_path)
