"""What is written and scored at a validation, beside each held-out source translated alone."""

from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import sacrebleu

import headway.app.training_run
from headway.app.training_run import samples
from headway.config.base import IGNORED
from headway.config.run_files import RunFiles
from headway.config.train import DataConfig, ModelChoice, TrainConfig
from headway.decoding import Request, generate
from headway.training.objectives import TrainingSetup
from headway.training.tasks import prepare

LINES = [f"the {a} {b} number {c}\tel {b} {a} de {c}" for c, (a, b) in enumerate([("red", "fox"), ("old", "dog")] * 15)]


def work(place: Path, architecture: Literal["transformer", "recurrent"], **settings: Any) -> TrainingSetup:
    file = place / "pairs.tsv"
    file.write_text("source\ttarget\n" + "\n".join(LINES) + "\n", encoding="utf-8")
    layers = 1 if architecture == "transformer" else None
    choice = ModelChoice(architecture=architecture, width=16, layers=layers, hidden=11, std=0.3)
    data = DataConfig(train=(str(file),), held=0.3)
    config = TrainConfig(task="seq2seq", data=data, model=choice, length=23, **settings)
    return prepare(config, RunFiles(place / "run"), lambda line: None)


def by_hand(given: TrainingSetup, count: int) -> tuple[list[str], list[str]]:
    """Translations and references of rows from the first to the last, one at a time."""
    assert given.validation is not None and given.tokenizer is not None
    written, wanted = [], []
    rows = np.linspace(0, len(given.validation) - 1, count).astype(np.int64)
    most = min(23, 2 * given.validation.batch(rows, rows).inputs["targets"].shape[1])
    for row in rows:
        inputs = given.validation.batch(np.array([row]), np.array([row])).inputs
        request = Request(prompt=tuple(inputs["source"][0].tolist()), max_new_tokens=most)
        written.append(generate(given.model, [request], tokenizer=given.tokenizer)[0].text)
        wanted.append(given.tokenizer.decode([token for token in inputs["targets"][0].tolist() if token != IGNORED]))
    return [" ".join(text.splitlines()) for text in written], wanted


@pytest.mark.parametrize("architecture", ["transformer", "recurrent"])
def test_scores_are_those_of_each_pair_translated_alone(
    tmp_path: Path, architecture: Literal["transformer", "recurrent"]
) -> None:
    given = work(tmp_path, architecture, samples=2, scored=7, seed=5)
    row: dict[str, float] = {"loss": 3.0}
    found = list(samples(given, row))
    written, wanted = by_hand(given, 7)
    assert row["loss"] == 3.0 and set(row) == {"loss", "chrf", "bleu"}
    assert row["chrf"] == pytest.approx(sacrebleu.corpus_chrf(written, [wanted]).score, abs=1e-9)
    assert row["bleu"] == pytest.approx(sacrebleu.corpus_bleu(written, [wanted]).score, abs=1e-9)
    assert [one["wanted"] for one in found] == [wanted[0], wanted[-1]]
    assert row["chrf"] > 0 and len(set(wanted)) == 7


def test_scores_only_when_asked_and_samples_only_when_asked(tmp_path: Path) -> None:
    row: dict[str, float] = {}
    assert len(list(samples(work(tmp_path, "transformer", samples=3), row))) == 3 and row == {}
    assert list(samples(work(tmp_path, "transformer", samples=0, scored=2), row)) == [] and set(row) == {"chrf", "bleu"}


def test_without_sacrebleu_nothing_is_scored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(headway.app.training_run, "find_spec", lambda name: None)
    row: dict[str, float] = {}
    list(samples(work(tmp_path, "recurrent", samples=1, scored=3), row))
    assert row == {}
