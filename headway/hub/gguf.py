"""Models in GGUF files, Llama's and GPT-2's families: configuration, weights as they are stored, tokenizer.

Quantised maps keep their blocks (`QuantizedLinear`); embeddings, norms and biases become floating-point numbers. A map
whose parts are stored in different types, as queries and values may be, becomes floating-point numbers too. Rows of
Llama's queries and keys lie there in the order of interleaved rotary pairs, and are put back.
"""

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from headway.config import LanguageConfig
from headway.config.weights import HEAD, LayerScheme, Scheme, WeightsConfig
from headway.data.gguf_file import BLOCK, GGUFFile, read_gguf
from headway.hub.family import family_named
from headway.hub.parts import parts_of
from headway.hub.receipt import Hasher, ModelHash, Receipt
from headway.models import on_meta, parameters, with_room
from headway.nn.quantized import pack

# Their name -> ours; "{i}" is the layer.
NAMES: dict[str, tuple[str, ...]] = {
    "token_embd": ("tokens",),
    "position_embd": ("positions",),
    "output_norm": ("stack.norm",),
    "output": (HEAD,),
    "blk.{i}.attn_norm": ("stack.blocks.{i}.attention_norm",),
    "blk.{i}.attn_q": ("stack.blocks.{i}.attention.query",),
    "blk.{i}.attn_k": ("stack.blocks.{i}.attention.key",),
    "blk.{i}.attn_v": ("stack.blocks.{i}.attention.value",),
    "blk.{i}.attn_qkv": tuple(f"stack.blocks.{{i}}.attention.{name}" for name in ("query", "key", "value")),
    "blk.{i}.attn_output": ("stack.blocks.{i}.attention.out",),
    "blk.{i}.ffn_norm": ("stack.blocks.{i}.feedforward_norm",),
    "blk.{i}.ffn_gate": ("stack.blocks.{i}.feedforward.gate",),
    "blk.{i}.ffn_up": ("stack.blocks.{i}.feedforward.up",),
    "blk.{i}.ffn_down": ("stack.blocks.{i}.feedforward.down",),
}
_LAYER = re.compile(r"blk\.(\d+)\.")
_JOINED = re.compile(r"\.attention\.(query|key|value)$")
SCHEMES = {
    "q8_0": Scheme(bits=8, group=BLOCK, scale="float16"),
    "q4_0": Scheme(bits=4, group=BLOCK, scale="float16"),
    "q4_1": Scheme(bits=4, group=BLOCK, minimum=True, scale="float16"),
}
# Architectures, and whether the rows of queries and keys are interleaved in the file.
INTERLEAVED = {"llama": True, "qwen2": False, "gpt2": False}


def gguf_config(file: GGUFFile) -> LanguageConfig:
    """What the metadata says, in our words."""
    kind = file.metadata.get("general.architecture")
    if kind not in INTERLEAVED:
        raise ValueError(f"{file.path} holds a {kind!r}; headway reads GGUF files of {', '.join(INTERLEAVED)}")
    said = _Metadata(file, kind)
    stated = _gpt2(said) if kind == "gpt2" else _llama(said, kind)
    config = family_named(kind).read(stated, frozenset())
    return config.replace(weights=_weights(file, config.tied))


def gguf_card(file: GGUFFile) -> dict[str, Any]:
    """What a model card would say of it, in the words of one."""
    words = {
        "license": "license", "license_name": "license.name", "license_link": "license.link",
        "language": "languages", "base_model": "base_model.0.repo_url",
    }  # fmt: skip
    return {key: value for key, name in words.items() if (value := file.metadata.get(f"general.{name}"))}


class _Metadata:
    """The keys of one architecture; a missing or a wrong one is refused by name."""

    def __init__(self, file: GGUFFile, kind: str) -> None:
        self.file, self.kind = file, kind

    def get(self, key: str, default: Any = None) -> Any:
        return self.file.metadata.get(f"{self.kind}.{key}", default)

    def number(self, key: str) -> int:
        found = self.get(key)
        if not isinstance(found, int) or isinstance(found, bool):
            raise ValueError(f"{self.file.path} says {self.kind}.{key}={found!r}, and a whole number is needed")
        return found

    def shape(self, name: str) -> tuple[int, ...]:
        if name not in self.file.tensors:
            raise ValueError(f"{self.file.path} lacks {name!r}; no weight is made up for it")
        return self.file.tensors[name].shape

    @property
    def shared(self) -> dict[str, Any]:
        """What every architecture says alike, in the words of config.json."""
        tokens = {f"{ours}_token_id": self.file.metadata.get(f"tokenizer.ggml.{theirs}_token_id")
                  for ours, theirs in (("bos", "bos"), ("eos", "eos"), ("pad", "padding"))}  # fmt: skip
        tied = "output.weight" not in self.file.tensors
        return {
            "model_type": self.kind, "vocab_size": self.shape("token_embd.weight")[0], "tie_word_embeddings": tied,
            **tokens,
        }  # fmt: skip


