"""ViT's and DeiT's layout: the tensors in the file say which heads there are.

Models with a classifier put `vit.` or `deit.` before every name but the classifier's; the table leaves it out.
"""

from collections.abc import Mapping
from typing import Any

from headway.config.base import Extent
from headway.config.vision import VisionConfig
from headway.hub.families.common import activation_of, activation_to, architecture_of, labels_of, refuse, unfit
from headway.hub.families.image_processor import images_of, images_to
from headway.hub.family import Entry, Family, Table, expand
from headway.presets.vision import vit

OUTSIDE = [
    Entry("embeddings.cls_token", "class_token"),
    Entry("embeddings.position_embeddings", "positions"),
    Entry("embeddings.patch_embeddings.projection.weight", "patches.weight"),
    Entry("embeddings.patch_embeddings.projection.bias", "patches.bias"),
    Entry("layernorm.weight", "stack.norm.weight"),
    Entry("layernorm.bias", "stack.norm.bias"),
]
DISTILLED = [Entry("embeddings.distillation_token", "distillation_token")]
_OURS, _THEIRS = "stack.blocks.{i}", "encoder.layer.{i}"
LAYER = [
    Entry(f"{_THEIRS}.layernorm_before.weight", f"{_OURS}.attention_norm.weight"),
    Entry(f"{_THEIRS}.layernorm_before.bias", f"{_OURS}.attention_norm.bias"),
    Entry(f"{_THEIRS}.attention.attention.query.weight", f"{_OURS}.attention.query.weight"),
    Entry(f"{_THEIRS}.attention.attention.key.weight", f"{_OURS}.attention.key.weight"),
    Entry(f"{_THEIRS}.attention.attention.value.weight", f"{_OURS}.attention.value.weight"),
    Entry(f"{_THEIRS}.attention.output.dense.weight", f"{_OURS}.attention.out.weight"),
    Entry(f"{_THEIRS}.attention.output.dense.bias", f"{_OURS}.attention.out.bias"),
    Entry(f"{_THEIRS}.layernorm_after.weight", f"{_OURS}.feedforward_norm.weight"),
    Entry(f"{_THEIRS}.layernorm_after.bias", f"{_OURS}.feedforward_norm.bias"),
    Entry(f"{_THEIRS}.intermediate.dense.weight", f"{_OURS}.feedforward.up.weight"),
    Entry(f"{_THEIRS}.intermediate.dense.bias", f"{_OURS}.feedforward.up.bias"),
    Entry(f"{_THEIRS}.output.dense.weight", f"{_OURS}.feedforward.down.weight"),
    Entry(f"{_THEIRS}.output.dense.bias", f"{_OURS}.feedforward.down.bias"),
]
BIASES = [
    Entry(f"{_THEIRS}.attention.attention.query.bias", f"{_OURS}.attention.query.bias"),
    Entry(f"{_THEIRS}.attention.attention.key.bias", f"{_OURS}.attention.key.bias"),
    Entry(f"{_THEIRS}.attention.attention.value.bias", f"{_OURS}.attention.value.bias"),
]
POOLER = [Entry("pooler.dense.weight", "pooler.weight"), Entry("pooler.dense.bias", "pooler.bias")]
CLASSIFIER = [Entry("classifier.weight", "head.weight"), Entry("classifier.bias", "head.bias")]
TEACHER = [
    Entry("cls_classifier.weight", "head.weight"),
    Entry("cls_classifier.bias", "head.bias"),
    Entry("distillation_classifier.weight", "teacher_head.weight"),
    Entry("distillation_classifier.bias", "teacher_head.bias"),
]
HEADS = ("classifier.", "cls_classifier.", "distillation_classifier.")


def table(config: VisionConfig) -> Table:
    layers = range(config.stack.layers)
    rows = [*OUTSIDE, *expand(LAYER, i=layers)]
    for wanted, part in (
        (config.distilled, DISTILLED),
        (config.stack.block.attention.bias, expand(BIASES, i=layers)),
        (config.pooler, POOLER),
        (config.teacher, TEACHER),
        (config.classes and not config.teacher, CLASSIFIER),
    ):
        rows += part if wanted else []
    return rows


def canonical(name: str) -> str:
    return name.removeprefix("vit.").removeprefix("deit.")


def exported(name: str, config: VisionConfig) -> str:
    return f"{config.family}.{name}" if config.classes and not name.startswith(HEADS) else name


def architecture(config: VisionConfig) -> str:
    """The class of transformers with these heads."""
    kind = "DeiT" if config.family == "deit" else "ViT"
    if not config.classes:
        return f"{kind}Model"
    return f"{kind}ForImageClassification{'WithTeacher' if config.teacher else ''}"


def read(config: Mapping[str, Any], names: frozenset[str]) -> VisionConfig:
    refuse(config, {"pooler_act": "tanh", "pooler_output_size": config.get("hidden_size", 768)})
    named = architecture_of(config)
    teacher = named.endswith("WithTeacher") or any(name.startswith(HEADS[1:]) for name in names)
    classified = teacher or named.endswith("ImageClassification") or "classifier.weight" in names
    return vit(
        family=config["model_type"],
        width=config.get("hidden_size", 768),
        heads=config.get("num_attention_heads", 12),
        layers=config.get("num_hidden_layers", 12),
        hidden=config.get("intermediate_size", 3072),
        image=_extent(config.get("image_size", 224)),
        patch=_extent(config.get("patch_size", 16)),
        channels=config.get("num_channels", 3),
        activation=activation_of(config.get("hidden_act", "gelu")),
        bias=config.get("qkv_bias", True),
        eps=config.get("layer_norm_eps", 1e-12),
        dropout=config.get("hidden_dropout_prob", 0.0),
        distilled=config["model_type"] == "deit",
        teacher=teacher,
        pooler="pooler.dense.weight" in names,
        images=images_of(config.get("preprocessor")),
        **(_classes(config) if classified else {}),
    )


def _extent(said: Any) -> Extent:
    return said if isinstance(said, int) else tuple(said)


def _classes(config: Mapping[str, Any]) -> dict[str, Any]:
    classes, labels = labels_of(config)
    return {"classes": classes, "labels": labels}


def write(config: VisionConfig) -> dict[str, Any]:
    """config.json, with preprocessor_config.json under "preprocessor"."""
    block = config.stack.block
    if block.feedforward is None:
        raise unfit(config.family, "feedforward", None)
    return {
        "model_type": config.family,
        "architectures": [architecture(config)],
        "hidden_size": block.width,
        "num_hidden_layers": config.stack.layers,
        "num_attention_heads": block.attention.heads,
        "intermediate_size": block.feedforward.hidden,
        "image_size": config.image,
        "patch_size": config.patch,
        "num_channels": config.channels,
        "hidden_act": activation_to(block.feedforward.activation),
        "qkv_bias": block.attention.bias,
        "layer_norm_eps": block.eps,
        "hidden_dropout_prob": block.dropout,
        "attention_probs_dropout_prob": 0.0,
        "preprocessor": images_to(config.images, config.image, config.channels),
        **(labels_to(config) if config.classes else {}),
    }


def labels_to(config: VisionConfig) -> dict[str, Any]:
    if not config.labels:
        return {"num_labels": config.classes}
    named = {str(index): label for index, label in enumerate(config.labels)}
    return {"id2label": named, "label2id": {label: int(i) for i, label in named.items()}}


# What a preprocessor says of pictures is said in its own words.
FAMILY = Family("vit", read, write, table, ("vit", "deit"), canonical, (), exported, omitted_options=("images",))
