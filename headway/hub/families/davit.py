"""DaViT's layout, as timm has it: config.json names an architecture and what differs from it (`model_args`).

Query, key and value are one tensor. In the attention between channels timm's first version compares its "k" with its
"v" and averages its "q": they are our query, key and value; its second version (Florence-2) has them as usual.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any

from headway.config import nearest
from headway.config.base import sides
from headway.config.vision import DaViTConfig
from headway.hub.families.common import refuse
from headway.hub.families.image_processor import images_of_timm, images_to_timm
from headway.hub.family import Entry, Family, Table, expand
from headway.presets.vision import PRESETS

OUTSIDE = [
    Entry("stem.conv.weight", "stem.conv.weight"),
    Entry("stem.conv.bias", "stem.conv.bias"),
    Entry("stem.norm.weight", "stem.norm.weight"),
    Entry("stem.norm.bias", "stem.norm.bias"),
    Entry("head.norm.weight", "norm.weight"),
    Entry("head.norm.bias", "norm.bias"),
]
HEAD = [Entry("head.fc.weight", "head.weight"), Entry("head.fc.bias", "head.bias")]
HALVE = [
    Entry("stages.{i}.downsample.norm.weight", "stages.{i}.halve.norm.weight"),
    Entry("stages.{i}.downsample.norm.bias", "stages.{i}.halve.norm.bias"),
    Entry("stages.{i}.downsample.conv.weight", "stages.{i}.halve.conv.weight"),
    Entry("stages.{i}.downsample.conv.bias", "stages.{i}.halve.conv.bias"),
]
# One half of a dual block: theirs is number 0 (between positions) or 1 (between channels).
HALF = {
    "cpe1.proj": "attention_positions",
    "norm1": "attention_norm",
    "attn.proj": "attention.out",
    "cpe2.proj": "feedforward_positions",
    "norm2": "feedforward_norm",
    "mlp.fc1": "feedforward.up",
    "mlp.fc2": "feedforward.down",
}
PLAIN, FIRST = ("query", "key", "value"), ("value", "query", "key")


def _half(theirs: str, ours: str, order: tuple[str, ...], *, bias: bool) -> list[Entry]:
    both = ("weight", "bias")
    joined = {kind: tuple(f"{ours}.attention.{name}.{kind}" for name in order) for kind in both[: 1 + bias]}
    return [
        *(Entry(f"{theirs}.{a}.{kind}", f"{ours}.{b}.{kind}") for a, b in HALF.items() for kind in both),
        *(Entry(f"{theirs}.attn.qkv.{kind}", names) for kind, names in joined.items()),
    ]


def table(config: DaViTConfig) -> Table:
    rows = [*OUTSIDE, *(HEAD if config.classes else []), *expand(HALVE, i=range(1, len(config.depths)))]
    order = FIRST if config.scaled == "width" else PLAIN
    for stage, depth in enumerate(config.depths):
        place = f"stages.{stage}.blocks.{{j}}"
        halves = _half(f"{place}.0", f"{place}.spatial", PLAIN, bias=config.bias)
        halves += _half(f"{place}.1", f"{place}.channel", order, bias=config.bias)
        rows += expand(halves, j=range(depth))
    return rows


def canonical(name: str) -> str:
    """Florence-2's blocks have names where the others have numbers."""
    return name.replace(".spatial_block.", ".0.").replace(".channel_block.", ".1.")


def exported(name: str, config: DaViTConfig) -> str:
    if not architecture(config).endswith("_fl"):
        return name
    halves = {"0": "spatial_block", "1": "channel_block"}
    return re.sub(r"(blocks\.\d+)\.([01])\.", lambda found: f"{found[1]}.{halves[found[2]]}.", name)