def _gpt2(said: _Metadata) -> dict[str, Any]:
    return {
        **said.shared,
        "n_embd": said.number("embedding_length"),
        "n_layer": said.number("block_count"),
        "n_head": said.number("attention.head_count"),
        "n_inner": said.number("feed_forward_length"),
        "n_positions": said.number("context_length"),
        "layer_norm_epsilon": said.get("attention.layer_norm_epsilon", 1e-5),
    }


def _llama(said: _Metadata, kind: str) -> dict[str, Any]:
    if said.get("expert_count"):
        raise ValueError(f"{said.file.path} has {said.get('expert_count')} experts, which headway does not compute")
    heads, width = said.number("attention.head_count"), said.number("embedding_length")
    head_width = said.get("attention.key_length") or width // max(1, heads)
    if said.get("attention.value_length", head_width) != head_width:
        raise ValueError(f"{said.file.path} has values of another width than keys, which no model of this family has")
    if said.get("rope.dimension_count", head_width) != head_width:
        raise ValueError(
            f"{said.file.path} turns {said.get('rope.dimension_count')} of {head_width} channels of a head"
        )
    scaling = said.get("rope.scaling.type", "none")
    if scaling not in ("none", "linear"):
        raise ValueError(f"{said.file.path} scales rotary positions by {scaling!r}; headway reads linear in GGUF files")
    linear = {"rope_type": "linear", "factor": said.get("rope.scaling.factor", 1.0)}
    return {
        **said.shared,
        "hidden_size": width,
        "num_hidden_layers": said.number("block_count"),
        "num_attention_heads": heads,
        "num_key_value_heads": said.get("attention.head_count_kv", heads),
        "head_dim": head_width,
        "intermediate_size": said.number("feed_forward_length"),
        "max_position_embeddings": said.number("context_length"),
        "rms_norm_eps": said.get("attention.layer_norm_rms_epsilon", 1e-5),
        "rope_theta": said.get("rope.freq_base", 10000.0),
        "rope_scaling": linear if scaling == "linear" else None,
        "attention_bias": kind == "qwen2" or "blk.0.attn_q.bias" in said.file.tensors,
    }


def _ours(name: str) -> tuple[str, ...]:
    """The maps, norms or tables that a tensor is, without .weight and .bias; nothing where headway knows none."""
    stem = name.rpartition(".")[0]
    layer = _LAYER.match(stem)
    known = NAMES.get(_LAYER.sub("blk.{i}.", stem, count=1), ())
    return tuple(one.format(i=layer[1] if layer else "") for one in known)


def _maps(file: GGUFFile) -> Iterator[tuple[str, str]]:
    """Linear maps of the model, and the type of each tensor in them; a tied head has the embedding's."""
    for name, info in file.tensors.items():
        if not name.endswith(".weight") or len(info.shape) != 2:
            continue
        for ours in _ours(name):
            if ours.startswith("stack.blocks.") or ours == HEAD:
                yield _JOINED.sub(".attention.qkv", ours), info.type.name
        if name == "token_embd.weight" and "output.weight" not in file.tensors:
            yield HEAD, info.type.name


def _weights(file: GGUFFile, tied: bool) -> WeightsConfig | None:
    """The scheme of most maps, that of the head, and exceptions by name."""
    types: dict[str, set[str]] = {}
    for name, kind in _maps(file):
        types.setdefault(name, set()).add(kind)
    found = {name: SCHEMES.get(next(iter(kinds))) if len(kinds) == 1 else None for name, kinds in types.items()}
    head = found.pop(HEAD, None)
    if head is None and not any(found.values()):
        return None
    usual = Counter(found.values()).most_common(1)[0][0] if found else None
    others = tuple(LayerScheme(name=name, scheme=one) for name, one in found.items() if one != usual)
    return WeightsConfig(scheme=usual, head=head, layers=others)


def gguf_bytes(file: GGUFFile) -> dict[str, int]:
    """Bytes on disk by type."""
    found: Counter[str] = Counter()
    for info in file.tensors.values():
        found[info.type.name] += info.size
    return dict(found)


