"""A model that is saved over another: at every moment of a kill or a power cut the old one or the new one is there."""

import os
from pathlib import Path

import pytest
import torch

import headway
from headway.config.train import TokenizerConfig
from headway.data import publish
from headway.data.tokenizer_training import train_tokenizer
from tests.crash import recorded
from tests.thorough import THOROUGH

DRAWN = 20 if THOROUGH else 1


def made(seed: int) -> torch.nn.Module:
    return headway.build("gpt2", layers=1, width=8, heads=2, length=5, vocabulary=257, seed=seed)


def first_weight(model: torch.nn.Module) -> float:
    return next(model.parameters()).detach().flatten()[0].item()


@pytest.mark.parametrize("exchange", [True, False])
def test_the_old_or_the_new_model_stands_there_after_any_cut(tmp_path: Path, monkeypatch, exchange: bool) -> None:
    if not exchange:  # as on a file system where two names cannot change places in one step
        monkeypatch.setattr(publish, "exchange", lambda one, other: False)
    root = tmp_path / "models"
    root.mkdir()
    tokenizer = train_tokenizer(["a few words"], TokenizerConfig(kind="byte"), task="language")
    old, new = made(1), made(2)
    headway.save(old, root / "m", tokenizer=tokenizer)
    with recorded(root) as trace:
        headway.save(new, root / "m", tokenizer=tokenizer, overwrite=True)
    found = []
    for moment, left in trace.crashes(tmp_path / "left", drawn=DRAWN):
        loaded = headway.load(left / "m")
        assert loaded.tokenizer is not None, moment
        assert loaded.tokenizer.encode("few") == tokenizer.encode("few"), moment
        found.append(first_weight(loaded.model))
        if len(found) % 8 == 1:  # the next save is not hindered by what is left, and removes it
            headway.save(new, left / "m", tokenizer=tokenizer, overwrite=True)
            assert os.listdir(left) == ["m"], moment
    assert set(found) == {first_weight(old), first_weight(new)} and len(found) > 20
    assert found[-1] == first_weight(new)


def test_a_first_save_is_there_whole_or_not_at_all(tmp_path: Path) -> None:
    root = tmp_path / "models"
    root.mkdir()
    with recorded(root) as trace:
        headway.save(made(1), root / "deep" / "m")
    there = []
    for moment, left in trace.crashes(tmp_path / "left", drawn=DRAWN):
        there.append((left / "deep" / "m").exists())
        if there[-1]:
            assert first_weight(headway.load(left / "deep" / "m").model) == first_weight(made(1)), moment
    assert there[0] is False and there[-1] is True
