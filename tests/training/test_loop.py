"""The loop: resuming changes no bit, accumulating changes nothing, and what goes wrong is stopped in time."""

import json
import math
import os
import signal
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import torch

from headway.config.run_files import RunFiles
from headway.config.train import OptimConfig
from headway.data.batch import Batch
from headway.data.loader import Loader, Order
from headway.training.distributed import World
from headway.training.loop import TrainingLoop
from headway.training.objectives import Learner, LossSums, language_loss
from headway.training.trainer import Trainer, evaluate
from tests.thorough import THOROUGH
from tests.training.small import Counting, config, events, run, same, work


def rows(path: Path, kind: str) -> list[dict]:
    lines = (path / "metrics.jsonl").read_text().splitlines()
    return [row for row in map(json.loads, lines) if row["kind"] == kind]


CHANGED = {
    "plain": {},
    "accumulated": {"accumulate": 3},
    "bfloat16": {"dtype": "bfloat16"},
    "muon": {"optim": OptimConfig(kind="muon", rate=1e-2)},
    "checkpointing": {"checkpointing": True},
}
# Before and after the first epoch; `make test-thorough` stops all at both.
STOPS = {"plain": (4, 8), "accumulated": (8,), "bfloat16": (4,), "muon": (8,), "checkpointing": (4,)}


@pytest.fixture(scope="module")
def straight(tmp_path_factory) -> Callable[[str], tuple[TrainingLoop, Path]]:
    """Runs that were never stopped, each made once."""

    @cache
    def made(name: str) -> tuple[TrainingLoop, Path]:
        path = tmp_path_factory.mktemp(name)
        return run(path, config(**CHANGED[name])), path

    return made


@pytest.mark.parametrize(
    ("name", "stop"), [(name, stop) for name in CHANGED for stop in ((4, 8) if THOROUGH else STOPS[name])]
)
def test_a_resumed_run_is_bit_for_bit_the_one_that_was_never_stopped(tmp_path, straight, name, stop):
    settings, (right, path) = config(**CHANGED[name]), straight(name)
    run(tmp_path, settings, until=stop)
    resumed = run(tmp_path, settings, resume=True)
    assert resumed.trainer.facts.step == settings.steps
    assert same(right, resumed)
    # and it wrote the same lines, each step once
    for kind in ("train", "validation"):
        ours, theirs = ([(row["step"], row["loss"]) for row in rows(place, kind)] for place in (path, tmp_path))
        assert ours == theirs


def test_another_seed_is_another_run(tmp_path, straight):
    assert not same(straight("plain")[0], run(tmp_path, config(seed=1)))


def test_parts_of_a_batch_add_up(tmp_path):

    losses = []
    for parts in (1, 3):
        settings = config(accumulate=parts)
        job = work(settings)
        for part in job.model.modules():
            if isinstance(part, torch.nn.Dropout):
                part.p = 0.0
        training = Trainer(job, World())
        feed = Loader(job.train, Order(29, seed=0, batch=6), 6, parts)
        losses.append([])
        for batches in feed.steps(0, 9):
            losses[-1].append(training.learn(batches, 1.0).loss)
            training.facts.step += 1
    assert losses[1] == pytest.approx(losses[0], abs=1e-5)
    assert losses[0][-1] < losses[0][0] - 0.1


def test_it_learns(tmp_path):
    run(tmp_path, config(steps=100, evaluate_every=20, optim=OptimConfig(rate=2e-2), save_every=100))
    found = rows(tmp_path, "validation")
    assert found[0]["loss"] < math.log(13) and found[-1]["loss"] < 0.1 and found[-1]["accuracy"] > 0.95


def test_a_loss_that_is_no_number_stops_with_the_last_good_state(tmp_path, straight):
    calls = []

    def breaking(model, inputs, *, smoothing):
        found = language_loss(model, inputs, smoothing=smoothing)
        if model.training:
            calls.append(1)
        factor = math.nan if len(calls) == 6 and model.training else 1.0
        return LossSums({"loss": found.losses["loss"] * factor}, found.hits)

    seen = events(tmp_path, config(), objective=breaking)
    end = seen[-1].row
    assert end["reason"] == "diverged" and end["step"] == 5
    assert "loss" in end["diagnosis"] and "step 6" in end["diagnosis"] and "optim.rate" in end["diagnosis"]
    # the state of step 5 was kept, and goes on
    resumed = run(tmp_path, config(), resume=True)
    assert same(resumed, straight("plain")[0])


