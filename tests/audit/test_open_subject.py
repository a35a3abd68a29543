"""What a word on the command line is audited as."""

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import headway
from headway.adapt.adapter import Adapter
from headway.audit.examination import open_subject
from headway.hub.load import RANDOM, OpenModel
from tests.cost.tiny import MODELS
from tests.fresh import fresh

SOURCE = """
import torch
from torch import nn
from headway.adapt.adapter import Adapter
from headway.presets.gpt2 import gpt2

def module(): return nn.Linear(3, 2)
def both(): return nn.Linear(3, 2), Adapter(inputs="vectors", width=3)
def config(): return gpt2(width=6, layers=1, heads=2, hidden=8, vocabulary=11, length=16)
def number(): return 5
def fails(): raise KeyError("no weights here")
"""


NAMES = ("module", "both", "config")


def opened(text: str, **how: Any) -> tuple[OpenModel, Adapter | None]:
    return open_subject(text, {}, **how)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "builders_for_audit.py").write_text(SOURCE)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_preset_has_random_weights_and_says_so() -> None:
    found, adapter = opened("bare-block", dtype="float64")
    assert adapter is not None and adapter.notes == (RANDOM,) and adapter.width == 64
    assert next(found.model.parameters()).dtype == torch.float64


def test_a_directory_and_a_run(tmp_path: Path) -> None:
    model: Any = fresh(MODELS["gpt2"])
    headway.save(model, tmp_path / "run" / "model")
    plain, adapter = opened(str(tmp_path / "run" / "model"))
    (tmp_path / "run" / "config.yaml").write_text("seed: 0\n")
    run, _ = opened(str(tmp_path / "run"))
    assert adapter is not None and adapter.vocabulary == 13 and run.name == str(tmp_path / "run")
    for one, two in zip(plain.model.parameters(), run.model.parameters(), strict=True):
        assert torch.equal(one, two)


def test_a_run_without_a_model(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("seed: 0\n")
    with pytest.raises(ValueError, match="has no model yet"):
        opened(str(tmp_path))


def test_functions(here: Path) -> None:
    (module, known), (_, both), (_, config) = (opened(f"builders_for_audit:{name}") for name in NAMES)
    assert isinstance(module.model, nn.Linear) and known is not None
    # Made anew from another seed, so that what saving loses shows.
    assert known.rebuild is not None
    assert not torch.equal(known.rebuild().weight, module.model.weight)  # type: ignore[arg-type]
    assert isinstance(both, Adapter) and both.width == 3
    assert config is not None and config.vocabulary == 11 and config.notes == (RANDOM,)
    again, _ = opened("builders_for_audit:module")
    assert torch.equal(again.model.weight, module.model.weight)


def test_mistakes(here: Path) -> None:
    with pytest.raises(ValueError, match="gives a int: a model or its configuration"):
        opened("builders_for_audit:number")
    with pytest.raises(ValueError, match="called without arguments, failed: KeyError"):
        opened("builders_for_audit:fails")
    with pytest.raises(ValueError, match="neither a directory nor a preset"):
        opened("gtp2")
    with pytest.raises(ValueError, match="not int8"):
        opened("bare-block", dtype="int8")
