"""DaViT beside timm itself, where it is installed: both kinds of attention between channels, and both directions."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import headway
from headway.hub.parts import parts_of
from headway.models import count
from headway.presets import preset
from tests.fresh import fresh
from tests.parity.compare import close, far, outputs_of, shake

if find_spec("timm") is None:
    pytest.skip("timm is not installed", allow_module_level=True)
# torchvision without its compiled part lacks two operators, and timm's import asks for them.
LIBRARY = torch.library.Library("torchvision", "FRAGMENT")
for operator in ("nms", "qnms"):
    if not hasattr(torch.ops.torchvision, operator):
        LIBRARY.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
timm = pytest.importorskip("timm")

SIZES: dict[str, Any] = dict(
    depths=[1, 2, 1], embed_dims=[6, 10, 14], num_heads=[3, 5, 2], window_size=3, mlp_ratio=2.5
)
CASES: dict[str, tuple[str, dict[str, Any]]] = {
    "first": ("davit_tiny", SIZES),
    "second": ("davit_small", {**SIZES, "channel_attn_v2": True, "down_kernel_size": 3}),
    "named": ("davit_base_fl", SIZES),
    "plain": ("davit_tiny", {**SIZES, "qkv_bias": False, "norm_eps": 1e-3, "in_chans": 1}),
}
IMAGE = (45, 26)


@pytest.fixture(params=CASES)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Any, Path]:
    name, args = CASES[request.param]
    torch.manual_seed(1)
    other = timm.create_model(name, num_classes=5, **args).eval()
    shake(other)
    about = {"input_size": (args.get("in_chans", 3), *IMAGE), "crop_mode": "squash", "crop_pct": 1.0}
    other.pretrained_cfg = {**other.pretrained_cfg, **about}
    from timm.models import _hub

    _hub.save_for_hf(other, tmp_path / "theirs", model_args=args, safe_serialization=True)
    return other, headway.load(tmp_path / "theirs").model, tmp_path


def images_for(model: Any) -> Tensor:
    return torch.randn(3, model.config.channels, *IMAGE)


@torch.no_grad()
def test_logits_and_every_stage(pair: tuple[Any, Any, Path]) -> None:
    other, model, _ = pair
    images = images_for(model)
    expected, found = outputs_of(other.stages, lambda: other(images)), outputs_of(model.stages, lambda: model(images))
    for ours, theirs in zip(found, expected, strict=True):
        assert close(ours, theirs)
    assert close(model(images), other(images))
    parts_of(model)["stages.0.blocks.0.channel.attention.value.weight"].flatten()[2] += 0.3
    assert far(model(images), other(images)) > 3e-5


@torch.no_grad()
def test_what_is_saved_loads_there(pair: tuple[Any, Any, Path]) -> None:
    other, model, path = pair
    headway.save(model, path / "ours")
    again = timm.create_model(f"local-dir:{path / 'ours'}", pretrained=True).eval()
    images = images_for(model)
    assert torch.equal(again(images), other(images))


@pytest.mark.parametrize("name", ["davit-tiny", "davit-small", "davit-base", "davit-base-fl", "davit-huge"])
def test_presets_have_as_many_parameters(name: str) -> None:
    with torch.device("meta"):
        other = timm.create_model(name.replace("-", "_"))
    assert sum(parameter.numel() for parameter in other.parameters()) == count(preset(name))


@torch.no_grad()
def test_a_published_size_needs_no_arguments(tmp_path: Path) -> None:
    config = preset("davit-tiny").at((64, 96))
    model = fresh(config, std=0.1)
    headway.save(model, tmp_path / "ours")
    assert "model_args" not in (tmp_path / "ours" / "config.json").read_text()
    again = timm.create_model(f"local-dir:{tmp_path / 'ours'}", pretrained=True).eval().double()
    images = torch.randn(2, 3, 64, 96, dtype=torch.float64)
    assert close(model.double()(images), again(images), tolerance=1e-11)
