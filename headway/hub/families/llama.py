"""The layout of Llama, and of the models that share its tensors.

Mistral has a window, Qwen2 biases on query, key and value, Qwen3 norms of queries and keys, Granite four multipliers,
SmolLM3 layers without positions. What only one of them says, it says in words of its own.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from headway.config import FeedForwardConfig, LanguageConfig, Rotary
from headway.config.layers import QKNorm
from headway.config.text import ClassifierConfig, DecoderConfig
from headway.hub.families.common import activation_of, activation_to, layers_of, refuse, special_of, special_to
from headway.hub.families.decoder_classifier import head_rows, with_classes, write_classifier
from headway.hub.families.rotary import read_length, read_rotary, write_length, write_rotary
from headway.hub.family import Entry, Family, Table, Tied, expand
from headway.presets.llama import layered, llama, window_of

OUTSIDE = [
    Entry("model.embed_tokens.weight", "tokens.weight"),
    Entry("model.norm.weight", "stack.norm.weight"),
]
HEAD = {True: Tied("lm_head.weight", "model.embed_tokens.weight"), False: Entry("lm_head.weight", "head.weight")}
_OURS, _THEIRS = "stack.blocks.{i}", "model.layers.{i}"
MAPS = [
    Entry(f"{_THEIRS}.self_attn.q_proj.weight", f"{_OURS}.attention.query.weight"),
    Entry(f"{_THEIRS}.self_attn.k_proj.weight", f"{_OURS}.attention.key.weight"),
    Entry(f"{_THEIRS}.self_attn.v_proj.weight", f"{_OURS}.attention.value.weight"),
    Entry(f"{_THEIRS}.self_attn.o_proj.weight", f"{_OURS}.attention.out.weight"),
    Entry(f"{_THEIRS}.mlp.gate_proj.weight", f"{_OURS}.feedforward.gate.weight"),
    Entry(f"{_THEIRS}.mlp.up_proj.weight", f"{_OURS}.feedforward.up.weight"),
    Entry(f"{_THEIRS}.mlp.down_proj.weight", f"{_OURS}.feedforward.down.weight"),
]
NORMS = [
    Entry(f"{_THEIRS}.input_layernorm.weight", f"{_OURS}.attention_norm.weight"),
    Entry(f"{_THEIRS}.post_attention_layernorm.weight", f"{_OURS}.feedforward_norm.weight"),
]
QK_NORMS = [
    Entry(f"{_THEIRS}.self_attn.q_norm.weight", f"{_OURS}.attention.query_norm.weight"),
    Entry(f"{_THEIRS}.self_attn.k_norm.weight", f"{_OURS}.attention.key_norm.weight"),
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

CLASSES = {
    "llama": "LlamaForCausalLM", "mistral": "MistralForCausalLM", "qwen2": "Qwen2ForCausalLM",
    "qwen3": "Qwen3ForCausalLM", "granite": "GraniteForCausalLM", "smollm3": "SmolLM3ForCausalLM",
}  # fmt: skip
# What a config.json means where it leaves a key out.
DEFAULTS: dict[str, dict[str, Any]] = {
    "llama": {"max_position_embeddings": 2048, "bos_token_id": 1, "eos_token_id": 2},
    "mistral": {
        "max_position_embeddings": 131072, "num_key_value_heads": 8, "sliding_window": 4096, "bos_token_id": 1,
        "eos_token_id": 2,
    },
    "qwen2": {"max_position_embeddings": 32768, "num_key_value_heads": 32, "attention_bias": True},
    "qwen3": {"max_position_embeddings": 32768, "num_key_value_heads": 32, "head_dim": 128},
    "granite": {"max_position_embeddings": 2048, "bos_token_id": 1, "eos_token_id": 2, "attention_multiplier": 1.0},
    "smollm3": {
        "max_position_embeddings": 32768, "num_key_value_heads": 4, "rope_theta": 2e6, "tie_word_embeddings": True,
        "bos_token_id": 128000, "eos_token_id": 128001, "pad_token_id": 128004,
    },
}  # fmt: skip
# Keys of relatives that change what is computed, and the value with which they do not.
SWITCHES: dict[str, Any] = {
    "attention_multiplier": None, "attn_logit_softcapping": None, "embedding_multiplier": 1.0,
    "final_logit_softcapping": None, "is_causal": True, "is_encoder_decoder": False, "logit_scale": 1.0,
    "logits_scaling": 1.0, "no_rope_layers": None, "num_attention_sinks": 0, "num_experts": 0, "num_local_experts": 0,
    "qk_norm": False, "quantization_config": None, "residual_multiplier": 1.0, "rope_interleaved": False,
    "use_qk_norm": False, "use_bidirectional_attention": False, "use_parallel_residual": False,
}  # fmt: skip
_MULTIPLIERS = ("attention_multiplier", "embedding_multiplier", "logits_scaling", "residual_multiplier")
# Of these, what a family has a word for; and switches of its own.
OWN_WORDS: dict[str, tuple[str, ...]] = {"granite": _MULTIPLIERS, "smollm3": ("no_rope_layers",)}
_OWN_SWITCHES: dict[str, dict[str, Any]] = {
    "llama": {"sliding_window": None},
    "mistral": {"attention_bias": False, "mlp_bias": False},
    "qwen2": {"attention_bias": True, "mlp_bias": False},
    "qwen3": {"mlp_bias": False},
    "granite": {"sliding_window": None},
    "smollm3": {},
}
# Families that say layer by layer which of them have the window.
LAYERED = ("qwen2", "qwen3", "smollm3")


def table(config: LanguageConfig | ClassifierConfig) -> Table:
    return [*OUTSIDE, *expand(layer_rows(config, NORMS), i=range(config.stack.layers)), *head_rows(config, HEAD)]


def layer_rows(config: DecoderConfig, norms: Sequence[Entry]) -> list[Entry]:
    """The tensors of one layer with these norms; whatever else it has follows from the configuration."""
    attention, feedforward = config.stack.block.attention, config.stack.block.feedforward
    return [
        *MAPS,
        *norms,
        *(QK_NORMS if attention.qk_norm is not None else []),
        *(BIAS if attention.bias else []),
        *(OUTPUT_BIAS if attention.output_bias else []),
        *(HIDDEN_BIAS if feedforward is not None and feedforward.bias else []),
    ]


def canonical(name: str) -> str:
    """Files of the bare model leave the prefix out."""
    return name if name.startswith(("model.", "lm_head.", "score.")) else f"model.{name}"


def read(config: Mapping[str, Any], names: frozenset[str]) -> LanguageConfig | ClassifierConfig:
    return with_classes(_read_language(config), config, names)


def _read_language(config: Mapping[str, Any]) -> LanguageConfig:
    family = config["model_type"]
    own = OWN_WORDS.get(family, ())
    refuse(config, {key: value for key, value in SWITCHES.items() if key not in own} | _OWN_SWITCHES[family])
    full = DEFAULTS[family] | dict(config)
    return layered(llama(family=family, **read_sizes(full), **_read_own(full)), _read_layers(full))


def read_sizes(full: Mapping[str, Any], rotary: Rotary | None = None) -> dict[str, Any]:
    """What all of them say in the same words, as options of `presets.llama`."""
    rotary = read_rotary(full) if rotary is None else rotary
    bias = full.get("attention_bias") or False
    return dict(
        vocabulary=full["vocab_size"],
        width=full["hidden_size"],
        hidden=full["intermediate_size"],
        layers=full["num_hidden_layers"],
        heads=full["num_attention_heads"],
        kv_heads=full.get("num_key_value_heads"),
        head_width=full.get("head_dim"),
        length=read_length(full, rotary),
        base=rotary.base,
        scaling=rotary.scaling,
        rotary_width=rotary.width,
        bias=bias,
        output_bias=bias and full["model_type"] != "qwen2",
        hidden_bias=full.get("mlp_bias") or False,
        activation=activation_of(full.get("hidden_act", "silu")),
        eps=full.get("rms_norm_eps", 1e-6),
        tied=full.get("tie_word_embeddings", False),
        special=special_of(full),
    )


def _read_own(full: Mapping[str, Any]) -> dict[str, Any]:
    """What one family says in words of its own."""
    if full["model_type"] == "qwen3":
        return {"qk_norm": QKNorm(eps=full.get("rms_norm_eps", 1e-6))}
    if full["model_type"] != "granite":
        return {}
    head = full.get("head_dim") or full["hidden_size"] // full["num_attention_heads"]
    scale = float(full["attention_multiplier"])
    return {
        "scale": None if scale == head**-0.5 else scale,
        "residual_scale": float(full.get("residual_multiplier", 1.0)),
        "embedding_scale": float(full.get("embedding_multiplier", 1.0)),
        "head_scale": 1 / full.get("logits_scaling", 1.0),
    }


def _read_layers(full: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Of each layer its window, and whether it has positions."""
    return [
        {"window": window} | ({} if turned else {"rotary": None})
        for window, turned in zip(read_windows(full), _turned(full), strict=True)
    ]


