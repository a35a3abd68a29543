"""The layout of CLIP and SigLIP: a tower of texts and one of images, named alike, and a scale of their products.

CLIP has a class token, norms its patches' vectors before the first layer and maps both towers' vectors. SigLIP has
neither token nor norm: a learned vector attends to the patches; only texts are mapped, with a bias.
"""

from collections.abc import Mapping
from typing import Any

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, StackConfig
from headway.config.clip import ClipConfig
from headway.config.vision import VisionConfig
from headway.hub.families.common import activation_of, activation_to, architecture_of, refuse, special_of, unfit
from headway.hub.families.image_processor import images_of, images_to
from headway.hub.family import Entry, Family, Table, expand

BOTH = ("weight", "bias")
TEXT = [
    Entry("text_model.embeddings.token_embedding.weight", "tokens.weight"),
    Entry("text_model.embeddings.position_embedding.weight", "positions.weight"),
    Entry("text_model.final_layer_norm.weight", "stack.norm.weight"),
    Entry("text_model.final_layer_norm.bias", "stack.norm.bias"),
]
IMAGES = [
    Entry("vision_model.embeddings.patch_embedding.weight", "vision.patches.weight"),
    Entry("vision_model.embeddings.position_embedding.weight", "vision.positions", leading=1),
    Entry("vision_model.post_layernorm.weight", "vision.stack.norm.weight"),
    Entry("vision_model.post_layernorm.bias", "vision.stack.norm.bias"),
]
CLIP = [
    Entry("vision_model.embeddings.class_embedding", "vision.class_token", leading=2),
    Entry("vision_model.pre_layrnorm.weight", "vision.norm.weight"),
    Entry("vision_model.pre_layrnorm.bias", "vision.norm.bias"),
    Entry("visual_projection.weight", "image_projection.weight"),
    Entry("text_projection.weight", "text_projection.weight"),
    Entry("logit_scale", "logit_scale", leading=1),
]
_POOL, _HEAD = "vision.pool", "vision_model.head"
SIGLIP = [
    Entry("vision_model.embeddings.patch_embedding.bias", "vision.patches.bias"),
    Entry("text_model.head.weight", "text_projection.weight"),
    Entry("text_model.head.bias", "text_projection.bias"),
    Entry("logit_scale", "logit_scale"),
    Entry("logit_bias", "logit_bias"),
    Entry(f"{_HEAD}.probe", f"{_POOL}.probe"),
    *(Entry(f"{_HEAD}.attention.in_proj_{part}",
            tuple(f"{_POOL}.attention.{name}.{part}" for name in ("query", "key", "value"))) for part in BOTH),
    *(Entry(f"{_HEAD}.{theirs}.{part}", f"{_POOL}.{ours}.{part}")
      for theirs, ours in {"attention.out_proj": "attention.out", "layernorm": "norm", "mlp.fc1": "feedforward.up",
                           "mlp.fc2": "feedforward.down"}.items() for part in BOTH),
]  # fmt: skip
LAYER = {
    "self_attn.q_proj": "attention.query",
    "self_attn.k_proj": "attention.key",
    "self_attn.v_proj": "attention.value",
    "self_attn.out_proj": "attention.out",
    "layer_norm1": "attention_norm",
    "mlp.fc1": "feedforward.up",
    "mlp.fc2": "feedforward.down",
    "layer_norm2": "feedforward_norm",
}
NO_WEIGHTS = (r"(text|vision)_model\.embeddings\.position_ids",)
TEXT_DEFAULTS = {
    "clip": {
        "vocab_size": 49408, "hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 12,
        "num_attention_heads": 8, "max_position_embeddings": 77, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5,
        "pad_token_id": 1, "bos_token_id": 49406, "eos_token_id": 49407,
    },
    "siglip": {
        "vocab_size": 32000, "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12,
        "num_attention_heads": 12, "max_position_embeddings": 64, "hidden_act": "gelu_pytorch_tanh",
        "layer_norm_eps": 1e-6, "pad_token_id": 1, "bos_token_id": 49406, "eos_token_id": 49407,
    },
}  # fmt: skip
IMAGE_DEFAULTS = {
    "clip": {
        "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "num_channels": 3, "image_size": 224, "patch_size": 32, "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5,
    },
    "siglip": {
        "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "num_channels": 3, "image_size": 224, "patch_size": 16, "hidden_act": "gelu_pytorch_tanh",
        "layer_norm_eps": 1e-6, "vision_use_head": True,
    },
}  # fmt: skip
NAMES = {"clip": ("CLIPModel", "CLIPImageProcessor"), "siglip": ("SiglipModel", "SiglipImageProcessor")}
FIRST_END = 2  # what CLIP's first releases said of the end of a text: the place of the highest number is meant


def table(config: ClipConfig) -> Table:
    return [
        *TEXT,
        *IMAGES,
        *(CLIP if config.image_projection else SIGLIP),
        *expand(_layer("text_model", "stack"), i=range(config.stack.layers)),
        *expand(_layer("vision_model", "vision.stack"), i=range(config.vision.stack.layers)),
    ]


