"""DINOv2 beside transformers in float64: logits, hidden states, positions of another image, and the way back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import Dinov2Config, Dinov2ForImageClassification, Dinov2Model

import headway
from headway.hub.parts import parts_of
from headway.models.vit import Vision
from tests.parity.compare import close, far, outputs_of, shake

SHAPES = {
    "plain": dict(hidden_size=22, num_attention_heads=2, num_hidden_layers=3, image_size=35, patch_size=7),
    "gated": dict(hidden_size=21, num_attention_heads=3, num_hidden_layers=2, image_size=33, patch_size=11,
                  use_swiglu_ffn=True, mlp_ratio=3, layerscale_value=0.3, qkv_bias=False, num_channels=1),
}  # fmt: skip
CASES = [(Dinov2Model, "plain"), (Dinov2ForImageClassification, "gated"), (Dinov2ForImageClassification, "plain")]


def theirs(kind: Any, shape: str, path: Path, crop: int | None = None) -> Any:
    torch.manual_seed(1)
    model = kind(Dinov2Config(num_labels=5, **SHAPES[shape])).double().eval()
    shake(model)
    model.save_pretrained(path)
    if crop is not None:
        said = {"image_processor_type": "BitImageProcessor", "crop_size": {"height": crop, "width": crop},
                "size": {"shortest_edge": 40}}  # fmt: skip
        (path / "preprocessor_config.json").write_text(json.dumps(said))
    return model


@pytest.fixture(scope="module", params=CASES, ids=lambda case: f"{case[0].__name__}-{case[1]}")
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Vision]:
    path = tmp_path_factory.mktemp("theirs")
    return theirs(*request.param, path), headway.load(path).model


def images_for(model: Vision) -> Tensor:
    return torch.randn(3, model.config.channels, model.config.image, model.config.image).double()


def answer(other: Any, images: Tensor) -> Tensor:
    found = other(images)
    return found.logits if "logits" in found else found.pooler_output


@torch.no_grad()
def test_logits_and_hidden_states(pair: tuple[Any, Vision]) -> None:
    other, model = pair
    images = images_for(model)
    expected = other(images, output_hidden_states=True).hidden_states
    found = outputs_of([model.dropout, *model.stack.blocks], lambda: model(images))
    assert len(found) == len(expected) == model.config.stack.layers + 1
    assert all(close(ours, hidden, tolerance=1e-12) for ours, hidden in zip(found, expected, strict=True))
    assert close(model(images), answer(other, images), tolerance=1e-12)
    body = other if model.head is None else other.dinov2
    assert close(model.hidden_states(images), body(images).last_hidden_state, tolerance=1e-12)


@torch.no_grad()
def test_what_is_saved_loads_there(pair: tuple[Any, Vision], tmp_path: Path) -> None:
    other, model = pair
    headway.save(model, tmp_path / "ours")
    again, report = type(other).from_pretrained(tmp_path / "ours", output_loading_info=True, dtype="auto")
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    images = images_for(model)
    assert close(answer(again.eval(), images), answer(other, images), tolerance=1e-14)
    back = headway.load(tmp_path / "ours").model
    assert back.config.replace(images=model.config.images) == model.config
    assert torch.equal(back(images), model(images))
    for key in ("image_size", "mlp_ratio", "use_swiglu_ffn", "layerscale_value", "qkv_bias"):
        assert getattr(again.config, key) == getattr(other.config, key), key


@torch.no_grad()
def test_positions_of_a_larger_image(tmp_path: Path) -> None:
    """The published directories: a table for 518 pixels, and a processor that cuts out 224."""
    other = theirs(Dinov2ForImageClassification, "plain", tmp_path / "theirs", crop=21)
    model = headway.load(tmp_path / "theirs").model
    assert (model.config.image, model.config.table_image, model.config.images.resize) == (21, 35, 40)
    images = images_for(model)
    assert close(model(images), answer(other, images), tolerance=1e-6)  # theirs are interpolated in float32
    wider = model.resized(28)
    assert wider.positions is model.positions
    again = images_for(wider)
    assert close(wider(again), answer(other, again), tolerance=1e-6)
    headway.save(model, tmp_path / "ours")
    back = headway.load(tmp_path / "ours").model
    assert back.config.replace(images=model.config.images) == model.config and torch.equal(
        back.positions, model.positions
    )
    assert json.loads((tmp_path / "ours" / "config.json").read_text())["image_size"] == 35


PARTS = ["attention_scale.weight", "feedforward_scale.weight", "feedforward.gate.bias", "feedforward.up.weight"]


@torch.no_grad()
def test_a_changed_weight_is_seen(tmp_path: Path) -> None:
    other = theirs(Dinov2ForImageClassification, "gated", tmp_path)
    model, _, receipt = headway.load(tmp_path)
    assert receipt.unused == ("dinov2.embeddings.mask_token",)
    images = images_for(model)
    expected = answer(other, images)
    names = ["positions", "head.weight"] + [f"stack.blocks.1.{name}" for name in PARTS]
    for name in names:
        part = parts_of(model)[name]
        kept = part.clone()
        part.flatten()[3] += 0.1
        assert far(model(images), expected) > 1e-9, name
        part.copy_(kept)
    assert close(model(images), expected, tolerance=1e-12)


@pytest.mark.parametrize(("values", "sentence"), [
    ({"hidden_act": "mish"}, "headway has no activation 'mish'"),
    ({"image_size": [35, 28]}, "table of positions is square"),
    ({"architectures": ["Dinov2Backbone"]}, "does not read a Dinov2Backbone"),
    ({"mlp_ratio": 3}, "mlp.fc1"),
    ({"use_swiglu_ffn": True}, "weights_out"),
])  # fmt: skip
def test_what_cannot_be_honoured_is_refused(values: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    theirs(Dinov2Model, "plain", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | values))
    with pytest.raises(ValueError, match=sentence):
        headway.load(tmp_path)


def test_a_width_that_no_ratio_gives_is_refused(tmp_path: Path) -> None:
    theirs(Dinov2Model, "plain", tmp_path / "theirs")
    config = headway.load(tmp_path / "theirs").model.config.replace("stack.block.feedforward", hidden=23)
    with pytest.raises(ValueError, match=r"no word for feedforward[.]hidden=23"):
        headway.save(headway.build(config), tmp_path / "ours")
