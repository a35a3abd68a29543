"""transformers' Florence2VisionBackbone is a DaViT of timm's second kind: its tensors under timm's names."""

import json
import re
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor
from transformers.models.florence2.configuration_florence2 import Florence2VisionConfig
from transformers.models.florence2.modeling_florence2 import Florence2VisionBackbone

from tests.parity.compare import shake

Backbone = Florence2VisionBackbone
# Part of a name of theirs -> timm's; the numbers of stage and block are put back in between.
HALVES = {"spatial_block": "0", "channel_block": "1"}
PARTS = {
    "conv1": "cpe1.proj",
    "conv2": "cpe2.proj",
    "window_attn.qkv": "attn.qkv",
    "window_attn.proj": "attn.proj",
    "channel_attn.qkv": "attn.qkv",
    "channel_attn.proj": "attn.proj",
    "ffn.fc1": "mlp.fc1",
    "ffn.fc2": "mlp.fc2",
    "norm1": "norm1",
    "norm2": "norm2",
}


def backbone(*, depths: list[int], widths: list[int], heads: list[int], window: int, channels: int = 3) -> Backbone:
    torch.manual_seed(1)
    stages = len(depths)
    config = Florence2VisionConfig(
        in_channels=channels, depths=depths, embed_dim=widths, num_heads=heads, num_groups=heads, window_size=window,
        patch_size=[7] + [3] * (stages - 1), patch_stride=[4] + [2] * (stages - 1),
        patch_padding=[3] + [1] * (stages - 1), patch_prenorm=[False] + [True] * (stages - 1), mlp_ratio=2.5,
    )  # fmt: skip
    model = Backbone(config).eval()
    shake(model)
    return model


def renamed(name: str, *, numbered: bool = True) -> str:
    """timm's name of one of Florence-2's tensors."""
    if found := re.fullmatch(r"convs\.(\d+)\.(.+)", name):
        return f"stem.{found[2]}" if found[1] == "0" else f"stages.{found[1]}.downsample.{found[2]}"
    found = re.fullmatch(r"blocks\.(\d+)\.(\d+)\.(\w+)\.(.+)\.(weight|bias)", name)
    assert found is not None, name
    half = HALVES[found[3]] if numbered else found[3]
    return f"stages.{found[1]}.blocks.{found[2]}.{half}.{PARTS[found[4]]}.{found[5]}"


def write(model: Backbone, path: Path, image: tuple[int, int], *, classes: int = 0, numbered: bool = True) -> None:
    """A directory as timm lays it out, with a head of its own."""
    c = model.config
    draw = torch.Generator().manual_seed(5)
    width = c.embed_dim[-1]
    head = {f"head.norm.{kind}": torch.randn(width, generator=draw) for kind in ("weight", "bias")}
    if classes:
        head |= {"head.fc.weight": torch.randn(classes, width, generator=draw), "head.fc.bias": torch.randn(classes)}
    tensors: dict[str, Tensor] = {renamed(name, numbered=numbered): value for name, value in model.state_dict().items()}
    path.mkdir(parents=True)
    save_file({**tensors, **head}, path / "model.safetensors")
    args: dict[str, Any] = {
        "depths": c.depths, "embed_dims": c.embed_dim, "num_heads": c.num_heads, "window_size": c.window_size,
        "mlp_ratio": c.mlp_ratio, "in_chans": c.in_channels, "down_kernel_size": 3, "channel_attn_v2": True,
        "named_blocks": not numbered,
    }  # fmt: skip
    about = {"input_size": [c.in_channels, *image], "crop_mode": "squash", "crop_pct": 1.0}
    config = {"architecture": "davit_tiny", "num_classes": classes, "model_args": args, "pretrained_cfg": about}
    (path / "config.json").write_text(json.dumps(config))
