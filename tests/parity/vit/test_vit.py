"""ViT and DeiT beside transformers: logits, hidden states, other image sizes, and the way back."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers
from torch import Tensor
from transformers import DeiTConfig, ViTConfig

import headway
from headway.hub.parts import parts_of
from headway.models.vit import Vision
from tests.parity.compare import close, far, outputs_of, shake

SHAPES = {
    "square": dict(hidden_size=22, num_attention_heads=2, num_hidden_layers=3, intermediate_size=31, image_size=35,
                   patch_size=7),
    "oblong": dict(hidden_size=21, num_attention_heads=3, num_hidden_layers=2, intermediate_size=17,
                   image_size=[22, 39], patch_size=[11, 13], hidden_act="gelu_new", layer_norm_eps=1e-3),
    "grey": dict(hidden_size=20, num_attention_heads=5, num_hidden_layers=2, intermediate_size=23, image_size=17,
                 patch_size=5, num_channels=1, qkv_bias=False, hidden_act="relu", hidden_dropout_prob=0.1),
}  # fmt: skip
KINDS = [
    "ViTModel",
    "ViTForImageClassification",
    "DeiTModel",
    "DeiTForImageClassification",
    "DeiTForImageClassificationWithTeacher",
]
CASES = [(kind, "square") for kind in KINDS]
CASES += [(kind, shape) for shape in ("oblong", "grey") for kind in ("ViTForImageClassification", KINDS[-1])]


def theirs(kind: str, shape: str, path: Path) -> Any:
    torch.manual_seed(1)
    config = (DeiTConfig if kind.startswith("DeiT") else ViTConfig)(num_labels=5, **SHAPES[shape])
    model = getattr(transformers, kind)(config).eval()
    shake(model)
    model.save_pretrained(path)
    return model


@pytest.fixture(params=CASES, ids=lambda case: "-".join(case))
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Any, Vision]:
    other = theirs(*request.param, tmp_path / "theirs")
    return other, headway.load(tmp_path / "theirs").model


def images_for(model: Vision, count: int = 3) -> Tensor:
    size = model.config.image
    rows, columns = (size, size) if isinstance(size, int) else size
    return torch.randn(count, model.config.channels, rows, columns)


def answer(other: Any, images: Tensor, **more: Any) -> Tensor:
    found = other(images, **more)
    return found.logits if "logits" in found else found.pooler_output


@torch.no_grad()
def test_logits_and_hidden_states(pair: tuple[Any, Vision]) -> None:
    other, model = pair
    images = images_for(model)
    expected = other(images, output_hidden_states=True).hidden_states
    found = outputs_of([model.dropout, *model.stack.blocks], lambda: model(images))
    assert len(found) == len(expected)
    for ours, hidden in zip(found, expected, strict=True):
        assert close(ours, hidden)
    assert close(model(images), answer(other, images))
    body = other if model.head is None else getattr(other, model.config.family)
    assert close(model.hidden_states(images), body(images).last_hidden_state)


@torch.no_grad()
def test_what_is_saved_loads_there(pair: tuple[Any, Vision], tmp_path: Path) -> None:
    other, model = pair
    headway.save(model, tmp_path / "ours")
    again, report = type(other).from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    assert again.config.architectures == [type(other).__name__]
    images = images_for(model)
    assert torch.equal(answer(again.eval(), images), answer(other, images))
    back = headway.load(tmp_path / "ours")
    assert back.model.config.model_copy(update={"images": model.config.images}) == model.config
    assert torch.equal(back.model(images), model(images))
    for key in ("image_size", "patch_size", "num_channels", "qkv_bias", "layer_norm_eps", "hidden_dropout_prob"):
        assert getattr(again.config, key) == getattr(other.config, key), key
    assert model.head is None or again.config.id2label == other.config.id2label


AUTO = {
    "ViTModel": "AutoModel",
    "DeiTModel": "AutoModel",
    "DeiTForImageClassification": "AutoModelForImageClassification",
}


@pytest.mark.parametrize("kind", [*AUTO, "ViTForImageClassification"])
def test_the_auto_classes_find_it(kind: str, tmp_path: Path) -> None:
    theirs(kind, "square", tmp_path / "theirs")
    headway.save(headway.load(tmp_path / "theirs").model, tmp_path / "ours")
    auto = getattr(transformers, AUTO.get(kind, "AutoModelForImageClassification"))
    again, report = auto.from_pretrained(tmp_path / "ours", output_loading_info=True)
    assert type(again).__name__ == kind
    assert not any(report[what] for what in ("missing_keys", "unexpected_keys", "mismatched_keys"))


@torch.no_grad()
@pytest.mark.parametrize("name", [
    "class_token", "distillation_token", "positions", "patches.bias", "stack.blocks.1.attention.query.weight",
    "stack.blocks.1.attention.out.bias", "stack.blocks.0.attention_norm.bias", "stack.blocks.2.feedforward.up.weight",
    "stack.norm.weight", "head.weight", "teacher_head.bias",
])  # fmt: skip
def test_a_changed_weight_is_seen(name: str, tmp_path: Path) -> None:
    other = theirs(KINDS[-1], "square", tmp_path)
    model = headway.load(tmp_path).model
    images = images_for(model)
    expected = answer(other, images)
    assert close(model(images), expected)
    parts_of(model)[name].flatten()[3] += 0.1
    assert far(model(images), expected) > 3e-5


@torch.no_grad()
@pytest.mark.parametrize("kind", ["ViTForImageClassification", KINDS[-1]])
def test_images_of_another_size(kind: str, tmp_path: Path) -> None:
    """Positions are interpolated as theirs are; everything else is the same tensor."""
    other = theirs(kind, "square", tmp_path)
    model = headway.load(tmp_path).model
    wider = model.resized((28, 63))
    images = images_for(wider)
    assert images.shape == (3, 3, 28, 63)
    assert close(wider(images), answer(other, images, interpolate_pos_encoding=True))
    assert wider.head.weight is model.head.weight
    assert torch.equal(model.resized(35).positions, model.positions)
    with pytest.raises(ValueError, match=r"reads images of shape B C Y X = \(B, 3, 35, 35\), not \(3, 3, 28, 63\)"):
        model(images)


def test_the_teacher_is_a_mean_of_two_heads(tmp_path: Path) -> None:
    other = theirs(KINDS[-1], "square", tmp_path)
    model = headway.load(tmp_path).model
    images = images_for(model)
    with torch.no_grad():
        hidden, expected = model.hidden_states(images), other(images)
        assert close(model.head(hidden[:, 0]), expected.cls_logits)
        assert close(model.teacher_head(hidden[:, 1]), expected.distillation_logits)


def test_labels_come_along(tmp_path: Path) -> None:
    theirs("ViTForImageClassification", "square", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    names = {str(index): word for index, word in enumerate(["ant", "bee", "cat", "dog", "eel"])}
    (tmp_path / "config.json").write_text(json.dumps(config | {"id2label": names}))
    model = headway.load(tmp_path).model
    assert [model.config.label(index) for index in range(5)] == ["ant", "bee", "cat", "dog", "eel"]
    headway.save(model, tmp_path / "ours")
    assert transformers.AutoConfig.from_pretrained(tmp_path / "ours").id2label[3] == "dog"


def change(path: Path, **values: Any) -> None:
    config = json.loads((path / "config.json").read_text())
    (path / "config.json").write_text(json.dumps(config | values))


@pytest.mark.parametrize(("values", "sentence"), [
    ({"hidden_act": "mish"}, "headway has no activation 'mish'"),
    ({"pooler_act": "relu"}, "pooler_act='relu'"),
    ({"pooler_output_size": 7}, "pooler_output_size=7"),
    ({"id2label": {"0": "a", "2": "b"}}, "numbered from 0 without a gap"),
    ({"image_size": 42}, "'vit.embeddings.position_embeddings' has shape .1, 26, 22., and config.json makes it .1, 37"),
    ({"num_labels": 4, "id2label": None}, "classifier.weight"),
    ({"qkv_bias": False}, "attention.attention"),
    ({"num_hidden_layers": 4}, "lacks 'encoder.layer.3"),
])  # fmt: skip
def test_what_cannot_be_honoured_is_refused(values: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    theirs("ViTForImageClassification", "square", tmp_path)
    change(tmp_path, **values)
    with pytest.raises(ValueError, match=sentence):
        headway.load(tmp_path)


def test_a_masked_image_model_is_refused(tmp_path: Path) -> None:
    transformers.ViTForMaskedImageModeling(ViTConfig(**SHAPES["square"])).save_pretrained(tmp_path)
    with pytest.raises(ValueError, match=r"'decoder.0.bias' and \d more tensors, which a vit"):
        headway.load(tmp_path)


def test_what_their_layout_cannot_say_is_kept_in_ours(tmp_path: Path) -> None:
    """A ViT whose patches look at their neighbours: refused in ViT's layout, saved in headway's."""
    from headway.config import Local
    from headway.presets.vision import vit
    from tests.fresh import fresh

    local = Local(window=2, grid=(5, 5), global_tokens=True)
    config = vit(width=22, heads=2, layers=2, image=35, patch=7, classes=3, mechanism=local)
    with pytest.raises(ValueError, match="save it with layout='headway'"):
        headway.save(fresh(config), tmp_path / "vit")
    model = fresh(config.model_copy(update={"family": "headway"}))
    headway.save(model, tmp_path / "own")
    again = headway.load(tmp_path / "own").model
    assert again.config == model.config
    images = images_for(model)
    assert torch.equal(again(images), model(images))
