"""Pictures as examples: the numbers that `read_image` gives, and augmentations drawn from each example's own key."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from headway.config.train import ModelChoice
from headway.config.vision import Images
from headway.data.image import read_image
from headway.data.image_dataset import ImageArray, ImageDataset, ImageExamples, drawn, flipped, shifted
from headway.presets.sized import small_vit

DRAW = np.random.default_rng(5)


def album_of(pixels: np.ndarray) -> ImageDataset:
    label = np.arange(len(pixels)) % 3
    return ImageDataset((ImageArray("here", pixels, label, 1 / 255),), label, ("a", "b", "c"), np.arange(len(pixels)))


@pytest.mark.parametrize("images", [
    Images(mean=(0.3, 0.2, 0.1), std=(0.4, 0.5, 0.6)),
    Images(scale=1 / 127.5, mean=(1.0,), std=(2.0,)),
])  # fmt: skip
def test_an_example_is_what_the_saved_model_reads_from_a_png(images: Images, tmp_path: Path) -> None:
    pixels = DRAW.integers(0, 256, (7, 11, 13, 3), dtype=np.uint8)
    batch = ImageExamples(album_of(pixels), images).batch(np.array([4, 2]), np.array([0, 0]))
    assert batch.counts == {"loss": 2} and batch.inputs["label"].tolist() == [1, 2]
    config = small_vit(ModelChoice(), image=(11, 13), channels=3, classes=3, images=images)
    for row, found in zip((4, 2), batch.inputs["images"], strict=True):
        Image.fromarray(pixels[row]).save(tmp_path / "x.png")
        torch.testing.assert_close(found, read_image(tmp_path / "x.png", config), rtol=0, atol=2e-6)


def test_measured_images_have_mean_0_and_deviation_1() -> None:
    album = album_of(DRAW.integers(0, 99, (17, 5, 7, 3), dtype=np.uint8))
    x = ImageExamples(album, album.measure()).batch(np.arange(17), np.zeros(17, int)).inputs["images"].double()
    torch.testing.assert_close(x.mean((0, 2, 3)), torch.zeros(3).double(), rtol=0, atol=1e-6)
    torch.testing.assert_close(x.std((0, 2, 3), correction=0), torch.ones(3).double(), rtol=0, atol=1e-5)


# Augmentation


def test_a_shift_moves_a_picture_over_black_by_at_most_an_eighth() -> None:
    x = np.ones((500, 16, 8, 2), np.float32)
    x[:, 8, 4] = 5.0
    found = shifted(x, np.arange(500))
    rows, columns = np.argwhere(found[..., 0] == 5.0)[:, 1:].T
    assert (rows.min(), rows.max(), columns.min(), columns.max()) == (6, 10, 3, 5)
    for one, down, across in zip(found, rows - 8, columns - 4, strict=True):
        whole = np.zeros((16, 8), np.float32)
        whole[max(0, down) : 16 + min(0, down), max(0, across) : 8 + min(0, across)] = 1
        whole[8 + down, 4 + across] = 5
        assert np.array_equal(one, np.stack([whole] * 2, -1))
    assert len(set(zip(rows.tolist(), columns.tolist(), strict=True))) == 15


def test_a_flip_mirrors_about_half_of_them() -> None:
    x = DRAW.random((400, 3, 5, 2), dtype=np.float32)
    found = flipped(x, np.arange(400))
    turned = [np.array_equal(one, other[:, ::-1]) for one, other in zip(found, x, strict=True)]
    same = [np.array_equal(one, other) for one, other in zip(found, x, strict=True)]
    assert sum(turned) + sum(same) == 400 and 160 < sum(turned) < 240


@pytest.mark.parametrize("augment", ["shift", "flip", "flip-shift"])
def test_what_is_random_depends_on_the_key_alone(augment: str) -> None:
    album = album_of(DRAW.integers(0, 256, (23, 9, 10, 1), dtype=np.uint8))
    pictures = ImageExamples(album, Images(), augment=augment)
    rows, keys = DRAW.permutation(23), DRAW.integers(0, 2**63 - 1, 23)
    whole = pictures.batch(rows, keys).inputs["images"]
    for index in range(23):
        alone = pictures.batch(rows[index : index + 1], keys[index : index + 1]).inputs["images"]
        assert torch.equal(alone[0], whole[index])
    assert not torch.equal(pictures.batch(rows, keys + 1).inputs["images"], whole)
    plain = ImageExamples(album, Images())
    assert torch.equal(plain.batch(rows, keys).inputs["images"], plain.batch(rows, keys + 1).inputs["images"])


def test_draws_are_even_and_uses_do_not_agree() -> None:
    keys = np.arange(70_000)
    found = drawn(keys, 7, use=1)
    assert np.abs(np.bincount(found, minlength=7) - 10_000).max() < 400
    both = np.bincount(found * 7 + drawn(keys, 7, use=0), minlength=49)
    assert np.abs(both - 70_000 / 49).max() < 200


def test_what_is_refused() -> None:
    album = album_of(np.zeros((4, 2, 2, 3), np.uint8))
    with pytest.raises(ValueError, match="no augmentation 'turn'; there are none, shift"):
        ImageExamples(album, Images(), augment="turn")
    with pytest.raises(ValueError, match="images of 3 channels have one mean or 3"):
        ImageExamples(album, Images(mean=(0.1, 0.2)))
    with pytest.raises(ValueError, match="no pictures left: hold fewer"):
        ImageExamples(album.split(0.0)[1], Images())
