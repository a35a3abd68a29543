"""Pictures from files: as transformers' processors read them, and what is refused."""

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from transformers.models.deit.image_processing_pil_deit import DeiTImageProcessorPil
from transformers.models.vit.image_processing_pil_vit import ViTImageProcessorPil

from headway.config.vision import Images
from headway.data.image import read_image
from headway.presets.vision import davit, vit


def config_of(images: Images, *, image: Any = (17, 23), channels: int = 3) -> Any:
    return vit(width=6, heads=2, layers=1, image=image, patch=2, channels=channels, images=images)


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    """Something with edges, 41 rows of 59 pixels."""
    pixels = np.random.default_rng(0).integers(0, 256, (41, 59, 3), dtype=np.uint8)
    pixels[10:20, 30:] //= 4
    Image.fromarray(pixels).save(tmp_path / "picture.png")
    return tmp_path / "picture.png"


RESAMPLES = list(enumerate(["nearest", "lanczos", "bilinear", "bicubic", "box", "hamming"]))


@pytest.mark.parametrize(("number", "resample"), RESAMPLES)
def test_resized_and_normalised_as_vit_does(number: int, resample: Any, picture: Path) -> None:
    mean, std = [0.1, 0.2, 0.3], [0.4, 0.5, 0.7]
    theirs = ViTImageProcessorPil(
        size={"height": 17, "width": 23}, resample=number, image_mean=mean, image_std=std, rescale_factor=0.011
    )
    expected = theirs(Image.open(picture), return_tensors="pt")["pixel_values"][0]
    images = Images(resize=(17, 23), resample=resample, scale=0.011, mean=tuple(mean), std=tuple(std))
    found = read_image(picture, config_of(images))
    assert found.dtype == torch.float32 and found.shape == (3, 17, 23)
    torch.testing.assert_close(found, expected, rtol=0, atol=3e-6)


def test_cut_out_as_deit_does(picture: Path) -> None:
    theirs = DeiTImageProcessorPil(size={"height": 24, "width": 37}, crop_size={"height": 17, "width": 23})
    expected = theirs(Image.open(picture), return_tensors="pt")["pixel_values"][0]
    images = Images(resize=(24, 37), crop=(17, 23), resample="bicubic")
    torch.testing.assert_close(read_image(picture, config_of(images)), expected, rtol=0, atol=3e-6)


@pytest.mark.parametrize(("rows", "columns", "size"), [(41, 59, (29, 41)), (59, 41, (41, 29)), (41, 41, (29, 29))])
def test_a_shorter_side_keeps_the_shape(rows: int, columns: int, size: tuple[int, int], tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (rows, columns, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(tmp_path / "a.png")
    whole = np.asarray(Image.fromarray(pixels).resize(size[::-1], Image.Resampling.BICUBIC), dtype=np.float64)
    top, left = (size[0] - 23) // 2, (size[1] - 23) // 2
    right = whole[top : top + 23, left : left + 23].transpose(2, 0, 1) / 127.5 - 1
    images = Images(resize=29, crop=(23, 23), resample="bicubic")
    found = read_image(tmp_path / "a.png", config_of(images, image=23))
    torch.testing.assert_close(found, torch.from_numpy(right).float(), rtol=0, atol=1e-6)


def test_by_default_a_picture_is_brought_to_the_size_that_the_model_reads(picture: Path) -> None:
    found = read_image(picture, config_of(Images()))
    assert found.shape == (3, 17, 23)
    assert torch.equal(found, read_image(picture, config_of(Images(resize=(17, 23)))))
    assert read_image(picture, davit(depths=(1,), widths=(6,), heads=(2,), image=31)).shape == (3, 31, 31)


def test_the_values_by_hand(tmp_path: Path) -> None:
    Image.fromarray(np.array([[[255, 0, 51]]], dtype=np.uint8)).save(tmp_path / "dot.png")
    config = vit(width=6, heads=2, layers=1, image=1, patch=1, images=Images(mean=(0.5, 0.25, 0.2), std=(0.5, 0.5, 1)))
    torch.testing.assert_close(read_image(tmp_path / "dot.png", config).flatten(), torch.tensor([1.0, -0.5, 0.0]))


@pytest.mark.parametrize("mode", ["L", "RGBA", "P", "CMYK", "1"])
def test_any_kind_of_picture_has_the_channels_that_the_model_reads(mode: str, picture: Path, tmp_path: Path) -> None:
    kind = "tif" if mode == "CMYK" else "png"
    Image.open(picture).convert(mode).save(tmp_path / f"other.{kind}")
    for channels in (1, 3):
        assert read_image(tmp_path / f"other.{kind}", config_of(Images(), channels=channels)).shape[0] == channels


def test_a_picture_is_turned_as_its_camera_was_held(tmp_path: Path) -> None:
    upright = Image.fromarray(np.arange(6, dtype=np.uint8).reshape(2, 3) * 40)
    exif = Image.Exif()
    exif[0x0112] = 6  # the right side of the picture is its top
    upright.rotate(90, expand=True).save(tmp_path / "held.png", exif=exif)
    config = vit(
        width=6, heads=2, layers=1, image=(2, 3), patch=1, channels=1, images=Images(scale=1, mean=(0,), std=(1,))
    )
    assert read_image(tmp_path / "held.png", config)[0].int().tolist() == [[0, 40, 80], [120, 160, 200]]


def test_what_is_no_picture_is_refused(tmp_path: Path, picture: Path) -> None:
    config = config_of(Images())
    (tmp_path / "text.png").write_text("no picture")
    with pytest.raises(ValueError, match=r"text\.png cannot be read as a picture"):
        read_image(tmp_path / "text.png", config)
    (tmp_path / "half.png").write_bytes(picture.read_bytes()[:900])
    with pytest.raises(ValueError, match=r"half\.png cannot be read as a picture"):
        read_image(tmp_path / "half.png", config)
    with pytest.raises(ValueError, match=r"missing\.png: no such file"):
        read_image(tmp_path / "missing.png", config)
    with pytest.raises(ValueError, match="is a directory"):
        read_image(tmp_path, config)


def test_numbers_that_do_not_fit_are_refused(picture: Path) -> None:
    with pytest.raises(ValueError, match=r"became 12 x 23, and the model reads 17 x 23"):
        read_image(picture, config_of(Images(resize=(12, 23))))
    with pytest.raises(ValueError, match=r"images of 3 channels have one std or 3, not \(1.0, 2.0\)"):
        read_image(picture, config_of(Images(std=(1, 2))))
    with pytest.raises(ValueError, match="pictures have 1, 3, 4 channels, and this model reads 2"):
        read_image(picture, config_of(Images(), channels=2))
    with pytest.raises(ValueError, match=r"divided by std, and one of \(1.0, 0.0\) is 0"):
        Images(std=(1, 0))


def test_without_pillow_the_way_out_is_said(picture: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL.Image", None)
    with pytest.raises(ValueError, match=r'pip install "headway\[vision\]"'):
        read_image(picture, config_of(Images()))
