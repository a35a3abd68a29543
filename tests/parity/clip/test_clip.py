"""CLIP and SigLIP beside transformers in float64: both towers, their logits, padding, and the way back."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import CLIPConfig, CLIPModel, SiglipConfig, SiglipModel

import headway
from headway.hub.parts import parts_of
from headway.models.clip import Clip
from tests.parity.compare import close, far, outputs_of, ragged, shake

TEXT = dict(hidden_size=22, num_attention_heads=2, num_hidden_layers=3, intermediate_size=13, vocab_size=53,
            max_position_embeddings=17, bos_token_id=51, eos_token_id=52, pad_token_id=1)  # fmt: skip
IMAGE = dict(hidden_size=21, num_attention_heads=3, num_hidden_layers=2, intermediate_size=19, image_size=35,
             patch_size=7)  # fmt: skip
KINDS = {
    "clip": lambda: CLIPModel(CLIPConfig(text_config=TEXT, vision_config=IMAGE, projection_dim=11)),
    # What the first releases say of the end of a text.
    "clip-first": lambda: CLIPModel(
        CLIPConfig(text_config=TEXT | {"eos_token_id": 2}, vision_config=IMAGE, projection_dim=11)
    ),
    "siglip": lambda: SiglipModel(
        SiglipConfig(text_config=TEXT | {"projection_size": 21}, vision_config=IMAGE | {"patch_size": 5})
    ),
}
LENGTHS = [7, 13, 2]


def theirs(kind: str, path: Path) -> Any:
    torch.manual_seed(1)
    model = KINDS[kind]().double().eval()
    shake(model)
    model.save_pretrained(path)
    return model


@pytest.fixture(scope="module", params=KINDS)
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Clip]:
    path = tmp_path_factory.mktemp("theirs")
    return theirs(request.param, path), headway.load(path).model


def images_for(model: Clip, count: int = 2) -> Tensor:
    side = model.config.vision.image
    return torch.randn(count, 3, side, side).double()


def texts_for(model: Clip, *, side: str = "right") -> tuple[list[Tensor], Tensor, Tensor]:
    """Texts that end with the token that ends them, its number the highest, and nowhere else."""
    texts, tokens, keep = ragged(51, LENGTHS, side=side)
    for row, text in enumerate(texts):
        text[-1] = 52
        tokens[row, keep[row]] = text
    return texts, tokens, keep


def unit(found: Any) -> Tensor:
    return torch.nn.functional.normalize(found.pooler_output, dim=-1)


@torch.no_grad()
def test_both_towers_and_their_logits(pair: tuple[Any, Clip]) -> None:
    other, model = pair
    images = images_for(model)
    for text in texts_for(model)[0]:
        found = outputs_of([*model.stack.blocks, *model.vision.stack.blocks], partial(model.text_vectors, text[None]))
        expected = outputs_of(other.text_model.encoder.layers, partial(other.text_model, text[None]))
        assert len(found) == len(expected) == 3
        assert all(close(one, hidden, tolerance=1e-12) for one, hidden in zip(found, expected, strict=True))
        assert close(model.text_vectors(text[None]), unit(other.get_text_features(text[None])), tolerance=1e-12)
        whole = other(input_ids=text[None], pixel_values=images)
        assert close(model(images, text[None]), whole.logits_per_image, tolerance=1e-12)
    found = outputs_of(model.vision.stack.blocks, lambda: model.image_vectors(images))
    expected = outputs_of(other.vision_model.encoder.layers, lambda: other.vision_model(images))
    assert len(found) == 2 and all(close(a, b, tolerance=1e-12) for a, b in zip(found, expected, strict=True))
    assert close(model.image_vectors(images), unit(other.get_image_features(images)), tolerance=1e-12)


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right"])
def test_padding_changes_nothing(pair: tuple[Any, Clip], side: str) -> None:
    other, model = pair
    texts, tokens, keep = texts_for(model, side=side)
    found = model.text_vectors(tokens, keep=keep)
    for row, text in enumerate(texts):
        assert close(found[row], unit(other.get_text_features(text[None]))[0], tolerance=1e-12)


@torch.no_grad()
def test_padding_that_is_read(pair: tuple[Any, Clip]) -> None:
    """As their tokenizers fill texts up: CLIP with the end token itself, SigLIP with padding that the model reads."""
    other, model = pair
    texts, _, _ = texts_for(model)
    siglip = model.config.family == "siglip"
    filled = torch.full((3, 17), 1 if siglip else 52)
    for row, text in enumerate(texts):
        filled[row, : len(text)] = text
    expected = unit(other.get_text_features(filled))
    assert close(model.encode([text.tolist() for text in texts]), expected, tolerance=1e-12)
    assert close(model.text_vectors(filled), expected, tolerance=1e-12)
    cut = model.encode([[*range(3, 30), 52]])
    assert close(cut, unit(other.get_text_features(torch.tensor([[*range(3, 19), 52]]))), tolerance=1e-12)


@torch.no_grad()
def test_the_loss_is_theirs(pair: tuple[Any, Clip]) -> None:
    other, model = pair
    images, tokens = images_for(model, 3), texts_for(model)[0][1][None].repeat(3, 1)
    tokens[:, 3] = torch.tensor([5, 7, 11])
    expected = other(input_ids=tokens, pixel_values=images, return_loss=True).loss
    assert torch.allclose(model.loss(images, tokens), expected, rtol=1e-12)


@torch.no_grad()
def test_what_is_saved_loads_there(pair: tuple[Any, Clip], tmp_path: Path) -> None:
    other, model = pair
    headway.save(model, tmp_path / "ours")
    again, report = type(other).from_pretrained(tmp_path / "ours", output_loading_info=True, dtype="auto")
    assert not report["missing_keys"] and not report["unexpected_keys"] and not report["mismatched_keys"]
    images, text = images_for(model), texts_for(model)[0][1][None]
    one, two = (which.eval()(input_ids=text, pixel_values=images).logits_per_image for which in (again, other))
    assert close(one, two, tolerance=1e-13)
    back = headway.load(tmp_path / "ours").model
    assert back.config.replace("vision", images=model.config.vision.images) == model.config
    assert torch.equal(back(images, text), model(images, text))


@torch.no_grad()
def test_a_changed_weight_is_seen(pair: tuple[Any, Clip]) -> None:
    other, model = pair
    images, text = images_for(model), texts_for(model)[0][1][None]
    expected = other(input_ids=text, pixel_values=images).logits_per_image
    names = ["tokens.weight", "positions.weight", "logit_scale", "vision.positions", "stack.norm.bias",
             "text_projection.weight", "vision.stack.norm.weight", "vision.stack.blocks.1.attention.key.weight",
             ]  # fmt: skip
    if model.config.family == "siglip":
        names += ["logit_bias", "vision.pool.probe", "vision.pool.attention.value.weight", "vision.pool.norm.bias"]
    else:
        names += ["vision.class_token", "vision.norm.weight", "image_projection.weight"]
    for name in names:
        part = parts_of(model)[name]
        kept = part.clone()
        part.flatten()[:] += torch.linspace(0.05, 0.2, part.numel())
        assert far(model(images, text), expected) > 1e-6, name
        part.copy_(kept)
    assert close(model(images, text), expected, tolerance=1e-12)


def test_a_second_section_counts(tmp_path: Path) -> None:
    """Files of CLIP's first releases say both towers twice."""
    theirs("clip", tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["text_config_dict"] = {"layer_norm_eps": 1e-3}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert headway.load(tmp_path).model.config.stack.block.eps == 1e-3


@pytest.mark.parametrize(("kind", "place", "values", "sentence"), [
    ("clip", "text_config", {"hidden_act": "mish"}, "headway has no activation 'mish'"),
    ("clip", None, {"architectures": ["CLIPVisionModel"]}, "does not read a CLIPVisionModel"),
    ("clip", None, {"projection_dim": 13}, "projection.weight"),
    ("clip", None, {"text_config": [1]}, "it is an object"),
    ("siglip", "vision_config", {"vision_use_head": False}, "vision_use_head=False"),
    ("siglip", "text_config", {"projection_size": 19}, "the image's vector has 21 numbers, and the text's 19"),
    ("siglip", "text_config", {"max_position_embeddings": 19}, "position_embedding.weight"),
])  # fmt: skip
def test_what_cannot_be_honoured_is_refused(
    kind: str, place: str | None, values: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    theirs(kind, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    said = config | values if place is None else config | {place: config[place] | values}
    (tmp_path / "config.json").write_text(json.dumps(said))
    with pytest.raises(ValueError, match=sentence):
        headway.load(tmp_path)
