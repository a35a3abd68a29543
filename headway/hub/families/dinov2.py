"""DINOv2's layout: ViT's names of attention, scales of each branch, a plain or a gated feed-forward (arXiv:2304.07193).

Models with a classifier put `dinov2.` before every name but the classifier's. The token that stands for hidden patches
is not read: nothing is hidden but in DINOv2's own training.
"""

from collections.abc import Mapping
from typing import Any

from headway.config.base import Extent, sides
from headway.config.vision import Images, VisionConfig
from headway.hub.families.common import activation_of, activation_to, architecture_of, labels_of, refuse, unfit
from headway.hub.families.image_processor import images_of, images_to
from headway.hub.families.vit import BIASES, CLASSIFIER, OUTSIDE, labels_to
from headway.hub.family import Entry, Family, Table, expand
from headway.presets.vision import vit

_OURS, _THEIRS = "stack.blocks.{i}", "encoder.layer.{i}"
LAYER = {
    "norm1": "attention_norm",
    "attention.output.dense": "attention.out",
    "norm2": "feedforward_norm",
}
PLAIN = {"mlp.fc1": "feedforward.up", "mlp.fc2": "feedforward.down"}
GATED = {"mlp.weights_out": "feedforward.down"}
WEIGHTS = [
    *(Entry(f"{_THEIRS}.attention.attention.{part}.weight", f"{_OURS}.attention.{part}.weight")
      for part in ("query", "key", "value")),
    Entry(f"{_THEIRS}.layer_scale1.lambda1", f"{_OURS}.attention_scale.weight"),
    Entry(f"{_THEIRS}.layer_scale2.lambda1", f"{_OURS}.feedforward_scale.weight"),
]  # fmt: skip
PREFIX = "dinov2."
NOT_READ = (r"embeddings\.mask_token",)
PROCESSOR = "BitImageProcessor"


def table(config: VisionConfig) -> Table:
    feedforward = config.stack.block.feedforward
    assert feedforward is not None
    both = LAYER | (GATED if feedforward.gated else PLAIN)
    layer = [Entry(f"{_THEIRS}.{a}.{part}", f"{_OURS}.{b}.{part}") for a, b in both.items() for part in BOTH]
    layer += [*WEIGHTS, *(BIASES if config.stack.block.attention.bias else [])]
    if feedforward.gated:  # one tensor for both
        gates = {part: tuple(f"{_OURS}.feedforward.{name}.{part}" for name in ("gate", "up")) for part in BOTH}
        layer += [Entry(f"{_THEIRS}.mlp.weights_in.{part}", names) for part, names in gates.items()]
    return [*OUTSIDE, *expand(layer, i=range(config.stack.layers)), *(CLASSIFIER if config.classes else [])]


BOTH = ("weight", "bias")


def canonical(name: str) -> str:
    return name.removeprefix(PREFIX)


def exported(name: str, config: VisionConfig) -> str:
    return f"{PREFIX}{name}" if config.classes and not name.startswith("classifier.") else name


def read(config: Mapping[str, Any], names: frozenset[str]) -> VisionConfig:
    named = architecture_of(config)
    if named.endswith("Backbone"):
        raise ValueError(f"headway does not read a {named}, which gives maps of features: it reads Dinov2Model and "
                         "Dinov2ForImageClassification")  # fmt: skip
    width, gated = config.get("hidden_size", 768), config.get("use_swiglu_ffn", False)
    said = config.get("image_size", 224)
    refuse(config, {"head_dim": width // config.get("num_attention_heads", 12)})
    down, across = sides(_extent(said))
    if down != across:
        raise ValueError(f"DINOv2's table of positions is square, and image_size says {said}")
    images = images_of(config.get("preprocessor"))
    image = _read_size(images, down)
    classified = named.endswith("ImageClassification") or "classifier.weight" in names
    classes, labels = labels_of(config) if classified else (0, ())
    plain = vit(
        family="dinov2",
        width=width,
        heads=config.get("num_attention_heads", 12),
        layers=config.get("num_hidden_layers", 12),
        hidden=_hidden(width, float(config.get("mlp_ratio", 4)), gated=gated),
        image=image,
        patch=_extent(config.get("patch_size", 14)),
        channels=config.get("num_channels", 3),
        activation="silu" if gated else activation_of(config.get("hidden_act", "gelu")),
        bias=config.get("qkv_bias", True),
        eps=config.get("layer_norm_eps", 1e-6),
        dropout=config.get("hidden_dropout_prob", 0.0),
        table_image=None if sides(image) == (down, down) else down,
        classes=classes,
        labels=labels,
        images=images,
    )
    found = plain.replace("stack.block", layer_scale=float(config.get("layerscale_value", 1.0)))
    found = found.replace("stack.block.feedforward", gated=gated)
    return found.replace(pooling="class_mean") if classes else found


def _extent(said: Any) -> Extent:
    return said if isinstance(said, int) else tuple(said)


def _read_size(images: Images, table: int) -> Extent:
    """The images that the model reads: what the processor makes of a picture, where that has one size."""
    made = images.crop or (images.resize if isinstance(images.resize, tuple) else None)
    return table if made is None else made[0] if made[0] == made[1] else made


def _hidden(width: int, ratio: float, *, gated: bool) -> int:
    """The feed-forward's width: of a gated one two thirds, rounded up to a multiple of 8.

    >>> _hidden(1536, 4.0, gated=True)
    4096
    """
    whole = int(width * ratio)
    return (int(whole * 2 / 3) + 7) // 8 * 8 if gated else whole


def write(config: VisionConfig) -> dict[str, Any]:
    """config.json, with preprocessor_config.json under "preprocessor"."""
    block = config.stack.block
    if block.feedforward is None or block.layer_scale is None:
        raise unfit(config.family, "layer_scale", block.layer_scale)
    gated, hidden = block.feedforward.gated, block.feedforward.hidden
    ratio = next((one for one in range(1, 65) if _hidden(block.width, float(one), gated=gated) == hidden), None)
    if ratio is None:
        raise unfit(config.family, "feedforward.hidden", hidden)
    return {
        "model_type": "dinov2",
        "architectures": ["Dinov2ForImageClassification" if config.classes else "Dinov2Model"],
        "hidden_size": block.width,
        "num_hidden_layers": config.stack.layers,
        "num_attention_heads": block.attention.heads,
        "mlp_ratio": ratio,
        "use_swiglu_ffn": gated,
        "hidden_act": "gelu" if gated else activation_to(block.feedforward.activation),
        "image_size": sides(config.image)[0] if config.table_image is None else config.table_image,
        "patch_size": config.patch,
        "num_channels": config.channels,
        "qkv_bias": block.attention.bias,
        "layer_norm_eps": block.eps,
        "layerscale_value": block.layer_scale,
        "hidden_dropout_prob": block.dropout,
        "attention_probs_dropout_prob": 0.0,
        "use_mask_token": False,
        "preprocessor": images_to(config.images, config.image, config.channels, processor=PROCESSOR),
        **(labels_to(config) if config.classes else {}),
    }


FAMILY = Family(
    "dinov2", read, write, table, ("dinov2",), canonical, NOT_READ, exported, omitted_options=("images",)
)  # fmt: skip
