"""`headway convert`: exact where it can be, whole or not at all, and nothing of others is deleted."""

from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer as Engine
from tokenizers.models import WordLevel

import headway
from headway.cli import main
from headway.cli.convert import convert as verb
from headway.config.text import DenseConfig, RecurrentConfig, SentenceConfig
from headway.data.tokenizer import Tokenizer
from headway.models.recurrent import Recurrent
from headway.presets.bert import bert
from tests.fresh import fresh

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
    read, written, files = said.err.splitlines()
    assert "parameters in float32; tensors: 20 expected, 20 found" in read
    assert f"hash {headway.load(tmp_path / 'a').receipt.hash[:12]}" in read
    loaded = headway.load(tmp_path / "b")
    assert written == f"{tmp_path / 'b'}: written in {after}; hash {loaded.receipt.hash[:12]}"
    kept = "carried tokenizer.json, tokenizer_config.json; changed README.md, config.json"
    assert files == f"of the files of {tmp_path / 'a'}: {kept}"
    assert loaded.model.config == CONFIG
    assert loaded.tokenizer is not None and loaded.tokenizer.encode("b") == [1]


ENCODER = bert(width=6, heads=2, layers=2, hidden=7, vocabulary=19, length=13, types=3)


@pytest.mark.parametrize("dense", [None, DenseConfig(width=5)])
def test_the_hash_of_what_was_written_is_that_of_a_later_load(
    dense: DenseConfig | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    headway.save(fresh(SentenceConfig(encoder=ENCODER, limit=11, dense=dense)), tmp_path / "a")
    assert convert(tmp_path / "a", tmp_path / "b", "--dtype", "bfloat16") == 0
    written = capsys.readouterr().err.splitlines()[1]
    assert f"hash {headway.load(tmp_path / 'b').receipt.hash[:12]};" in written
    assert written.endswith(f"no tokenizer, as none was found in {tmp_path / 'a'}")


def test_a_sentence_encoder_keeps_its_steps(tmp_path: Path) -> None:
    model = fresh(SentenceConfig(encoder=ENCODER, limit=11, dense=DenseConfig(width=5)))
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


def test_onto_itself_or_into_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = saved(tmp_path / "a")
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for source, place in (("a", "a"), ("link", "a"), ("a", "b/../a")):
        sentence = "are one directory: choose another place"
        refused(sentence, tmp_path / source, tmp_path / place, "--overwrite", "--dtype", "bfloat16", capsys=capsys)
    refused("lies in", tmp_path / "a", tmp_path / "a" / "1_Half", capsys=capsys)
    refused("lies in", tmp_path / "link", tmp_path / "a" / "deep" / "b", capsys=capsys)
    refused("lies in", tmp_path / "a", tmp_path, "--overwrite", capsys=capsys)
    assert torch.equal(tensors(tmp_path / "a")["head.weight"], model.head.weight)
    assert not any(path.is_dir() for path in (tmp_path / "a").iterdir())


def test_a_link_is_not_followed_to_what_it_replaces(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "a", seed=1)
    old = saved(tmp_path / "b", seed=2)
    (tmp_path / "link").symlink_to(tmp_path / "b")
    (tmp_path / "nowhere").symlink_to(tmp_path / "gone")
    refused("link is a symbolic link: name", tmp_path / "a", tmp_path / "link", "--overwrite", capsys=capsys)
    refused("nowhere is a symbolic link: name", tmp_path / "a", tmp_path / "nowhere", capsys=capsys)
    assert torch.equal(tensors(tmp_path / "b")["head.weight"], old.head.weight)
    assert (tmp_path / "link").is_symlink() and not (tmp_path / "gone").exists()


@pytest.mark.parametrize("foreign", ["notes.txt", "runs/log.txt", "1_Pooling/notes.txt", "1_Pooling/deep/config.json"])
def test_files_of_others_beside_a_model_are_kept(
    foreign: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    saved(tmp_path / "a")
    saved(tmp_path / "b")
    (tmp_path / "b" / foreign).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / "b" / foreign).write_text("dear")
    top = foreign if foreign.startswith(("notes", "1_Pooling/notes")) else foreign.rpartition("/")[0]
    sentence = f"{tmp_path / 'b'} holds {top}, which is no file of a model"
    refused(sentence, tmp_path / "a", tmp_path / "b", "--overwrite", capsys=capsys)
    assert (tmp_path / "b" / foreign).read_text() == "dear"


def test_a_place_that_cannot_be_written_is_refused_before_the_load(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    saved(tmp_path / "a")
    (tmp_path / "file").touch()
    monkeypatch.setattr(headway, "load", lambda *given, **named: pytest.fail("loaded first"))
    place = tmp_path / "file" / "b"
    refused(f"{place} cannot be written: not a directory", tmp_path / "a", place, capsys=capsys)
    if Path("/proc/self").exists():
        refused("headway: /proc/foo cannot be written: ", tmp_path / "a", "/proc/foo", capsys=capsys)
    refused("an empty path is no place for a model", tmp_path / "a", "", capsys=capsys)
    refused("the target is empty", "", tmp_path / "b", capsys=capsys)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "file"]


def test_what_is_no_model_is_never_deleted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    saved(tmp_path / "home" / "a")
    (tmp_path / "home" / "letters.txt").write_text("dear")
    source, home = tmp_path / "home" / "a", tmp_path / "home"
    refused("lies in", source, home, "--overwrite", capsys=capsys)
    refused("letters.txt is a file", source, home / "letters.txt", "--overwrite", capsys=capsys)
    source = source.rename(tmp_path / "a")
    refused("home holds no model, and is not overwritten", source, home, "--overwrite", capsys=capsys)
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
            verb(str(tmp_path / "a"), str(tmp_path / place), overwrite=True)
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
