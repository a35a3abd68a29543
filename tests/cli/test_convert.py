"""`headway convert`: exact where it can be, whole or not at all, and nothing of others is deleted."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer as Engine
from tokenizers.models import WordLevel

import headway
from headway.cli import main
from headway.config.recurrent import RecurrentConfig
from headway.config.sentence import DenseConfig, SentenceConfig
from headway.data.tokenizer import Tokenizer
from headway.models import fresh
from headway.models.recurrent import Recurrent
from headway.presets.bert import bert

CONFIG = RecurrentConfig(source_vocabulary=7, vocabulary=11, width=3, hidden=5)


def saved(path: Path, *, dtype: torch.dtype = torch.float32, seed: int = 0) -> Recurrent:
    model = fresh(CONFIG, seed=seed, dtype=dtype)
    headway.save(model, path, tokenizer=Tokenizer(Engine(WordLevel({"a": 0, "b": 1}, unk_token="a"))))
    return model


def tensors(path: Path) -> dict[str, torch.Tensor]:
    return load_file(path / "model.safetensors")


def convert(*arguments: str | Path) -> int:
    return main(["convert", *map(str, arguments)])


@pytest.mark.parametrize("before", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_without_a_dtype_nothing_changes(before: torch.dtype, tmp_path: Path) -> None:
    saved(tmp_path / "a", dtype=before)
    assert convert(tmp_path / "a", tmp_path / "b") == 0
    first, second = tensors(tmp_path / "a"), tensors(tmp_path / "b")
    assert first.keys() == second.keys()
    assert all(first[name].dtype == second[name].dtype == before for name in first)
    assert all(torch.equal(first[name], second[name]) for name in first)
    assert {path.name for path in (tmp_path / "b").iterdir()} == {path.name for path in (tmp_path / "a").iterdir()}


@pytest.mark.parametrize("after", ["bfloat16", "float16", "float64"])
def test_between_dtypes(after: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = saved(tmp_path / "a")
    assert convert(tmp_path / "a", tmp_path / "b", "--dtype", after) == 0
    found = tensors(tmp_path / "b")
    for name, parameter in model.named_parameters():
        assert torch.equal(found[name], parameter.to(getattr(torch, after)))
    said = capsys.readouterr()
    assert said.out == ""
    assert f"parameters in {after}; tensors: 20 expected, 20 found" in said.err
    assert f"{tmp_path / 'b'}: written in {after}" in said.err
    loaded = headway.load(tmp_path / "b")
    assert loaded.model.config == CONFIG
    assert loaded.tokenizer is not None and loaded.tokenizer.encode("b") == [1]


def test_a_sentence_encoder_keeps_its_steps(tmp_path: Path) -> None:
    encoder = bert(width=6, heads=2, layers=2, hidden=7, vocabulary=19, length=13, types=3)
    model = fresh(SentenceConfig(encoder=encoder, limit=11, dense=DenseConfig(width=5)))
    headway.save(model, tmp_path / "a")
    assert convert(tmp_path / "a", tmp_path / "b", "--dtype", "float64") == 0
    found = headway.load(tmp_path / "b").model
    assert found.config == headway.load(tmp_path / "a").model.config
    assert torch.equal(found.dense.weight, model.dense.weight.double())
    assert convert(tmp_path / "a", tmp_path / "b", "--overwrite") == 0


def refused(sentence: str, *arguments: str | Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert convert(*arguments) == 2
    said = capsys.readouterr()
    assert said.out == "" and sentence in said.err.splitlines()[-1]


def test_what_stands_there_is_not_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "a", seed=1)
    old = saved(tmp_path / "b", seed=2)
    refused("b is not empty: choose another place, or add --overwrite", tmp_path / "a", tmp_path / "b", capsys=capsys)
    assert torch.equal(tensors(tmp_path / "b")["head.weight"], old.head.weight)
    assert convert(tmp_path / "a", tmp_path / "b", "--overwrite") == 0
    assert torch.equal(tensors(tmp_path / "b")["head.weight"], tensors(tmp_path / "a")["head.weight"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]


def test_an_empty_directory_is_free(tmp_path: Path) -> None:
    saved(tmp_path / "a")
    (tmp_path / "b").mkdir()
    assert convert(tmp_path / "a", tmp_path / "b") == 0


def test_onto_itself(tmp_path: Path) -> None:
    model = saved(tmp_path / "a")
    assert convert(tmp_path / "a", tmp_path / "a", "--overwrite", "--dtype", "bfloat16") == 0
    assert torch.equal(tensors(tmp_path / "a")["head.weight"], model.head.weight.bfloat16())


def test_what_is_no_model_is_never_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "home" / "a")
    (tmp_path / "home" / "letters.txt").write_text("dear")
    source, home = tmp_path / "home" / "a", tmp_path / "home"
    refused("home is not empty and holds no model: --overwrite", source, home, "--overwrite", capsys=capsys)
    (home / "config.json").touch()
    refused("and would be lost with it", source, home, "--overwrite", capsys=capsys)
    refused("letters.txt is a file", source, home / "letters.txt", "--overwrite", capsys=capsys)
    assert (home / "letters.txt").read_text() == "dear" and (source / "model.safetensors").exists()


def test_nothing_half_written_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saved(tmp_path / "a", seed=1)
    old = saved(tmp_path / "b", seed=2)

    def fail(self: Tokenizer, path: Path) -> None:
        assert list(Path(path).glob("*.safetensors"))  # the weights are written by now
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Tokenizer, "save", fail)
    for place in ("b", "new"):
        with pytest.raises(OSError, match="No space"):
            convert(tmp_path / "a", tmp_path / place, "--overwrite")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b"]
    assert torch.equal(tensors(tmp_path / "b")["head.weight"], old.head.weight)


def test_numbers_that_do_not_fit_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = fresh(CONFIG)
    with torch.no_grad():
        model.head.weight[0, 0] = 70000.0
    headway.save(model, tmp_path / "a")
    refused(
        "'head.weight' is not finite in float16", tmp_path / "a", tmp_path / "b", "--dtype", "float16", capsys=capsys
    )
    assert not (tmp_path / "b").exists()
    assert convert(tmp_path / "a", tmp_path / "b", "--dtype", "bfloat16") == 0


def test_mistakes_are_one_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    refused("'gpt2' is a preset: sizes without weights", "gpt2", tmp_path / "b", capsys=capsys)
    refused("does not exist: a model is a directory", tmp_path / "no", tmp_path / "b", capsys=capsys)
    saved(tmp_path / "a")
    refused("int8", tmp_path / "a", tmp_path / "b", "--dtype", "int8", capsys=capsys)
    file = tmp_path / "a" / "model.safetensors"
    file.write_bytes(file.read_bytes()[:-7])
    refused("is not a whole safetensors file", tmp_path / "a", tmp_path / "b", capsys=capsys)
    assert not (tmp_path / "b").exists()