def _turned(config: Mapping[str, Any]) -> list[bool]:
    """Which layers have rotary positions: in SmolLM3 three of four (arXiv:2501.18795), in the others all."""
    layers, every = layers_of(config), config.get("no_rope_layer_interval", 4)
    if config["model_type"] != "smollm3":
        return [True] * layers
    said = config.get("no_rope_layers") or [(i + 1) % every != 0 for i in range(layers)]
    if len(said) < layers:
        raise ValueError(f"no_rope_layers says it of {len(said)} layers, and the model has {layers}")
    return [bool(one) for one in said[:layers]]


def read_windows(config: Mapping[str, Any]) -> list[int | None]:
    """How many tokens each layer sees, itself included; None: all before it."""
    family, layers = config["model_type"], layers_of(config)
    own = family in LAYERED
    window = None if own and not config.get("use_sliding_window") else config.get("sliding_window")
    implied = _implied(config, window)
    stated = list(config.get("layer_types") or implied)
    if not own and stated != implied:
        raise _unseen(family, stated, window)
    return windows_of(stated, window, layers, family)


def windows_of(stated: list[str], window: int | None, layers: int, family: str) -> list[int | None]:
    """The same of layers whose kinds are stated."""
    sees = {"full_attention": None, "sliding_attention": window}
    if len(stated) < layers or not set(stated) <= set(sees) or ("sliding_attention" in stated and window is None):
        raise _unseen(family, stated, window)
    return [sees[kind] for kind in stated[:layers]]


