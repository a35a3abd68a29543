"""The layout of Llama, and of the models that share it: Mistral (a window) and Qwen2 (biases on query, key, value).

Rotary positions have a base, and a way to reach a longer text than the first training's. Older files have `rope_theta`
and `rope_scaling`, newer ones all of it in `rope_parameters`. Both are read; the older words, which every reader knows,
are written.
"""

import math
from collections.abc import Mapping
from typing import Any

from headway.config import FeedForwardConfig, LanguageConfig, Rotary
from headway.config.layers import LinearScaling, Llama3Scaling, Scaling, YarnScaling
from headway.hub.families.common import activation_of, activation_to, refuse, special_of, special_to
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.llama import llama

OUTSIDE = [
    Entry("model.embed_tokens.weight", "tokens.weight"),
    Entry("model.norm.weight", "stack.norm.weight"),
]
HEAD = {True: Tied("lm_head.weight", "model.embed_tokens.weight"), False: Entry("lm_head.weight", "head.weight")}
_OURS, _THEIRS = "stack.blocks.{i}", "model.layers.{i}"
LAYER = [
    Entry(f"{_THEIRS}.input_layernorm.weight", f"{_OURS}.attention_norm.weight"),
    Entry(f"{_THEIRS}.self_attn.q_proj.weight", f"{_OURS}.attention.query.weight"),
    Entry(f"{_THEIRS}.self_attn.k_proj.weight", f"{_OURS}.attention.key.weight"),
    Entry(f"{_THEIRS}.self_attn.v_proj.weight", f"{_OURS}.attention.value.weight"),
    Entry(f"{_THEIRS}.self_attn.o_proj.weight", f"{_OURS}.attention.out.weight"),
    Entry(f"{_THEIRS}.post_attention_layernorm.weight", f"{_OURS}.feedforward_norm.weight"),
    Entry(f"{_THEIRS}.mlp.gate_proj.weight", f"{_OURS}.feedforward.gate.weight"),
    Entry(f"{_THEIRS}.mlp.up_proj.weight", f"{_OURS}.feedforward.up.weight"),
    Entry(f"{_THEIRS}.mlp.down_proj.weight", f"{_OURS}.feedforward.down.weight"),
]
BIAS = [
    Entry(f"{_THEIRS}.self_attn.q_proj.bias", f"{_OURS}.attention.query.bias"),
    Entry(f"{_THEIRS}.self_attn.k_proj.bias", f"{_OURS}.attention.key.bias"),
    Entry(f"{_THEIRS}.self_attn.v_proj.bias", f"{_OURS}.attention.value.bias"),
]
OUTPUT_BIAS = [Entry(f"{_THEIRS}.self_attn.o_proj.bias", f"{_OURS}.attention.out.bias")]
HIDDEN_BIAS = [
    Entry(f"{_THEIRS}.mlp.gate_proj.bias", f"{_OURS}.feedforward.gate.bias"),
    Entry(f"{_THEIRS}.mlp.up_proj.bias", f"{_OURS}.feedforward.up.bias"),
    Entry(f"{_THEIRS}.mlp.down_proj.bias", f"{_OURS}.feedforward.down.bias"),
]
# Frequencies that old releases saved beside the weights; they follow from the configuration.
BUFFERS = (r"model\.(layers\.\d+\.self_attn\.)?rotary_emb\.inv_freq",)

CLASSES = {"llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM"}
# What a config.json means where it leaves a key out.
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"max_position_embeddings": 2048, "bos_token_id": 1, "eos_token_id": 2},
    "mistral": {
        "max_position_embeddings": 131072, "num_key_value_heads": 8, "sliding_window": 4096, "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "qwen2": {"max_position_embeddings": 32768, "num_key_value_heads": 32, "attention_bias": True},
}  # fmt: skip
# Keys of relatives that change what is computed, and the value with which they do not.
SWITCHES: dict[str, Any] = {
    "attention_multiplier": None, "attn_logit_softcapping": None, "embedding_multiplier": 1.0,
    "final_logit_softcapping": None, "is_causal": True, "is_encoder_decoder": False, "logit_scale": 1.0,
    "logits_scaling": 1.0, "num_attention_sinks": 0, "num_experts": 0, "num_local_experts": 0, "qk_norm": False,
    "quantization_config": None, "residual_multiplier": 1.0, "rope_interleaved": False, "use_qk_norm": False,
    "use_bidirectional_attention": False, "use_parallel_residual": False,
}  # fmt: skip
_OWN_SWITCHES: dict[str, dict[str, Any]] = {
    "llama": {"sliding_window": None},
    "mistral": {"attention_bias": False, "mlp_bias": False},
    "qwen2": {"attention_bias": True, "mlp_bias": False},
}


