"""ViT and DaViT for small images: sizes that follow, sizes that are said, and what is saved of them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import headway
from headway.app.classify import Classifier
from headway.config.train import ModelChoice
from headway.config.vision import Images
from headway.presets.sized import small_davit, small_vit
from headway.presets.vision import davit
from tests.fresh import fresh

IMAGES = Images(mean=(0.30441906,), std=(0.375497,))


@pytest.mark.parametrize(("image", "grid"), [(8, (4, 4)), (28, (7, 7)), ((28, 56), (7, 14)), (5, (5, 5)), (1, (1, 1))])
def test_patches_of_small_images(image: Any, grid: tuple[int, int]) -> None:
    config = small_vit(ModelChoice(), image=image, channels=1, classes=10)
    assert config.grid == grid and config.family == "headway"


@pytest.mark.parametrize(("image", "grids"), [
    (8, ((8, 8), (4, 4))),
    (28, ((14, 14), (7, 7))),
    ((9, 30), ((5, 15), (3, 8))),
])  # fmt: skip
def test_a_small_davit_has_several_windows_and_groups(image: Any, grids: Any) -> None:
    config = small_davit(ModelChoice(), image=image, channels=1, classes=10)
    assert config.grids == grids
    assert all(side < rows for side, rows in zip(config.window, config.grids[0], strict=True))  # type: ignore[arg-type]
    assert min(config.heads) > 1


def test_what_is_said_is_what_there_is() -> None:
    choice = ModelChoice(layers=3, width=22, heads=11, hidden=31, patch=4, dropout=0.1)
    config = small_vit(choice, image=28, channels=3, classes=2, labels=("a", "b"), images=IMAGES)
    block = config.stack.block
    assert block.feedforward is not None
    said = (config.stack.layers, block.width, block.attention.heads, block.feedforward.hidden, config.patch)
    assert (*said, block.dropout, config.labels, config.images) == (3, 22, 11, 31, 4, 0.1, ("a", "b"), IMAGES)
    choice = ModelChoice(depths=(2, 1, 3), widths=(6, 10, 14), stage_heads=(3, 5, 7), window=5, dropout=0.2)
    config = small_davit(choice, image=28, channels=3, classes=2, images=IMAGES)
    said = (config.depths, config.widths, config.heads, config.window, config.dropout, config.images)
    assert said == ((2, 1, 3), (6, 10, 14), (3, 5, 7), 5, 0.2, IMAGES)
    assert small_davit(ModelChoice(depths=(1, 1, 1), width=20), image=8, channels=1, classes=2).widths == (20, 40, 80)


@pytest.mark.parametrize(("make", "choice", "sentence"), [
    (small_vit, ModelChoice(depths=(1, 1)), r"a ViT has no depths=\(1, 1\): its sizes are layers, width"),
    (small_vit, ModelChoice(window=3), "window is an option of local or spatial attention"),
    (small_davit, ModelChoice(layers=3), "a DaViT has no layers=3: its sizes are depths, widths"),
    (small_davit, ModelChoice(stage_heads=(3, 4)), "width 32 is not divisible by heads 3"),
])  # fmt: skip
def test_sizes_of_the_other_are_refused(make: Any, choice: ModelChoice, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make(choice, image=8, channels=1, classes=10)


@pytest.mark.parametrize("make", [small_vit, small_davit])
def test_a_saved_model_sees_a_picture_as_before(make: Any, tmp_path: Path) -> None:
    """Everything about pictures survives; a PNG then gives the logits of its pixels."""
    labels = ("bag", "hat", "shoe")
    config = make(ModelChoice(dropout=0.1), image=(8, 11), channels=1, classes=3, labels=labels, images=IMAGES)
    model = fresh(config, dtype=torch.float32, std=0.3).eval()
    headway.save(model, tmp_path / "model")
    loaded = headway.load(tmp_path / "model")
    assert loaded.model.config == config
    pixels = np.random.default_rng(1).integers(0, 256, (8, 11), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "x.png")
    classifier = Classifier.of(loaded)
    ((_, classes),) = classifier.run(classifier.items([tmp_path / "x.png"]), batch=2, progress=print)
    x = torch.from_numpy((pixels / 255 - IMAGES.mean[0]) / IMAGES.std[0]).float()[None, None]
    with torch.no_grad():
        right = model(x)[0].softmax(-1)
    assert dict(classes) == pytest.approx({label: float(value) for label, value in zip(labels, right, strict=True)})


@pytest.mark.parametrize(("changes", "sentence"), [
    (dict(stem=3, stride=1), "the layout of davit has no word for stem=3"),
    (dict(stride=2), "no word for stride=2: a directory in it would be another model; save it with layout='headway'"),
    (dict(dropout=0.1), "no word for dropout=0.1"),
])  # fmt: skip
def test_timms_layout_refuses_what_it_cannot_say(changes: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    config = davit(depths=(1, 1), widths=(6, 10), heads=(3, 5), image=32, classes=2, **changes)
    with pytest.raises(ValueError, match=sentence):
        headway.save(fresh(config), tmp_path / "model")
    assert not (tmp_path / "model").exists()
