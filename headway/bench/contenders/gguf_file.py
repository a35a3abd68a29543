"""A GGUF file with the weights of a directory, for llama.cpp: GPT-2 and Llama.

Names and numbers of the format come from the `gguf` package. Matrices are stored in the precision asked for, vectors
(norms, biases) and positions in float32.
"""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

ARCHITECTURES = {"gpt2": "GPT2", "llama": "LLAMA"}  # model_type of config.json -> MODEL_ARCH of gguf


def write_gguf(directory: str, work: str, precision: str) -> str:
    """The file, written where it is not there yet."""
    path = Path(work) / f"model-{precision}.gguf"
    if path.exists():
        return str(path)
    config = json.loads((Path(directory) / "config.json").read_text(encoding="utf-8"))
    if config.get("model_type") not in ARCHITECTURES:
        known = " and ".join(ARCHITECTURES)
        raise ValueError(f"GGUF files are written of {known} models, not of {config.get('model_type')!r}")
    gguf: Any = import_module("gguf")
    kind = getattr(gguf.MODEL_ARCH, ARCHITECTURES[config["model_type"]])
    writer = gguf.GGUFWriter(str(path) + ".part", gguf.MODEL_ARCH_NAMES[kind])
    {"gpt2": _gpt2, "llama": _llama}[config["model_type"]](writer, config)
    _vocabulary(writer, config["vocab_size"])
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    _tensors(writer, directory, config, precision, kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    Path(str(path) + ".part").replace(path)
    return str(path)


def _gpt2(writer: Any, config: dict[str, Any]) -> None:
    writer.add_block_count(config["n_layer"])
    writer.add_context_length(config["n_positions"])
    writer.add_embedding_length(config["n_embd"])
    writer.add_feed_forward_length(config.get("n_inner") or 4 * config["n_embd"])
    writer.add_head_count(config["n_head"])
    writer.add_layer_norm_eps(config["layer_norm_epsilon"])


def _llama(writer: Any, config: dict[str, Any]) -> None:
    if config.get("rope_scaling"):
        raise ValueError("GGUF files are written of Llama models without rope_scaling")
    heads = config["num_attention_heads"]
    width = config.get("head_dim") or config["hidden_size"] // heads
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads") or heads)
    writer.add_key_length(width)
    writer.add_value_length(width)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_rope_dimension_count(width)
    writer.add_rope_freq_base((config.get("rope_parameters") or config).get("rope_theta", 10000.0))
    writer.add_vocab_size(config["vocab_size"])


def _vocabulary(writer: Any, size: int) -> None:
    """Names that nobody reads: prompts are given as tokens."""
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"t{number}" for number in range(size)])
    writer.add_token_types([1] * size)
    writer.add_token_merges(["t 0"])
    writer.add_bos_token_id(0)
    writer.add_eos_token_id(0)


def _tensors(writer: Any, directory: str, config: dict[str, Any], precision: str, kind: Any) -> None:
    gguf: Any = import_module("gguf")
    layers = config.get("n_layer") or config["num_hidden_layers"]
    names = gguf.get_tensor_name_map(kind, layers)
    for theirs, tensor in _stored(directory):
        name = names.get_name(theirs, try_suffixes=(".weight", ".bias"))
        if name is None:
            if theirs.endswith((".attn.bias", ".attn.masked_bias", "rotary_emb.inv_freq")):
                continue
            raise ValueError(f"GGUF has no name for the tensor {theirs}")
        if config["model_type"] == "gpt2" and theirs.endswith((".c_attn.weight", ".c_proj.weight", ".c_fc.weight")):
            tensor = tensor.T  # stored with inputs first
        if config["model_type"] == "llama":
            tensor = _interleaved(theirs, tensor, config)
        plain = tensor.ndim == 1 or name.startswith("position_embd")
        _add(writer, name, np.ascontiguousarray(tensor), "f32" if plain else precision)


def _add(writer: Any, name: str, tensor: Any, precision: str) -> None:
    gguf: Any = import_module("gguf")
    kind = getattr(gguf.GGMLQuantizationType, precision.upper())
    if precision == "f32":
        writer.add_tensor(name, tensor)
    else:
        writer.add_tensor(name, gguf.quants.quantize(tensor, kind), raw_dtype=kind)


def _interleaved(name: str, tensor: Any, config: dict[str, Any]) -> Any:
    """Rotary pairs stand side by side in llama.cpp, and half a head apart in transformers."""
    heads = config["num_attention_heads"]
    if "q_proj" not in name and "k_proj" not in name:
        return tensor
    if "k_proj" in name:
        heads = config.get("num_key_value_heads") or heads
    return tensor.reshape(heads, 2, -1, *tensor.shape[1:]).swapaxes(1, 2).reshape(tensor.shape)


def _stored(directory: str) -> Any:
    """Every tensor of the directory's safetensors files, in float32."""
    from safetensors import safe_open

    for path in sorted(Path(directory).glob("*.safetensors")):
        with safe_open(path, framework="pt") as file:
            for name in file.keys():  # noqa: SIM118
                yield name, file.get_tensor(name).float().numpy()
