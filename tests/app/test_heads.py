"""The heads of a run: of every task on an example of its own, kept in a file and shown in the report."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from headway.app import audit_section, cost_section
from headway.app.heads import FILE, GIVEN, LONGEST, heads_of, read_heads, write_heads
from headway.app.report import FILE as PAGE
from headway.app.report import report
from headway.app.run_directory import FILES as RUN_FILES
from headway.config.run_files import RunFiles
from headway.config.train import DataConfig, ModelChoice, Task, TrainConfig
from headway.hub import save
from headway.training.objectives import TrainingSetup
from headway.training.tasks import prepare
from tests.app.runs_by_hand import make_run

SENTENCES = [
    f"The {a} {b} crosses street number {c}." for c, (a, b) in enumerate([("red", "fox"), ("old", "dog")] * 12)
]
FILES = {
    "language": ("book.txt", "\n\n".join(SENTENCES)),
    "instruct": ("talks.csv", "prompt,response\n" + "\n".join(f"{one[:9]},{one[9:]}" for one in SENTENCES)),
    "masked": ("book.txt", "\n\n".join(" ".join(SENTENCES[at : at + 6]) for at in range(0, 24, 3))),
    "classify": ("labelled.csv", "label,text\n" + "\n".join(f"{'ab'[n % 2]},{s}" for n, s in enumerate(SENTENCES))),
    "seq2seq": ("pairs.tsv", "source\ttarget\n" + "\n".join(f"{one}\t{one[::-1]}" for one in SENTENCES)),
    "embed": ("twins.tsv", "first\tsecond\n" + "\n".join(f"{one}\t{one.lower()}" for one in SENTENCES)),
}
KINDS = {
    "language": [("decoder", 2)], "instruct": [("decoder", 2)],
    "masked": [("encoder", 2)], "classify": [("encoder", 2)], "embed": [("encoder", 2)],
    "seq2seq": [("encoder", 2), ("decoder", 2), ("cross", 2)], "images": [("encoder", 2)],
}  # fmt: skip


def work(place: Path, task: Task, **choice: Any) -> tuple[TrainingSetup, RunFiles]:
    """The work of a run, and its model exported as it began."""
    if task == "images":
        file = place / "x.npz"
        images = np.random.default_rng(3).integers(0, 256, (13, 8, 12), np.uint8)
        np.savez(file, images=images, label=np.arange(13) % 3)
    else:
        name, text = FILES[task]
        file = place / name
        file.write_text(text + "\n", encoding="utf-8")
    model = ModelChoice(width=12, layers=2, heads=3, std=0.3, **choice)
    config = TrainConfig(task=task, data=DataConfig(train=(str(file),), held=0.3), model=model, length=31, batch=2)
    there = RunFiles(place / "run")
    found = prepare(config, there, lambda line: None)
    save(found.model.eval(), there.model, tokenizer=found.tokenizer)
    return found, there


def test_every_task_has_its_example() -> None:
    compares = {"dpo"}  # it begins from a model that is there; tests/cli/test_finetune.py trains one
    assert set(GIVEN) == set(Task.__args__) == set(KINDS) | compares


@pytest.mark.parametrize("task", KINDS)
def test_every_task_shows_its_heads(tmp_path: Path, task: Task) -> None:
    given, place = work(tmp_path, task)
    look = heads_of(given, place)
    counts = [(kind, sum(layer.kind == kind for layer in look.layers)) for kind, _ in KINDS[task]]
    assert counts == KINDS[task] and len(look.layers) == sum(count for _, count in counts)
    assert all(len(layer.heads) == 3 for layer in look.layers)
    assert all(0 < len(side.tokens) <= LONGEST for side in look.sides)


def test_a_text_is_the_one_that_was_held_out(tmp_path: Path) -> None:
    given, place = work(tmp_path, "classify")
    assert given.validation is not None and given.tokenizer is not None
    inputs = given.validation.batch(np.array([0]), np.array([0])).inputs
    tokens = [given.tokenizer.decode([token], special=True) for token in inputs["tokens"][0].tolist()]
    assert [one.strip() for one in heads_of(given, place).sides[0].tokens] == [one.strip() for one in tokens]


def test_the_target_is_what_the_decoder_reads(tmp_path: Path) -> None:
    given, place = work(tmp_path, "seq2seq")
    assert given.validation is not None
    inputs = given.validation.batch(np.array([0]), np.array([0])).inputs
    look = heads_of(given, place)
    assert [len(side.tokens) for side in look.sides] == [inputs["source"].shape[1], inputs["target"].shape[1]]


def test_what_is_kept_is_what_the_report_shows(tmp_path: Path) -> None:
    given, place = work(tmp_path, "language")
    write_heads(given, place)
    run = make_run(tmp_path / "runs")
    (run / FILE).write_text((place.path / FILE).read_text())
    found, right = read_heads(run), heads_of(given, place)
    assert found is not None
    assert (found.layers[1].data.row(2, 7) == right.layers[1].data.row(2, 7)).all()
    assert found.sides == right.sides and found.lens == right.lens
    text = report(run).read_text(encoding="utf-8")
    assert '<section id="heads"' in text and text.count('id="look-layer-') == 2


def test_a_run_without_heads_has_no_such_part(tmp_path: Path) -> None:
    assert 'id="heads"' not in report(make_run(tmp_path)).read_text(encoding="utf-8")


@pytest.mark.parametrize("written", ['{"version": 7}', '{"version": 1}', "[1]", '{"version": 1, "title": '])
def test_a_damaged_file_is_said_in_its_place(tmp_path: Path, written: str) -> None:
    run = make_run(tmp_path)
    (run / FILE).write_text(written)
    text = report(run).read_text(encoding="utf-8")
    part = text[text.index('id="heads"') :]
    assert FILE in part[part.index("This part is missing") :][:300] and 'id="loss"' in text


def test_the_model_that_is_shown_is_the_one_exported(tmp_path: Path) -> None:
    given, place = work(tmp_path, "language")
    before = heads_of(given, place)
    with torch.no_grad():
        given.model.tokens.weight.zero_()  # weights that are not exported
    assert json.dumps(before.layers[0].data.row(0, 5).tolist()) == json.dumps(
        heads_of(given, place).layers[0].data.row(0, 5).tolist()
    )


def test_what_the_report_is_made_of_belongs_to_the_run() -> None:
    """And does not keep another run from taking its place."""
    assert {FILE, PAGE, audit_section.FILE, cost_section.FILE} <= set(RUN_FILES)
