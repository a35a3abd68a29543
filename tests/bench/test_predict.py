"""Predicted beside measured: rows of the usual form, whatever the times are."""

from dataclasses import replace
from pathlib import Path

import pytest

from headway.bench import predict as work
from headway.bench.machine import MachineLimits
from headway.bench.measure import Timing
from headway.bench.run import Bench
from headway.cost.compose import price_tree
from headway.cost.op_tree import lines
from headway.cost.setting import Setting
from headway.cost.time import predict
from headway.presets.bert import bert
from headway.presets.gpt2 import gpt2
from tests.cost.toy_machine import toy_machine
from tests.fresh import fresh

RUN = Bench(MachineLimits("toy", 1, {"float32": 1e12}, 1e12, Timing((1.0, 1.0))), quick=True, seconds=0.0)
TINY = replace(work.SMALL, layers=2, width=20, heads=2, batch=2, length=11)


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(work, "_machine", toy_machine)


@pytest.mark.parametrize("case", ["prefill", "decode", "step"])
def test_every_case_of_a_language_model_gives_rows(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SMALL", "WIDER", "GPT2"):
        monkeypatch.setattr(work, name, replace(TINY, name=f"tiny {name}"))
    monkeypatch.setattr(work, "PRECISIONS", ("float32",))
    rows = list(work.CASES[case](RUN))
    assert len(rows) >= 2
    for row in rows:
        assert row.work == "predict" and row.unit == "ms" and row.best_peer == "measured"
        assert row.headway is not None and row.peers["measured"] > 0
        assert row.target == "within 1.3 x" and row.verdict in ("met", "missed", "unclear")


def test_the_figure_is_the_prediction_and_the_ratio_predicted_over_measured() -> None:
    config, setting = gpt2(width=20, heads=2, layers=2, vocabulary=11, length=17), Setting(length=7).prefill()
    row = work._row(RUN, work.PredictionCase("tiny", config, setting, "prefill", lambda: None))
    expected = predict(lines(price_tree(config, setting)), toy_machine(), "prefill").seconds
    assert row.headway == pytest.approx(1e3 * expected, rel=1e-12)
    assert (row.model, row.shape) == ("tiny, prefill", "batch 1 x 7")
    # Nothing was done, so any prediction is far too long.
    assert row.ratio_to_best is not None and row.ratio_to_best > 1.3 and row.verdict == "missed"


def test_a_decoder_never_runs_out_of_room() -> None:
    model = fresh(gpt2(width=20, heads=2, layers=2, vocabulary=11, length=48)).eval()
    decoder = work._Decoder(model, work._tokens(11, 2, 32))
    shapes = {tuple(decoder().shape) for _ in range(29)}
    assert shapes == {(2, 11)}


def test_models_that_read_all_at_once() -> None:
    config = bert(width=20, heads=2, layers=2, hidden=24, vocabulary=1009, length=13)
    assert work._whole(config, Setting(length=5))().shape == (1, 5, 20)
    assert (
        work.PredictionCase("t5", config, Setting(length=5).decode(7), "decode", lambda: None).shape
        == "batch 1 x 1 after 7"
    )


def test_a_machine_that_was_measured_is_used_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    machine = toy_machine()
    monkeypatch.undo()
    monkeypatch.setattr(work, "stored", lambda: (machine, ""))
    monkeypatch.setattr(work, "measure", lambda: pytest.fail("it was measured already"))
    work._machine.cache_clear()
    assert work._machine() is machine
    work._machine.cache_clear()