def _layer(theirs: str, ours: str) -> Table:
    return [
        Entry(f"{theirs}.encoder.layers.{{i}}.{a}.{part}", f"{ours}.blocks.{{i}}.{b}.{part}")
        for a, b in LAYER.items()
        for part in BOTH
    ]


def read(config: Mapping[str, Any], names: frozenset[str]) -> ClipConfig:
    family = config["model_type"]
    named = architecture_of(config)
    if named and named != NAMES[family][0]:
        raise ValueError(f"headway does not read a {named}: of this family it reads {NAMES[family][0]}, both towers")
    text, image = _section(config, "text", TEXT_DEFAULTS[family]), _section(config, "vision", IMAGE_DEFAULTS[family])
    refuse(image, {"vision_use_head": True})
    clip, special = family == "clip", special_of(text)
    width = config.get("projection_dim", 512) if clip else text.get("projection_size") or text["hidden_size"]
    return ClipConfig(
        family=family,
        vision=_vision(image, family, config.get("preprocessor")),
        vocabulary=text["vocab_size"],
        length=text["max_position_embeddings"],
        stack=_stack(text, causal=clip),
        pooling="last" if not clip else "highest" if special.end == (FIRST_END,) else "end",
        width=width,
        image_projection=clip,
        text_bias=not clip,
        objective="softmax" if clip else "sigmoid",
        special=special,
    )


def _section(config: Mapping[str, Any], name: str, defaults: Mapping[str, Any]) -> dict[str, Any]:
    """One tower's part of config.json; older files say it a second time, and that is what counts there."""
    parts = [config.get(f"{name}_config") or {}, config.get(f"{name}_config_dict") or {}]
    for part in parts:
        if not isinstance(part, Mapping):
            raise ValueError(f"{name}_config says {part!r}, and it is an object")
    return {**defaults, **parts[0], **parts[1]}


def _stack(said: Mapping[str, Any], *, causal: bool) -> StackConfig:
    attention = AttentionConfig(
        width=said["hidden_size"], heads=said["num_attention_heads"], causal=causal, bias=True, output_bias=True
    )
    feedforward = FeedForwardConfig(hidden=said["intermediate_size"], activation=activation_of(said["hidden_act"]))
    block = BlockConfig(attention=attention, feedforward=feedforward, eps=said["layer_norm_eps"])
    return StackConfig(block=block, layers=said["num_hidden_layers"], final_norm=True)


def _vision(said: Mapping[str, Any], family: str, processor: Mapping[str, Any] | None) -> VisionConfig:
    clip = family == "clip"
    return VisionConfig(
        family="headway",
        image=said["image_size"],
        patch=said["patch_size"],
        channels=said["num_channels"],
        stack=_stack(said, causal=False),
        patch_bias=not clip,
        embedding_norm=clip,
        class_token=clip,
        pooling="class" if clip else "attention",
        images=images_of(processor),
    )


def write(config: ClipConfig) -> dict[str, Any]:
    """config.json, with preprocessor_config.json under "preprocessor"."""
    vision, (architecture, processor) = config.vision, NAMES[config.family]
    clip, special = config.family == "clip", config.special
    if len(special.end) != 1:
        raise unfit(config.family, "special.end", special.end)
    text = {
        **_sizes(config.family, config.stack),
        "model_type": f"{config.family}_text_model",
        "vocab_size": config.vocabulary,
        "max_position_embeddings": config.length,
        "pad_token_id": special.pad,
        "bos_token_id": special.begin,
        "eos_token_id": special.end[0],
        **({"projection_dim": config.width} if clip else {"projection_size": config.width}),
    }
    images = {
        **_sizes(config.family, vision.stack),
        "model_type": f"{config.family}_vision_model",
        "image_size": vision.image,
        "patch_size": vision.patch,
        "num_channels": vision.channels,
        **({"projection_dim": config.width} if clip else {"vision_use_head": True}),
    }
    return {
        "model_type": config.family,
        "architectures": [architecture],
        **({"projection_dim": config.width} if clip else {}),
        "text_config": text,
        "vision_config": images,
        "preprocessor": images_to(vision.images, vision.image, vision.channels, processor=processor),
    }


def _sizes(family: str, stack: StackConfig) -> dict[str, Any]:
    block = stack.block
    if block.feedforward is None:
        raise unfit(family, "feedforward", None)
    return {
        "hidden_size": block.width,
        "intermediate_size": block.feedforward.hidden,
        "num_hidden_layers": stack.layers,
        "num_attention_heads": block.attention.heads,
        "hidden_act": activation_to(block.feedforward.activation),
        "layer_norm_eps": block.eps,
    }


FAMILY = Family("clip", read, write, table, tuple(NAMES), ignored=NO_WEIGHTS, omitted_options=("vision.images",))