def table(config: LanguageConfig) -> Table:
    block = config.stack.block
    attention, feedforward = block.attention, block.feedforward
    biases = [
        *(BIAS if attention.bias else []),
        *(OUTPUT_BIAS if attention.output_bias else []),
        *(HIDDEN_BIAS if feedforward is not None and feedforward.bias else []),
    ]
    return [*OUTSIDE, *expand([*LAYER, *biases], i=range(config.stack.layers)), HEAD[config.tied]]


def canonical(name: str) -> str:
    """Files of the bare model leave the prefix out."""
    return name if name.startswith(("model.", "lm_head.")) else f"model.{name}"


def read(config: Mapping[str, Any], names: frozenset[str]) -> LanguageConfig:
    family = config["model_type"]
    refuse(config, SWITCHES | _OWN_SWITCHES[family])
    full = DEFAULTS[family] | dict(config)
    rotary = read_rotary(full)
    return llama(
        family=family,
        vocabulary=full["vocab_size"],
        width=full["hidden_size"],
        hidden=full["intermediate_size"],
        layers=full["num_hidden_layers"],
        heads=full["num_attention_heads"],
        kv_heads=full.get("num_key_value_heads"),
        head_width=full.get("head_dim"),
        length=full["max_position_embeddings"],
        base=rotary.base,
        scaling=rotary.scaling,
        window=read_window(full),
        bias=full.get("attention_bias") or False,
        output_bias=family == "llama" and (full.get("attention_bias") or False),
        hidden_bias=full.get("mlp_bias") or False,
        activation=activation_of(full.get("hidden_act", "silu")),
        eps=full.get("rms_norm_eps", 1e-6),
        tied=full.get("tie_word_embeddings", False),
        special=special_of(full),
    )


def read_window(config: Mapping[str, Any]) -> int | None:
    """How many tokens every layer sees, itself included; models whose layers differ are refused."""
    own = config["model_type"] == "qwen2"  # the only one of the three that says it layer by layer
    window = None if own and not config.get("use_sliding_window") else config.get("sliding_window")
    first = config.get("max_window_layers", 28) if own else 0
    layers = range(config["num_hidden_layers"])
    implied = ["full_attention" if window is None or i < first else "sliding_attention" for i in layers]
    stated = config.get("layer_types") or implied
    kinds = set(stated) if own else {*stated, *implied}
    if kinds == {"full_attention"}:
        return None
    if kinds == {"sliding_attention"} and window is not None:
        return window
    raise ValueError(
        f"headway reads models whose layers all see the same: layer_types={stated} with sliding_window={window}"
        + (f" and max_window_layers={first}" if own else "")
    )


def write(config: LanguageConfig) -> dict[str, Any]:
    block, family = config.stack.block, config.family
    attention, feedforward = block.attention, block.feedforward or FeedForwardConfig(hidden=1)
    width, heads = block.width, attention.heads
    if family == "llama" and width % heads:
        raise ValueError(f"other libraries refuse a llama whose heads {heads} do not divide its width {width}")
    return {
        "model_type": family,
        "architectures": [CLASSES[family]],
        "vocab_size": config.vocabulary,
        "hidden_size": block.width,
        "intermediate_size": feedforward.hidden,
        "num_hidden_layers": config.stack.layers,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_width,
        "hidden_act": activation_to(feedforward.activation),
        "max_position_embeddings": config.length,
        "rms_norm_eps": block.eps,
        "tie_word_embeddings": config.tied,
        **write_rotary(attention.rotary or Rotary()),
        **_write_own(config, feedforward),
        **special_to(config.special),
    }


def _write_own(config: LanguageConfig, feedforward: FeedForwardConfig) -> dict[str, Any]:
    """What each of the three says in its own words."""
    attention = config.stack.block.attention
    window = attention.mechanism.model_dump().get("window")
    if config.family == "llama":
        return {"attention_bias": attention.bias, "mlp_bias": feedforward.bias}
    if config.family == "mistral":
        return {"sliding_window": window}
    first = config.stack.layers if window is None else 0
    return {"use_sliding_window": window is not None, "sliding_window": window, "max_window_layers": first}


