"""The cases of training: steps that compute the same, and rows that say what was measured."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from headway.bench import train
from headway.bench.contender_process import ContenderProcess
from headway.bench.machine import MachineLimits
from headway.bench.measure import Timing
from headway.bench.run import Bench
from headway.bench.sizes import SIZES
from headway.bench.training_steps import PEERS, _x_transformers, contender, waiting
from headway.models import count

MACHINE = MachineLimits("toy", 1, {"float32": 1e12, "bfloat16": 1e12}, 1e12, Timing((1.0, 1.0)))
RUN = Bench(MACHINE, quick=True, seconds=0.0)
TINY = replace(SIZES["characters"], layers=2, width=20, heads=2, batch=2, length=11)


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_row_of_training(precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("x_transformers")
    monkeypatch.setitem(train.SIZES, "characters", TINY)
    row = train.beside(RUN, "characters", precision, apart=False)
    assert row.headway is not None and set(row.peers) == {"plain PyTorch", "transformers", "x-transformers"}, row.note
    assert row.unit == "tokens/s" and row.verdict in ("met", "missed", "unclear")


def test_models_are_of_one_size() -> None:
    pytest.importorskip("x_transformers")
    size = SIZES["characters"]
    other = sum(p.numel() for p in _x_transformers(size, torch.float32).parameters())
    assert other == pytest.approx(count(size.config), rel=0.01)


def test_who_computes_something_else_is_not_raced() -> None:
    pytest.importorskip("x_transformers")
    steps = {name: contender(name, TINY, torch.float32) for name in (*PEERS, "headway")}
    steps["headway"]()  # one step ahead of the others
    with pytest.raises(train.Disagreement, match="headway and plain PyTorch disagree"):
        train._same(steps, 1e-4)


def test_waiting_for_data_is_a_share_of_the_time(tmp_path: Path) -> None:
    row = waiting(TINY, tmp_path, steps=3)
    assert row.unit == "%" and row.headway is not None and 0 <= row.headway <= 100
    assert "making a batch takes" in row.note and row.target is not None


def test_a_contender_in_a_process_of_its_own() -> None:
    here, there = contender("headway", TINY, torch.float32), ContenderProcess(contender, "headway", TINY, torch.float32)
    assert [float(there()) for _ in range(3)] == pytest.approx([float(here()) for _ in range(3)], rel=1e-6)
    there.close()
    with pytest.raises(RuntimeError, match="AttributeError"):
        ContenderProcess(contender, "headway", None, torch.float32)
