"""DaViT beside transformers' Florence-2 backbone: every block and stage, odd grids, and the way back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

import headway
from headway.hub.parts import parts_of
from headway.models.davit import DaViT
from headway.presets.vision import davit
from tests.fresh import fresh
from tests.parity.compare import close, far, outputs_of
from tests.parity.davit.florence import Backbone, backbone, write

# Grids of 7 x 11, 4 x 6 and 2 x 3 with windows of 3: nothing is a whole number of windows but by chance.
SHAPES: dict[str, dict[str, Any]] = {
    "odd": dict(depths=[1, 2, 1], widths=[6, 10, 14], heads=[3, 5, 2], window=3, image=(26, 43)),
    "whole": dict(depths=[2, 1], widths=[6, 15], heads=[2, 3], window=5, image=(40, 80)),
    "small": dict(depths=[1, 1], widths=[8, 12], heads=[4, 6], window=7, image=(13, 19), channels=1),
}


@pytest.fixture(params=SHAPES)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Backbone, DaViT]:
    shape = dict(SHAPES[request.param])
    image = shape.pop("image")
    other = backbone(**shape)
    write(other, tmp_path / "theirs", image, classes=5)
    return other, headway.load(tmp_path / "theirs").model


def images_for(model: DaViT, count: int = 3) -> Tensor:
    rows, columns = model.config.image if isinstance(model.config.image, tuple) else (model.config.image,) * 2
    return torch.randn(count, model.config.channels, rows, columns)


def steps_of(other: Backbone, model: DaViT) -> tuple[list[Any], list[Any]]:
    """Every half of every block, and what makes the grid of each stage; in both models, in order."""
    theirs, ours = [], []
    for stage, (conv, blocks) in enumerate(zip(other.convs, other.blocks, strict=True)):
        theirs += [conv, *(half for block in blocks for half in (block.spatial_block, block.channel_block))]
        mine = model.stages[stage]
        ours += [mine.halve or model.stem, *(half for block in mine.blocks for half in (block.spatial, block.channel))]
    return theirs, ours


@torch.no_grad()
def test_every_block_and_stage(pair: tuple[Backbone, DaViT]) -> None:
    other, model = pair
    images = images_for(model)
    theirs, ours = steps_of(other, model)
    expected, found = outputs_of(theirs, lambda: other(images)), outputs_of(ours, lambda: model(images))
    assert len(found) == len(expected) == len(ours) == len(theirs)
    for mine, right in zip(found, expected, strict=True):
        assert close(mine, right)
    assert close(model.hidden_states(images), other(images).last_hidden_state)
    grids = [tuple(x.shape[2:]) for x in outputs_of(model.stages, lambda: model(images))]
    assert tuple(grids) == model.config.grids


@torch.no_grad()
def test_the_head_is_a_mean_a_norm_and_a_map(pair: tuple[Backbone, DaViT], tmp_path: Path) -> None:
    other, model = pair
    head = load_file(tmp_path / "theirs" / "model.safetensors")
    images = images_for(model)
    mean = other(images).last_hidden_state.mean((2, 3))
    normed = torch.nn.functional.layer_norm(mean, mean.shape[1:], head["head.norm.weight"], head["head.norm.bias"])
    assert close(model(images), normed @ head["head.fc.weight"].T + head["head.fc.bias"])


@torch.no_grad()
def test_the_first_version_compares_k_with_v_and_averages_q(tmp_path: Path) -> None:
    """The attention between channels of davit_tiny and its sisters, from the tensor that timm stores."""
    model = fresh(davit(depths=(1,), widths=(6,), heads=(3,), image=26).model_copy(update={"window": 3}), std=0.5)
    headway.save(model, tmp_path / "ours")
    stored = load_file(tmp_path / "ours" / "model.safetensors")
    x = torch.randn(2, 6, 7, 7)
    rows = x.flatten(2).transpose(1, 2)
    name = "stages.0.blocks.0.1.attn"
    joined = rows @ stored[f"{name}.qkv.weight"].T + stored[f"{name}.qkv.bias"]
    q, k, v = joined.view(2, 49, 3, 3, 2).permute(2, 0, 3, 1, 4)
    found = (k.mT @ v / 2**0.5).softmax(-1) @ q.mT
    right = found.permute(0, 3, 1, 2).reshape(2, 49, 6) @ stored[f"{name}.proj.weight"].T + stored[f"{name}.proj.bias"]
    assert close(model.stages[0].blocks[0].channel._attend(x), right.transpose(1, 2).reshape(2, 6, 7, 7))
    assert headway.load(tmp_path / "ours").model.config == model.config


@torch.no_grad()
def test_what_is_saved_is_what_was_loaded(pair: tuple[Backbone, DaViT], tmp_path: Path) -> None:
    _, model = pair
    headway.save(model, tmp_path / "ours")
    before, after = (load_file(tmp_path / name / "model.safetensors") for name in ("theirs", "ours"))
    assert before.keys() == after.keys()
    assert all(torch.equal(before[name], after[name]) for name in before)
    again = headway.load(tmp_path / "ours").model
    assert again.config == model.config
    images = images_for(model)
    assert torch.equal(again(images), model(images))


@torch.no_grad()
def test_images_of_another_size(tmp_path: Path) -> None:
    other = backbone(depths=[1, 1], widths=[6, 10], heads=[3, 5], window=3)
    write(other, tmp_path / "theirs", (26, 43))
    model = headway.load(tmp_path / "theirs").model.resized((31, 22))
    images = images_for(model)
    assert images.shape[2:] == (31, 22)
    assert close(model.hidden_states(images), other(images).last_hidden_state)


@torch.no_grad()
@pytest.mark.parametrize("name", [
    "stem.conv.weight", "stem.norm.bias", "stages.1.halve.norm.weight", "stages.1.halve.conv.bias",
    "stages.0.blocks.0.spatial.attention_positions.weight", "stages.0.blocks.0.spatial.attention.key.weight",
    "stages.1.blocks.1.channel.attention.query.weight", "stages.1.blocks.1.channel.attention.value.bias",
    "stages.1.blocks.1.channel.feedforward_positions.bias", "stages.1.blocks.0.spatial.feedforward.up.weight",
])  # fmt: skip
def test_a_changed_weight_is_seen(name: str, tmp_path: Path) -> None:
    other = backbone(depths=[1, 2], widths=[6, 10], heads=[3, 5], window=3)
    write(other, tmp_path / "theirs", (26, 43))
    model = headway.load(tmp_path / "theirs").model
    images = images_for(model)
    expected = other(images).last_hidden_state
    assert close(model.hidden_states(images), expected)
    parts_of(model)[name].flatten()[2] += 0.3
    assert far(model.hidden_states(images), expected) > 3e-5


def test_blocks_may_have_names(tmp_path: Path) -> None:
    """As in Florence-2's own checkpoints."""
    other = backbone(depths=[1, 2], widths=[6, 10], heads=[3, 5], window=3)
    write(other, tmp_path / "named", (26, 43), numbered=False)
    write(other, tmp_path / "numbered", (26, 43))
    named, numbered = (headway.load(tmp_path / path) for path in ("named", "numbered"))
    assert named.receipt.hash == numbered.receipt.hash