# Dropout, which none of the three has, is for training alone.
FAMILY = Family(
    "llama", read, write, table, tuple(CLASSES), canonical, BUFFERS, omitted_options=("stack.block.dropout",)
)


# rope_type -> our class, and their word for each of its fields, those that must be given first.
_LENGTH = "original_max_position_embeddings"
SCALINGS: dict[str, tuple[type[Scaling], dict[str, str], dict[str, str]]] = {
    "linear": (LinearScaling, {"factor": "factor"}, {}),
    "llama3": (
        Llama3Scaling,
        {"factor": "factor", "low_freq_factor": "low", "high_freq_factor": "high", _LENGTH: "length"},
        {},
    ),
    "yarn": (
        YarnScaling,
        {"factor": "factor", _LENGTH: "length"},
        {"beta_fast": "fast", "beta_slow": "slow", "truncate": "whole", "attention_factor": "attention"},
    ),
}
_ALWAYS = {"rope_type", "type", "rope_theta", "partial_rotary_factor"}


def read_rotary(config: Mapping[str, Any]) -> Rotary:
    """The rotary positions of a config.json; scalings that headway does not compute are refused.

    >>> read_rotary({"rope_theta": 5e5, "rope_scaling": {"type": "linear", "factor": 4.0}}).scaling
    LinearScaling(factor=4.0)
    """
    stated = config.get("rope_scaling") or config.get("rope_parameters") or {}
    part = stated.get("partial_rotary_factor", config.get("partial_rotary_factor"))
    if part not in (None, 1):
        # The library that publishes these models turns every channel with it, or fails.
        raise ValueError(
            f"models of this family turn every channel of a head, so partial_rotary_factor={part!r} is unclear"
        )
    base = stated.get("rope_theta") or config.get("rope_theta") or 10000.0
    return Rotary(base=base, scaling=_read_scaling(stated, config))


def write_rotary(rotary: Rotary) -> dict[str, Any]:
    """The same, as config.json says it."""
    scaling = rotary.scaling
    if scaling is None:
        return {"rope_theta": rotary.base, "rope_scaling": None}
    _, needed, optional = SCALINGS[scaling.kind]
    said = {theirs: getattr(scaling, ours) for theirs, ours in (needed | optional).items()}
    said = {theirs: value for theirs, value in said.items() if value is not None}
    return {"rope_theta": rotary.base, "rope_scaling": {"rope_type": scaling.kind, **said}}


def _read_scaling(stated: Mapping[str, Any], config: Mapping[str, Any]) -> Scaling | None:
    kind = stated.get("rope_type") or stated.get("type") or "default"
    if kind != "default" and kind not in SCALINGS:
        raise ValueError(f"headway does not read rope_type={kind!r}; it reads default, {', '.join(SCALINGS)}")
    record, needed, optional = SCALINGS.get(kind, (None, {}, {}))
    said = _scaling_fields(stated, config, kind)
    for key in said:
        if key not in needed | optional:
            raise ValueError(f"headway does not read rope_type={kind!r} with {key}={said[key]!r}")
    for key in needed:
        if key not in said:
            raise ValueError(f"rope_type={kind!r} needs {key}, which the configuration leaves out")
    return None if record is None else record(**{(needed | optional)[key]: value for key, value in said.items()})


def _scaling_fields(stated: Mapping[str, Any], config: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """What a scaling states besides its kind and base, with what readers fill in where it is silent."""
    said = {key: value for key, value in stated.items() if key not in _ALWAYS and value is not None}
    if kind in ("llama3", "yarn"):
        length = config.get(_LENGTH) or said.get(_LENGTH) or config.get("max_position_embeddings")
        said = said if length is None else said | {_LENGTH: length}
    if kind == "yarn":
        first, second = said.pop("mscale", None), said.pop("mscale_all_dim", None)
        if first and second and "attention_factor" not in said:
            said["attention_factor"] = _growth(said, first) / _growth(said, second)
    return said


def _growth(said: Mapping[str, Any], weight: float) -> float:
    """YaRN's growth of scores with the factor, in the form that DeepSeek's models weigh twice (arXiv:2405.04434)."""
    return 1 + weight * math.log(max(said.get("factor", 1), 1)) / 10