def test_a_loss_that_climbs_stops(tmp_path):
    def climbing(model, inputs, *, smoothing):
        """The gradient leads uphill."""
        found = language_loss(model, inputs, smoothing=smoothing)
        loss = found.losses["loss"]
        return LossSums({"loss": 2 * loss.detach() - loss}, found.hits)

    seen = events(tmp_path, config(steps=400, evaluate_every=1000, save_every=50), objective=climbing)
    end = seen[-1].row
    assert end["reason"] == "diverged" and 20 < end["step"] < 400
    assert "climbs" in end["diagnosis"] and str(tmp_path / "checkpoints") in end["diagnosis"]


def test_patience(tmp_path):
    settings = config(steps=500, patience=2, evaluate_every=2, optim=OptimConfig(rate=1e-9))

    class Random(Counting):
        def batch(self, rows, keys):
            found = super().batch(rows, keys)
            targets = torch.from_numpy((keys[:, None] * 7919 + torch.arange(7).numpy()) % 13)
            return Batch({**found.inputs, "targets": targets}, found.counts)

    seen = events(tmp_path, settings, validation=Random(11))
    assert seen[-1].row["reason"] in ("early",) and seen[-1].row["step"] < 500


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_saves_and_stops(tmp_path, straight, number):
    tmp_path.mkdir(exist_ok=True)

    before = signal.getsignal(number)
    for event in TrainingLoop(work(config()), RunFiles(tmp_path), World()).events():
        if event.row["step"] == 4 and event.kind == "train":
            os.kill(os.getpid(), number)
        last = event
    assert last.row["reason"] == "stopped" and last.row["step"] in (4, 5)
    assert signal.getsignal(number) is before
    assert same(run(tmp_path, config(), resume=True), straight("plain")[0])


def test_a_damaged_checkpoint_is_noticed_and_the_one_before_it_used(tmp_path, straight):
    run(tmp_path, config(), until=8)
    newest = max((tmp_path / "checkpoints").glob("step-*"))
    part = next(newest.glob("*.safetensors"))
    content = bytearray(part.read_bytes())
    content[-5] ^= 1
    part.write_bytes(content)
    resumed = run(tmp_path, config(), resume=True)
    assert any(newest.name in note and "damaged" in note for note in resumed.notes)
    assert same(resumed, straight("plain")[0])


def test_a_damaged_newest_checkpoint_is_not_kept_instead_of_good_ones(tmp_path):
    settings = config(steps=8, save_every=4, keep=2)
    run(tmp_path, settings, validation=None)
    (tmp_path / "checkpoints" / "step-00000008" / "manifest.json").write_text("{}")
    run(tmp_path, config(steps=6, save_every=1, keep=1), resume=True, validation=None)
    again = run(tmp_path, config(steps=7, save_every=1, keep=1), resume=True, validation=None)
    assert any("goes on after step 6" in note for note in again.notes)


def test_patience_that_is_over_stays_over(tmp_path):
    settings = config(steps=50, evaluate_every=1, patience=1, optim=OptimConfig(rate=1e-9))
    first = events(tmp_path, settings)[-1].row
    assert first["reason"] == "early"
    again = list(TrainingLoop(work(settings), RunFiles(tmp_path), World(), resume=True).events())
    assert [event.kind for event in again] == ["end"] and again[0].row["step"] == first["step"]


def test_a_part_of_the_validation_data_is_spread_over_all_of_it():
    class Sized(Counting):
        sizes = np.arange(100)[::-1].copy()

        def batch(self, rows, keys):
            seen.extend(rows.tolist())
            return super().batch(rows, keys)

    seen: list[int] = []
    job = work(config())
    evaluate(Learner(job.model, language_loss).eval(), Sized(100), batch=5, world=World(), limit=2)
    assert len(seen) == 10 and min(seen) == 0 and max(seen) == 99


def test_a_batch_that_cannot_be_shared_is_refused(tmp_path):
    with pytest.raises(ValueError, match="batch 6 cannot be shared"):
        run(tmp_path, config(accumulate=4))


def test_labels_are_smoothed_to_learn_from_and_plain_to_measure_with():

    job = work(config())
    batch = job.train.batch(np.arange(3), np.arange(3)).inputs
    plain, smooth = Learner(job.model, language_loss), Learner(job.model, language_loss, smoothing=0.3)
    for learner in (plain, smooth):
        learner.eval()
    assert plain(batch).losses["loss"] == smooth(batch).losses["loss"]
    job.model.train(False)
    smooth.training = True
    assert plain(batch).losses["loss"] != smooth(batch).losses["loss"]


def test_only_the_last_and_the_best_are_kept(tmp_path):
    run(tmp_path, config(steps=12, save_every=2, evaluate_every=100))
    names = sorted(path.name for path in (tmp_path / "checkpoints").glob("step-*"))
    assert names == ["step-00000010", "step-00000012"]
