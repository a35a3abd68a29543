"""`headway embed` of pictures and texts: by CLIP into one space, by models of images into their own."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch

import headway
from headway.cli import main
from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Special, StackConfig
from headway.config.clip import ClipConfig
from headway.data.image import read_image
from headway.data.tokenizer import Tokenizer
from headway.presets.vision import davit, vit
from tests.cli.test_embed import WORDS, run, write
from tests.fresh import fresh

Image = pytest.importorskip("PIL.Image")
TEXTS = ["the rain falls on the stone.", "river", "a stone runs over the river over the river over the river."]


@pytest.fixture(scope="module")
def clip(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("models")
    words = place / "words"
    words.mkdir()
    (words / "vocab.txt").write_text("\n".join(WORDS))
    (words / "tokenizer_config.json").write_text('{"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"}')
    attention = AttentionConfig(width=14, heads=2, causal=True, bias=True, output_bias=True)
    block = BlockConfig(attention=attention, feedforward=FeedForwardConfig(hidden=19))
    vision = vit(width=15, heads=3, layers=2, hidden=17, image=21, patch=7, family="headway", eps=1e-5)
    config = ClipConfig(
        family="clip", vision=vision.replace(patch_bias=False, embedding_norm=True), vocabulary=len(WORDS), length=11,
        stack=StackConfig(block=block, layers=2, final_norm=True), width=13, special=Special(end=(3,), pad=0, begin=2),
    )  # fmt: skip
    headway.save(fresh(config, std=0.5), place / "clip", tokenizer=Tokenizer.read(words))
    return place / "clip"


@pytest.fixture(scope="module")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place, draw = tmp_path_factory.mktemp("pictures"), np.random.default_rng(0)
    found = [place / f"{name}.png" for name in "abc"]
    for path in found:
        Image.fromarray(draw.integers(0, 256, (23, 29, 3), dtype=np.uint8)).save(path)
    return found


@pytest.fixture
def paths(pictures: list[Path], tmp_path: Path) -> Path:
    file = tmp_path / "paths.txt"
    file.write_text("\n".join(map(str, pictures)))
    return file


@torch.no_grad()
def test_pictures_and_texts_lie_in_one_space(clip: Path, pictures: list[Path], paths: Path, tmp_path: Path) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    assert run(clip, paths, "--images", "-o", tmp_path / "pictures.npy") == 0
    assert run(clip, tmp_path / "texts.txt", "-o", tmp_path / "texts.npy") == 0
    seen, read = np.load(tmp_path / "pictures.npy"), np.load(tmp_path / "texts.npy")
    assert seen.shape == (3, 13) and read.shape == (3, 13)
    np.testing.assert_allclose(np.linalg.norm(seen, axis=1), 1, rtol=1e-6)
    model, tokenizer, _ = headway.load(clip)
    images = torch.stack([read_image(path, model.config.vision) for path in pictures])
    for column, text in enumerate(TEXTS):
        tokens = tokenizer.encode(text)
        tokens = tokens if len(tokens) <= 11 else [*tokens[:10], tokens[-1]]
        logits = model(images, torch.tensor([tokens]))[:, 0]
        np.testing.assert_allclose(seen @ read[column] * model.logit_scale.exp().item(), logits.numpy(), atol=1e-5)
    by_name = headway.embed(model, pictures)
    np.testing.assert_allclose(by_name.numpy(), seen, atol=1e-6)
    assert torch.equal(headway.embed(model, pictures[1]), headway.embed(model, [pictures[1]])[0])
    np.testing.assert_allclose(headway.embed(clip, TEXTS[1]).numpy(), read[1], atol=1e-6)
    assert torch.allclose(model.encode(TEXTS), torch.from_numpy(read), atol=1e-6)


def test_what_was_cut_is_said(clip: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "texts.txt").write_text("\n".join(TEXTS))
    assert run(clip, tmp_path / "texts.txt", "-o", tmp_path / "texts.jsonl", "--json") == 0
    shown = capsys.readouterr()
    assert json.loads(shown.out)["cut"] == 1 and "cut to 11 tokens" in shown.err


@torch.no_grad()
@pytest.mark.parametrize("config", [
    vit(width=15, heads=3, layers=2, image=21, patch=7, classes=5),
    davit(depths=(1, 1), widths=(8, 12), heads=(2, 3), image=32, classes=5),
], ids=["vit", "davit"])  # fmt: skip
def test_a_model_of_images_needs_no_option(config, paths: Path, pictures: list[Path], tmp_path: Path) -> None:
    headway.save(fresh(config, std=0.3), tmp_path / "model")
    assert run(tmp_path / "model", paths, "-o", tmp_path / "out.npy") == 0
    model = headway.load(tmp_path / "model").model
    images = torch.stack([read_image(path, model.config) for path in pictures])
    expected = model.vector(model.hidden_states(images))
    np.testing.assert_allclose(np.load(tmp_path / "out.npy"), expected.numpy(), atol=1e-6)


def test_what_cannot_be_is_refused(clip: Path, pictures: list[Path], paths: Path, tmp_path: Path, capsys) -> None:
    text = write(tmp_path / "tiny")
    assert run(text, paths, "--images") == 2
    assert "holds a sentence model, which reads no pictures; vision, clip, davit do" in capsys.readouterr().err
    paths.write_text(f"{pictures[0]}\n\n{pictures[1]}")
    assert run(clip, paths, "--images") == 2
    assert "a line is empty" in capsys.readouterr().err
    with pytest.raises(ValueError, match="one kind at a time"):
        headway.embed(clip, [pictures[0], "a text"])  # type: ignore[list-item]


def test_look_at_either_tower(clip: Path, pictures: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["look", str(clip), "the river", "--json"]) == 0
    assert "river" in capsys.readouterr().out
    assert main(["look", str(clip), "--image", str(pictures[0]), "--json"]) == 0
    assert "3,3" in capsys.readouterr().out
