"""What becomes of a picture, as other libraries write it down: read, written, and carried by a saved model."""

from pathlib import Path
from typing import Any

import pytest
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

import headway
from headway.config.vision import Images
from headway.hub.families.image_processor import images_of, images_of_timm, images_to, images_to_timm
from headway.presets.vision import PRESETS, vit
from tests.fresh import fresh

HALF = (0.5, 0.5, 0.5)


@pytest.mark.parametrize(("said", "images"), [
    (None, Images()),
    ({}, Images()),
    ({"image_processor_type": "ViTImageProcessor"}, Images(resize=(224, 224))),
    ({"feature_extractor_type": "ViT", "size": 384, "image_mean": HALF}, Images(resize=(384, 384), mean=HALF)),
    ({"size": {"height": 5, "width": 7}, "resample": 0}, Images(resize=(5, 7), resample="nearest")),
    ({"feature_extractor_type": "DeiT"}, Images(resize=(256, 256), crop=(224, 224), resample="bicubic")),
    ({"size": {"shortest_edge": 11}, "do_center_crop": True, "crop_size": 7}, Images(resize=11, crop=(7, 7))),
    ({"do_resize": False, "do_normalize": False, "do_rescale": False}, Images(scale=1, mean=(0,), std=(1,))),
])  # fmt: skip
def test_preprocessor_config_is_read(said: dict[str, Any] | None, images: Images) -> None:
    assert images_of(said) == images


@pytest.mark.parametrize(("said", "sentence"), [
    ({"size": {"longest_edge": 5}}, "does not read a picture's size from"),
    ({"size": {"height": 5}}, "it reads height and width"),
    ({"resample": 9}, "does not resize pictures with 9, only with nearest"),
])  # fmt: skip
def test_what_it_cannot_mean_is_refused(said: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        images_of(said)


@pytest.mark.parametrize("images", [
    Images(),
    Images(resize=(5, 7), resample="lanczos", scale=0.5, mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6)),
    Images(resize=11, crop=(7, 7), resample="bicubic"),
])  # fmt: skip
def test_what_is_written_is_read_again_there_and_here(images: Images) -> None:
    written = images_to(images, (5, 7) if images.crop is None else 7, 3)
    again = images_of(written)
    assert again == images.model_copy(update={"resize": again.resize, "mean": again.mean, "std": again.std})
    assert again.resize == (images.resize or (5, 7))
    assert set(again.mean) == set(images.mean) and set(again.std) == set(images.std)
    theirs = (ViTImageProcessorPil if images.crop is None else DeiTImageProcessorPil)(**written)
    assert tuple(theirs.image_mean) == again.mean and theirs.resample == written["resample"]
    assert {name: value for name, value in dict(theirs.size).items() if value is not None} == written["size"]


@pytest.mark.parametrize(("said", "size", "images"), [
    ({"crop_pct": 0.95, "interpolation": "bicubic"}, (224, 224), dict(resize=235, crop=(224, 224), resample="bicubic")),
    ({}, (224, 224), dict(resize=256, crop=(224, 224))),
    ({"crop_pct": 1.0, "crop_mode": "squash", "mean": HALF}, (5, 7), dict(resize=(5, 7), crop=(5, 7), mean=HALF)),
])  # fmt: skip
def test_pretrained_cfg_is_read(said: dict[str, Any], size: tuple[int, int], images: dict[str, Any]) -> None:
    expected = Images(**{"mean": (0.485, 0.456, 0.406), "std": (0.229, 0.224, 0.225), **images})
    assert images_of_timm(said, size) == expected
    assert images_of_timm(images_to_timm(expected, size, 3), size) == expected


@pytest.mark.parametrize("mode", ["border", "center"])
def test_crops_of_timm_that_are_not_known(mode: str) -> None:
    with pytest.raises(ValueError, match=f"pictures of 5 x 7 with crop_mode='{mode}'"):
        images_of_timm({"crop_mode": mode}, (5, 7))


@pytest.mark.parametrize("resize", range(7, 40))
def test_rounding_gives_the_same_number_back(resize: int) -> None:
    written = images_to_timm(Images(resize=resize, crop=(7, 7)), (7, 7), 3)
    assert images_of_timm(written, (7, 7)).resize == resize


def test_timm_divides_by_255() -> None:
    with pytest.raises(ValueError, match=r"timm divides pixels by 255, and these are multiplied by 0.5"):
        images_to_timm(Images(scale=0.5), (7, 7), 3)


@pytest.mark.parametrize("family", ["vit", "headway"])
def test_a_saved_model_carries_it(family: str, tmp_path: Path) -> None:
    images = Images(resize=11, crop=(7, 7), resample="box", mean=(0.1, 0.2, 0.3), std=(0.4, 0.5, 0.6))
    config = vit(width=6, heads=2, layers=1, image=7, patch=3, classes=2, images=images, family=family)
    headway.save(fresh(config), tmp_path / "model")
    assert headway.load(tmp_path / "model").model.config.images == images


def test_published_sizes_of_davit_keep_their_pictures(tmp_path: Path) -> None:
    """235 pixels, of which 224 are read: 95 %, rounded down."""
    from headway.hub.families.davit import read, write

    for name in ("davit-tiny", "davit-base", "davit-base-fl"):
        config = PRESETS[name]()
        assert read(write(config), frozenset()) == config
