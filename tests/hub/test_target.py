"""What a word on the command line means, whatever the verb."""

from pathlib import Path

import pytest
import torch
from torch import nn

import headway
from headway.config.text import DenseConfig, RecurrentConfig, SentenceConfig
from headway.hub.target import Directory, Function, Preset, built, directory, hidden, resolve
from headway.models import parameters
from headway.presets import names, preset
from headway.presets.bert import bert
from tests.fresh import fresh

CONFIG = RecurrentConfig(source_vocabulary=7, vocabulary=11, width=3, hidden=5)


def saved(path: Path) -> Path:
    headway.save(fresh(CONFIG), path)
    return path


@pytest.mark.parametrize("text", ["gpt2-xl", "gpt2_xl", "GPT2-XL", "preset:gpt2-xl", "preset:gpt2_xl"])
def test_a_preset_by_its_name(text: str) -> None:
    found = resolve(text)
    assert isinstance(found, Preset)
    assert (found.name, found.config) == ("gpt2-xl", preset("gpt2-xl"))


def test_every_preset_is_found_by_its_name() -> None:
    for name in names():
        found = resolve(name.replace("-", "_"))
        assert isinstance(found, Preset) and found.name == name


def test_a_directory_comes_first_where_it_holds_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gpt2").mkdir()
    assert isinstance(resolve("gpt2"), Preset)
    (tmp_path / "gpt2").rmdir()
    saved(tmp_path / "gpt2")
    found = resolve("gpt2")
    assert isinstance(found, Directory)
    assert (found.config, found.weights, found.path) == (CONFIG, True, Path("gpt2"))
    (tmp_path / "gpt2" / "config.json").unlink()
    (tmp_path / "gpt2" / "config.json").symlink_to("/dev/zero")  # the preset does not take its place
    with pytest.raises(ValueError, match=r"config.json is a device"):
        resolve("gpt2").config  # noqa: B018
    meant = resolve("preset:gpt2")
    assert isinstance(meant, Preset) and meant.config == preset("gpt2")
    assert [hidden(text) for text in ("gpt2", "./gpt2", "preset:gpt2", "bert-base")] == ["gpt2", None, None, None]


def test_the_configuration_of_a_directory_without_weights(tmp_path: Path) -> None:
    (saved(tmp_path / "m") / "model.safetensors").unlink()
    found = resolve(str(tmp_path / "m"))
    assert isinstance(found, Directory) and found.config == CONFIG and not found.weights


@pytest.mark.parametrize("dense", [None, DenseConfig(width=5)])
def test_a_sentence_encoder_says_its_steps(dense: DenseConfig | None, tmp_path: Path) -> None:
    encoder = bert(width=6, heads=2, layers=2, hidden=7, vocabulary=19, length=13, types=3)
    config = SentenceConfig(encoder=encoder, limit=11, pooling="max", dense=dense)
    headway.save(fresh(config), tmp_path / "m")
    found = resolve(str(tmp_path / "m"))
    assert isinstance(found, Directory)
    assert found.config.model_dump(exclude={"encoder"}) == config.model_dump(exclude={"encoder"})
    assert parameters(built(found)) == parameters(headway.load(tmp_path / "m").model)


def test_home_is_understood(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    saved(tmp_path / "m")
    assert directory("~/m").path == tmp_path / "m"
    with pytest.raises(ValueError, match="~nobody-of-that-name/m does not exist"):
        resolve("~nobody-of-that-name/m")


UNKNOWN = {
    "gtp2": r"'gtp2' is neither a directory nor a preset \(did you mean gpt2\?\); `headway info` lists the presets",
    "bert_bse": r"neither a directory nor a preset \(did you mean bert-base\?\)",
    "preset:gtp2": r"there is no preset 'gtp2' \(did you mean gpt2\?\); `headway info` lists the presets",
    "preset:": "there is no preset ''",
    "": "the target is empty: name a directory, a run, a preset or package.module:function",
    " ": "the target is empty",
    "zzz": "'zzz' is neither a directory nor a preset; `headway info`",
    "./gpt2": "./gpt2 does not exist: a model is a directory with config.json and model.safetensors",
    "models/gpt2": "models/gpt2 does not exist",
    "empty": "empty is neither a model \\(it has no config.json\\) nor a run \\(no config.yaml\\)",
    "file": "file is a file: a model is a directory",
    "no_such_module_at_all:make": "there is no module 'no_such_module_at_all', neither installed nor in",
    "no.such.module:make": "there is no module 'no.such.module'",
    "broken:make": "broken cannot be imported: No module named 'no_such_thing'",
    "own:mak": r"own has no 'mak' \(did you mean make\?\)",
    "own:NUMBER": "own:NUMBER is a int, not a function",
}
OWN = """
from torch import nn
from headway.presets import preset
NUMBER = 7
def make(): return nn.Linear(10**6, 10**6)
def configured(): return preset("gpt2")
def text(): return "text"
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory with a module of one's own, as a user has it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").touch()
    (tmp_path / "own.py").write_text(OWN)
    (tmp_path / "broken.py").write_text("import no_such_thing")
    return tmp_path


@pytest.mark.usefixtures("here")
@pytest.mark.parametrize("text", UNKNOWN)
def test_what_is_unknown_is_named(text: str) -> None:
    with pytest.raises(ValueError, match=UNKNOWN[text]):
        resolve(text)


@pytest.mark.usefixtures("here")
def test_a_function_of_ones_own() -> None:
    found = resolve("own:make")
    assert isinstance(found, Function)
    model = built(found)  # of 4 TB, if it had any memory
    assert isinstance(model, nn.Linear) and model.weight.device == torch.device("meta")
    assert parameters(built(resolve("own:configured"))) == 124_439_808
    with pytest.raises(ValueError, match="own:text gives a str: a model or its configuration is expected"):
        built(resolve("own:text"))


@pytest.mark.usefixtures("here")
def test_weights_come_from_a_directory_alone() -> None:
    with pytest.raises(
        ValueError, match="'gpt2' is a preset: sizes without weights; this command needs a run, or a directory"
    ):
        directory("gpt2")
    with pytest.raises(ValueError, match="'own:make' is a function; this command needs a run, or a directory"):
        directory("own:make")
