"""ViT's, DeiT's and DaViT's published sizes: parameters counted without allocating them."""

import pytest

from headway.config.vision import DaViTConfig, VisionConfig
from headway.models import count
from headway.presets import preset
from headway.presets.vision import PRESETS, vit

# With a classifier of 1,000 classes, as model cards and libraries count; Florence-2's towers have none.
PUBLISHED = {
    "vit-ti16": 5_717_416,
    "vit-s16": 22_050_664,
    "vit-b16": 86_567_656,
    "vit-b32": 88_224_232,
    "vit-l16": 304_326_632,
    "vit-l32": 306_535_400,
    "vit-h14": 632_045_800,
    "deit-tiny": 5_717_416,
    "deit-small": 22_050_664,
    "deit-base": 86_567_656,
    "deit-tiny-distilled": 5_910_800,
    "deit-small-distilled": 22_436_432,
    "deit-base-distilled": 87_338_192,
    "davit-tiny": 28_360_168,
    "davit-small": 49_745_896,
    "davit-base": 87_954_408,
    "davit-large": 196_811_752,
    "davit-huge": 348_922_856,
    "davit-giant": 1_406_470_120,
    "davit-base-fl": 90_370_048,
    "davit-huge-fl": 360_636_416,
}


def test_every_preset_has_its_published_count() -> None:
    assert {name: count(make()) for name, make in PRESETS.items()} == PUBLISHED


def test_the_bare_model_with_its_pooler() -> None:
    """As of ImageNet-21k: 86,389,248 parameters."""
    assert count(vit(width=768, heads=12, layers=12, pooler=True)) == 86_389_248


def test_the_count_is_the_sum_of_its_parts() -> None:
    """C P² D + D, the tokens' D, L D; per layer 4 (D² + D) + 2 D F + F + D + 4 D; the last norm 2 D; the heads."""
    d, f, n, p, c, classes = 22, 31, 5, 3, 1, 7
    length = 2 + 5 * 5
    whole = c * p * p * d + d + 2 * d + length * d + n * (4 * (d * d + d) + 2 * d * f + f + d + 4 * d) + 2 * d
    whole += 2 * (d * classes + classes)
    config = vit(
        width=d, heads=2, layers=n, hidden=f, image=5 * p + 1, patch=p, channels=c, classes=classes, distilled=True,
        teacher=True, family="deit",
    )  # fmt: skip
    assert count(config) == whole


def test_names_are_found_in_any_spelling() -> None:
    assert preset("ViT_B16") == preset("vit-b16")
    with pytest.raises(ValueError, match="did you mean davit-tiny"):
        preset("davit-tinny")


def test_pictures_come_out_in_the_size_that_the_model_reads() -> None:
    for name, make in PRESETS.items():
        config = make()
        assert isinstance(config, VisionConfig | DaViTConfig)
        size = (config.image, config.image)
        assert config.images.crop in (None, size), name
        assert config.images.resize is None or config.images.crop == size, name