def _unseen(family: str, stated: list[str], window: int | None) -> ValueError:
    return ValueError(f"headway does not read a {family} with layer_types={stated} and sliding_window={window}")


def _implied(config: Mapping[str, Any], window: int | None) -> list[str]:
    """Which layers have the window, where nothing says it of each."""
    layers = layers_of(config)
    if window is None:
        return ["full_attention"] * layers
    if config["model_type"] == "smollm3":  # those without positions
        return ["full_attention" if turned else "sliding_attention" for turned in _turned(config)]
    first = config.get("max_window_layers", 28) if config["model_type"] in LAYERED else 0
    return ["full_attention" if i < first else "sliding_attention" for i in range(layers)]


def write(config: LanguageConfig | ClassifierConfig) -> dict[str, Any]:
    if isinstance(config, ClassifierConfig):
        return write_classifier(config, write(config.language))
    family, block = config.family, config.stack.block
    width, heads = block.width, block.attention.heads
    if family == "llama" and width % heads:
        raise ValueError(f"other libraries refuse a llama whose heads {heads} do not divide its width {width}")
    return {"model_type": family, "architectures": [CLASSES[family]], **write_sizes(config), **_write_own(config)}


def write_sizes(config: LanguageConfig) -> dict[str, Any]:
    """What all of them say in the same words."""
    block = config.stack.block
    attention, feedforward = block.attention, block.feedforward or FeedForwardConfig(hidden=1)
    rotary = next((one.attention.rotary for one in config.stack.pattern if one.attention.rotary is not None), None)
    return {
        "vocab_size": config.vocabulary,
        "hidden_size": block.width,
        "intermediate_size": feedforward.hidden,
        "num_hidden_layers": config.stack.layers,
        "num_attention_heads": attention.heads,
        "num_key_value_heads": attention.kv_heads,
        "head_dim": attention.head_width,
        "hidden_act": activation_to(feedforward.activation),
        "max_position_embeddings": write_length(config.length, rotary),
        "rms_norm_eps": block.eps,
        "tie_word_embeddings": config.tied,
        **write_rotary(rotary or Rotary()),
        **special_to(config.special),
    }


def _write_own(config: LanguageConfig) -> dict[str, Any]:
    """What each of them says in its own words."""
    attention, feedforward = config.stack.block.attention, config.stack.block.feedforward
    hidden_bias = feedforward is not None and feedforward.bias
    if config.family == "mistral":
        return {"sliding_window": window_of(attention)}
    if config.family == "qwen2":
        return write_windows(config)
    biases = {"attention_bias": attention.bias, "mlp_bias": hidden_bias}
    if config.family == "qwen3":
        return {"attention_bias": attention.bias, **write_windows(config)}
    if config.family == "smollm3":
        turned = [int(block.attention.rotary is not None) for block in config.stack.blocks]
        return {**biases, "no_rope_layers": turned, **write_windows(config)}
    return {**biases, **_write_multipliers(config)} if config.family == "granite" else biases


def write_windows(config: LanguageConfig) -> dict[str, Any]:
    """The window, and which layers have it; a list of them only where a number does not say it."""
    windows = [window_of(block.attention) for block in config.stack.blocks]
    window = next((one for one in windows if one is not None), None)
    first = len(windows) if window is None else windows.index(window)
    kinds = ["full_attention" if one is None else "sliding_attention" for one in windows]
    simple = None not in windows[first:] and config.family != "smollm3"
    listed = {} if simple else {"layer_types": kinds}
    return {
        "use_sliding_window": window is not None, "sliding_window": window, "max_window_layers": first, **listed,
    }  # fmt: skip


def _write_multipliers(config: LanguageConfig) -> dict[str, Any]:
    attention = config.stack.block.attention
    return {
        "attention_multiplier": attention.head_width**-0.5 if attention.scale is None else attention.scale,
        "residual_multiplier": config.stack.block.residual_scale,
        "embedding_multiplier": config.embedding_scale,
        "logits_scaling": round(1 / config.head_scale, 9),
    }


# Dropout, which none of them has, is for training alone.
DROPOUT = ("stack.block.dropout", "stack.alternates.dropout")
FAMILY = Family("llama", read, write, table, tuple(CLASSES), canonical, BUFFERS, omitted_options=DROPOUT)