@pytest.mark.parametrize(("args", "sentence"), [
    ({"ffn": False}, "ffn=False"),
    ({"cpe_act": True}, "cpe_act=True"),
    ({"attn_types": ["channel", "spatial"]}, "attn_types"),
    ({"head_norm_first": True}, "head_norm_first=True"),
    ({"lambda": 3}, "the argument lambda=3"),
    ({"in_chans": 1}, "reads 1 channels .in_chans., and input_size says 3"),
    ({"down_kernel_size": 5}, "kernel=5"),
    ({"num_heads": [4, 5]}, "width 6 is not divisible by heads 4"),
    ({"depths": [1, 1, 1]}, "there are 3, 2 and 2"),
    ({"depths": [1, 3]}, "lacks 'stages.1.blocks.2.0"),
    ({"qkv_bias": False}, "attn.qkv.bias"),
])  # fmt: skip
def test_what_cannot_be_honoured_is_refused(args: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    write(backbone(depths=[1, 2], widths=[6, 10], heads=[3, 5], window=3), tmp_path / "theirs", (26, 43))
    path = tmp_path / "theirs" / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"model_args": config["model_args"] | args}))
    with pytest.raises(ValueError, match=sentence):
        headway.load(tmp_path / "theirs")


def test_an_unknown_architecture_is_refused(tmp_path: Path) -> None:
    write(backbone(depths=[1], widths=[6], heads=[3], window=3), tmp_path / "theirs", (26, 43))
    path = tmp_path / "theirs" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"architecture": "davit_tinny"}))
    with pytest.raises(ValueError, match=r"no architecture 'davit_tinny' .did you mean davit_tiny"):
        headway.load(tmp_path / "theirs")
