"""report.html: every kind of run, hostile text, written whole or not at all."""

import json
import os
from pathlib import Path
from typing import Any

import pytest

from headway.app import report as report_module
from headway.app.report import SECTIONS, report
from headway.render import Html, Section, visible
from tests.app.runs_by_hand import HOSTILE, make_run, rows
from tests.render.parsed import Parsed


def written(path: Path) -> tuple[str, Parsed]:
    place = report(path)
    assert place == path / "report.html"
    text = place.read_text("utf-8")
    return text, Parsed(text)


def ids(text: str) -> list[str]:
    return [part.split('"')[0] for part in text.split('<section id="')[1:]]


def test_a_finished_run_has_every_section(tmp_path: Path) -> None:
    text, found = written(make_run(tmp_path, model=True))
    assert ids(text) == ["summary", "loss", "validation", "samples", "model", "configuration", "next"]
    for said in (
        "809,088",
        "1 min 30 s",
        "at step 1,600",
        "17,067 tokens per second",
        "the crown of England",
        "4 times",
        "66,048 each",
    ):
        assert said in found.text
    assert "--resume" not in found.text and "headway generate" in found.text


def test_a_run_under_way_without_a_model(tmp_path: Path) -> None:
    text, found = written(make_run(tmp_path, lines=rows()[:30]))
    assert ids(text) == ["summary", "loss", "validation", "samples", "configuration", "next"]
    assert f"headway train --out {tmp_path}/first --resume" in found.text and "headway generate" not in found.text


@pytest.mark.parametrize("count", range(4))
def test_the_first_lines_of_a_run(tmp_path: Path, count: int) -> None:
    text, _ = written(make_run(tmp_path, lines=rows()[:count]))
    assert ids(text) == ["summary", *(["loss"] if count > 1 else []), "configuration", "next"]


def test_a_directory_with_a_configuration_alone_or_metrics_alone(tmp_path: Path) -> None:
    one, other = make_run(tmp_path, "one"), make_run(tmp_path, "other")
    (one / "metrics.jsonl").unlink()
    for name in ("config.yaml", "machine.json"):
        (other / name).unlink()
    assert ids(written(one)[0]) == ["summary", "configuration", "next"]
    assert ids(written(other)[0]) == ["summary", "loss", "validation", "samples", "next"]


def test_the_model_of_a_run_under_way_is_that_of_its_newest_checkpoint(tmp_path: Path) -> None:
    path = make_run(tmp_path, lines=rows()[:30])
    for step, width in ((100, 5), (200, 7)):
        place = path / "checkpoints" / f"step-{step:08d}"
        place.mkdir(parents=True)
        tensors = {"model/stack.blocks.0.norm.scale": {"shape": [width]}, "model/tokens.weight": {"shape": [11, width]}}
        tensors["optim/tokens.weight/mean"] = {"shape": [11, width]}
        (place / "manifest.json").write_text(json.dumps({"tensors": tensors}))
    _, found = written(path)
    assert "84 numbers in 2 tensors, as kept in step-00000200." in found.text and "11 × 7" in found.text
    (place / "manifest.json").write_text("{")
    assert "This part is missing: step-00000200/manifest.json cannot be read" in written(path)[1].text


def test_a_damaged_model_takes_no_other_section_along(tmp_path: Path) -> None:
    path = make_run(tmp_path)
    (path / "model").mkdir()
    (path / "model" / "config.json").write_text("{")
    text, found = written(path)
    assert "model" in ids(text) and "This part is missing:" in found.text and "is not valid JSON" in found.text


@pytest.mark.parametrize("task", ["language", "seq2seq", "embed", "unheard of"])
def test_hostile_text_anywhere(tmp_path: Path, task: str) -> None:
    def spoiled(row: dict[str, Any]) -> dict[str, Any]:
        return row | {name: HOSTILE for name in ("prompt", "text", "diagnosis") if row["kind"] in ("sample", "end")}

    lines = [spoiled(row) for row in rows()]
    lines.append({"kind": "validation", "step": 2000, "loss": 1.0, HOSTILE: 0.5})
    lines.append({"kind": "end", "step": 2000, "reason": HOSTILE, "diagnosis": HOSTILE})
    path = make_run(tmp_path, "<b>&'🦉", lines=lines, task=task, data={HOSTILE: [HOSTILE]})
    text, found = written(path)
    plain, _ = written(make_run(tmp_path, "plain"))
    assert found.tags["script"] == 1 and found.tags["b"] <= Parsed(plain).tags["b"]
    assert visible(HOSTILE) in found.text and "<b>&'🦉" in found.text
    assert "\x00" not in text and "\x1b" not in text


def test_a_run_that_diverged_says_why(tmp_path: Path) -> None:
    end = {"kind": "end", "step": 400, "reason": "diverged", "diagnosis": "step 401: the gradients are no numbers"}
    found = written(make_run(tmp_path, lines=[*rows()[:50], end]))[1]
    assert "diverged" in found.text and "the gradients are no numbers" in found.text


def test_several_objectives_have_a_chart_of_their_own(tmp_path: Path) -> None:
    lines = [
        {"kind": kind, "step": step, "loss": 3.0 / step, "words": 2.0 / step, "adjacent": 1.0 / step}
        for step in range(1, 6)
        for kind in ("train", "validation")
    ]
    _, found = written(make_run(tmp_path, lines=lines, task="masked"))
    assert "Training loss by objective" in found.text
    assert any(label.startswith("Line chart of Adjacent") for label in found.values("aria-label"))


def test_what_cannot_be_written_leaves_the_old_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_run(tmp_path)
    before = report(path).read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        report(path)
    monkeypatch.undo()
    assert (path / "report.html").read_bytes() == before
    assert [one.name for one in path.iterdir() if one.name.startswith(".")] == []


def test_a_section_is_one_more_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    more = lambda run: Section("Price", Html(f"<p>{run.name}</p>"), "price")  # noqa: E731
    monkeypatch.setattr(report_module, "SECTIONS", [*SECTIONS, more, lambda run: None])
    assert ids(written(make_run(tmp_path))[0])[-1] == "price"


def test_the_report_has_the_rights_of_any_new_file(tmp_path: Path) -> None:
    path = make_run(tmp_path)
    (path / "beside").touch()
    assert (report(path).stat().st_mode & 0o777) == ((path / "beside").stat().st_mode & 0o777)