ARCHITECTURES: dict[str, Callable[[], Any]] = {
    name.replace("-", "_"): make for name, make in PRESETS.items() if name.startswith("davit")
}
# Their argument -> our field.
ARGUMENTS = {
    "in_chans": "channels",
    "depths": "depths",
    "embed_dims": "widths",
    "num_heads": "heads",
    "window_size": "window",
    "mlp_ratio": "ratio",
    "down_kernel_size": "kernel",
    "qkv_bias": "bias",
    "norm_eps": "eps",
}
# What headway computes, where an argument says anything about it.
FIXED = {
    "attn_types": ["spatial", "channel"],
    "ffn": True,
    "cpe_act": False,
    "head_norm_first": False,
    "global_pool": "avg",
    "norm_layer": "layernorm2d",
    "norm_layer_cl": "layernorm",
}
UNHEARD = (
    "channel_attn_v2",
    "named_blocks",
    "drop_rate",
    "drop_path_rate",
)  # read elsewhere, or heard in training only


def architecture(config: DaViTConfig) -> str:
    """timm's name of these sizes; where it has none, one that `model_args` then overrules."""
    sizes = [*ARGUMENTS.values(), "scaled"]
    for name, make in ARCHITECTURES.items():
        if all(getattr(make(), size) == getattr(config, size) for size in sizes):
            return name
    return "davit_tiny"


def read(config: Mapping[str, Any], names: frozenset[str]) -> DaViTConfig:
    name, args, about = _sections(config)
    refuse(args, FIXED)
    base = ARCHITECTURES[name]()
    fields = {field: getattr(base, field) for field in (*ARGUMENTS.values(), "scaled")}
    fields |= {ours: _plain(args[theirs]) for theirs, ours in ARGUMENTS.items() if theirs in args}
    if "channel_attn_v2" in args:
        fields["scaled"] = "positions" if args["channel_attn_v2"] else "width"
    channels, rows, columns = about.get("input_size") or (fields["channels"], *sides(base.image))
    if channels != fields["channels"]:
        raise ValueError(f"the stem reads {fields['channels']} channels (in_chans), and input_size says {channels}")
    fields["image"] = rows if rows == columns else (rows, columns)
    classes = config.get("num_classes", about.get("num_classes", base.classes))
    images = images_of_timm(about, (rows, columns))
    return DaViTConfig(family="davit", classes=classes, labels=_labels(config, classes), images=images, **fields)


def _sections(config: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
    """The architecture's name, its arguments, and what was said about its weights; unknown words are refused."""
    name, args = str(config["architecture"]).split(".")[0], config.get("model_args") or {}
    if name not in ARCHITECTURES:
        raise ValueError(f"headway knows no architecture {name!r}{nearest(name, ARCHITECTURES)}")
    for key in args:
        if key not in (*ARGUMENTS, *FIXED, *UNHEARD):
            raise ValueError(f"headway does not read models with the argument {key}={args[key]!r}")
    return name, args, config.get("pretrained_cfg") or {}


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


def _labels(config: Mapping[str, Any], classes: int) -> tuple[str, ...]:
    named = config.get("label_names") or ()
    if isinstance(named, Mapping):
        return tuple(str(named.get(str(index), index)) for index in range(classes))
    return tuple(str(name) for name in named)


def write(config: DaViTConfig) -> dict[str, Any]:
    name = architecture(config)
    base = ARCHITECTURES[name]()
    args = {a: getattr(config, b) for a, b in ARGUMENTS.items() if getattr(config, b) != getattr(base, b)}
    if config.scaled != base.scaled:
        args["channel_attn_v2"] = config.scaled == "positions"
    return {
        "architecture": name,
        "num_classes": config.classes,
        "num_features": config.widths[-1],
        "global_pool": "avg",
        **({"label_names": list(config.labels)} if config.labels else {}),
        **({"model_args": args} if args else {}),
        "pretrained_cfg": {
            "custom_load": False,
            **images_to_timm(config.images, sides(config.image), config.channels),
            "num_classes": config.classes,
            "pool_size": list(config.grids[-1]),
            "first_conv": "stem.conv",
            "classifier": "head.fc",
        },
    }


FAMILY = Family("davit", read, write, table, (), canonical, (), exported, omitted_options=("images",))