def load_gguf(path: Path, dtype: torch.dtype = torch.float32) -> tuple[Any, Receipt]:
    """The model of a file, and its receipt: every tensor is used, and every weight of the model filled."""
    file = read_gguf(path)
    config = gguf_config(file)
    model = with_room(on_meta(config), dtype)
    parts, hasher, filled = parts_of(model), Hasher(), set()
    for name in file.tensors:
        for ours, tensor in _read_tensor(file, name, config, parts):
            if ours not in parts:
                raise ValueError(f"{path} holds {name!r}, which a {config.family} of its metadata does not have")
            if parts[ours].shape != tensor.shape:
                raise ValueError(
                    f"{path}: {name!r} is of shape {file.tensors[name].shape}, and its metadata needs "
                    f"{tuple(parts[ours].shape)} for {ours}"
                )
            hasher.add(ours, tensor)
            parts[ours].copy_(tensor)
            filled.add(ours)
    if missing := sorted(set(parts) - filled):
        raise ValueError(f"{path} lacks the tensor of {missing[0]!r}; no weight is made up for it")
    tied, whole = ("output.weight",) if config.tied else (), len(file.tensors)
    weights = "" if config.weights is None else str(config.weights)
    receipt = Receipt(
        str(path), f"{config.family} (GGUF)", whole, whole, tied, (), (), parameters(model),
        str(dtype).removeprefix("torch."), ModelHash(hasher.hexdigest()), weights=weights,
    )  # fmt: skip
    return model.eval(), receipt


def _read_tensor(
    file: GGUFFile, name: str, config: LanguageConfig, parts: Mapping[str, Tensor]
) -> Iterator[tuple[str, Tensor]]:
    """One tensor of the file as ours by name: numbers and scales apart where the model stores them so."""
    ours, kind = _ours(name), name.rpartition(".")[2]
    if not ours or kind not in ("weight", "bias"):
        raise ValueError(f"{file.path} holds {name!r}, which a {config.family} of its metadata does not have")
    targets = [*ours, *([HEAD] if ours == ("tokens",) and f"{HEAD}.scale" in parts and config.tied else [])]
    stored = [one for one in targets if kind == "weight" and f"{one}.scale" in parts]
    plain = [one for one in targets if one not in stored]
    order = _row_order(name, file, config)
    if stored:
        for own, tensor in _stored_parts(file, name).items():
            yield from _split(stored, own, tensor if order is None else tensor[order], parts)
    if plain:
        tensor = torch.from_numpy(file.floats(name))
        yield from _split(plain, kind, tensor if order is None else tensor[order], parts)


def _stored_parts(file: GGUFFile, name: str) -> dict[str, Tensor]:
    found = file.blocks(name)
    numbers = torch.from_numpy(np.ascontiguousarray(found.numbers))
    scales = {"scale": torch.from_numpy(found.scale.copy())}
    if found.minimum is not None:
        scales["minimum"] = torch.from_numpy(found.minimum.copy())
    return {"weight": numbers if numbers.dtype == torch.int8 else pack(numbers), **scales}


def _split(names: list[str], kind: str, tensor: Tensor, parts: Mapping[str, Tensor]) -> Iterator[tuple[str, Tensor]]:
    """Queries, keys and values of one tensor by their rows; anything else is whole."""
    rows = [len(parts[f"{one}.{kind}"]) for one in names if f"{one}.{kind}" in parts]
    if len(names) == 1 or sum(rows) != len(tensor) or len(rows) != len(names):
        yield f"{names[0]}.{kind}", tensor
        return
    for one, part in zip(names, tensor.split(rows), strict=True):
        yield f"{one}.{kind}", part


def _row_order(name: str, file: GGUFFile, config: LanguageConfig) -> Tensor | None:
    """Where our rows stand in the file: a head's pairs (j, j + K/2) lie side by side there.

    >>> _interleaved(heads=1, width=6).tolist()
    [0, 2, 4, 1, 3, 5]
    """
    attention = config.stack.block.attention
    heads = {"attn_q": attention.heads, "attn_k": attention.kv_heads}.get(name.split(".")[-2])
    if heads is None or not INTERLEAVED[file.metadata["general.architecture"]]:
        return None
    order = _interleaved(heads, attention.head_width)
    if len(order) != file.tensors[name].shape[0]:
        raise ValueError(f"{file.path}: {name!r} has {file.tensors[name].shape[0]} rows, and its heads {len(order)}")
    return order


def _interleaved(heads: int, width: int) -> Tensor:
    return torch.arange(heads * width).view(heads, width // 2, 2).transpose(1, 2).flatten()
