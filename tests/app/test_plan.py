"""A plan: what the data holds, the rule, and a command that means what the plan says."""

import gzip
import json
import shlex
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from headway.app import plan
from headway.app.plan import LEAST, Plan, make_plan, read_input
from headway.app.plan import data as plan_data
from headway.app.plan import sizes as plan_sizes
from headway.app.plan.candidate import DATA, ENOUGH, PASSES, SHARE, TIME, Wanted, command_of
from headway.app.plan.data import DataSize, data_size
from headway.app.plan.show import as_json, data_text, plan_table, read_seconds, remarks
from headway.app.plan.sizes import LADDER, choices, length_for
from headway.app.settings import merged, resolve
from headway.cli import main
from headway.config.train import TokenizerConfig, TrainConfig
from headway.data.tokenizer_training import train_tokenizer
from headway.render.table import plain_text
from tests.app.machine_by_hand import machine


def config(task: str, *data: str | Path, **settings: Any) -> tuple[TrainConfig, dict[str, Any]]:
    given = merged(settings, {"task": task, "data": {"train": [str(one) for one in data]}})
    return resolve(given, environment={}), given


@pytest.fixture
def plenty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten million tokens of text, without a file."""
    tokenizer = train_tokenizer(["bytes"], TokenizerConfig(kind="byte"), task="language")
    monkeypatch.setattr(plan, "data_size", lambda config: DataSize(10**7, tokenizer=tokenizer))


def made(task: str, *data: str | Path, seconds: float, memory: int | None = None, **settings: Any) -> Plan:
    return make_plan(read_input(*config(task, *data, **settings)), Wanted(seconds, memory, machine()))


BYTE: dict[str, Any] = {"tokenizer": {"kind": "byte"}}


@pytest.fixture
def text(tmp_path: Path) -> Path:
    file = tmp_path / "book.txt"
    file.write_text("".join(f"Once there were {n} little houses in a row.\n" for n in range(3000)))
    return file


@pytest.mark.parametrize(
    ("text", "seconds"), [("90s", 90), ("20min", 1200), ("2h", 7200), ("1d", 86400), ("1h 30m", 5400), ("0.5H", 1800)]
)
def test_times(text: str, seconds: float) -> None:
    assert read_seconds(text) == seconds


@pytest.mark.parametrize(
    "text", ["", "2", "h", "two hours", "-2h", "0s", "2h!", "1e9999s", "2 parsecs", "nan s", "2hh"]
)
def test_times_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="a budget is a time such as 90s, 20min, 2h or 1d, not "):
        read_seconds(text)


def test_bytes_of_a_text_are_counted(text: Path, tmp_path: Path) -> None:
    size = text.stat().st_size
    packed = tmp_path / "book.txt.gz"
    packed.write_bytes(gzip.compress(text.read_bytes()))
    lines = tmp_path / "book.jsonl"
    lines.write_text("".join(json.dumps({"more": "x" * 31, "text": line}) + "\n" for line in text.open()))
    for file in (text, packed, lines):
        found = data_size(config("language", file, **BYTE)[0])
        assert (found.tokens, found.rows, found.exact) == (size, None, True)
    assert data_size(config("masked", text, lines)[0]).tokens < size


def test_a_large_text_is_sampled(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = data_size(config("language", text)[0])
    monkeypatch.setattr(plan_data, "SAMPLE", 20_000)
    part = data_size(config("language", text)[0])
    assert whole.exact and not part.exact and part.complete
    assert 0.7 < part.tokens / whole.tokens < 1.4


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "rows.csv"
    rows = [f"{'abc'[n % 3]},{'word ' * (1 + n % 7)}end {n}" for n in range(2000)]
    file.write_text("label,text\n" + "\n".join(rows) + "\n")
    return file


def test_rows_are_counted_and_long_files_estimated(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = data_size(config("classify", table, **BYTE)[0])
    mean = np.mean([len(line.split(",")[1].rstrip("\n")) + 2 for line in list(table.open())[1:]])  # [CLS] and [SEP]
    assert (whole.rows, whole.labels, whole.exact) == (2000, ("a", "b", "c"), True)
    assert whole.tokens == pytest.approx(2000 * mean, rel=1e-4)
    monkeypatch.setattr(plan_data, "LOOKED", 10_000)
    monkeypatch.setattr(plan_data, "ROWS", 101)
    part = data_size(config("classify", table, **BYTE)[0])
    assert part.rows is not None and not part.complete and not part.exact
    assert 0.9 < part.rows / 2000 < 1.1 and 0.8 < part.tokens / whole.tokens < 1.2


def test_pictures_in_folders_are_counted_by_class(tmp_path: Path) -> None:
    for name, count in (("cat", 5), ("dog", 2)):
        (tmp_path / name / "inner").mkdir(parents=True)
        for at in range(count):
            Image.new("RGB", (11, 7)).save(tmp_path / name / ("inner" if at else "") / f"{at}.png")
    found = data_size(config("images", tmp_path)[0]).pictures
    assert found is not None
    assert (found.count, found.size, found.channels, found.labels) == (7, (7, 11), 3, ("cat", "dog"))


@pytest.mark.usefixtures("plenty")
def test_the_lowest_loss_to_expect() -> None:
    found = made("language", "x", seconds=1000.0)
    rated = [one.excess for one in found.candidates]
    at = list(found.candidates).index(found.best)
    assert rated[at] == min(rated) and 0 < at < 4 == len(rated) - 1, rated
    assert rated == [*sorted(rated[: at + 1], reverse=True), *sorted(rated[at + 1 :])]
    assert [one.price.inner for one in found.candidates] == sorted(one.price.inner for one in found.candidates)


def test_little_data_is_not_given_to_a_model_that_learns_it_by_heart(text: Path) -> None:
    found = made("language", text, seconds=1e7, **BYTE)
    at = list(found.candidates).index(found.best)
    assert found.best.ratio >= LEAST > found.candidates[at + 1].ratio and found.best.limit == DATA
    assert "no more parameters than tokens to see" in found.why


@pytest.mark.usefixtures("plenty")
@pytest.mark.parametrize("seconds", [200.0, 5000.0])
def test_time_and_passes_are_kept(seconds: float) -> None:
    for one in made("language", "x", seconds=seconds).candidates:
        assert one.steps * one.seconds <= SHARE * seconds
        assert one.passes <= PASSES["language"] + one.read / one.data
        assert one.tokens == one.steps * one.batch * one.length
        assert one.limit == (TIME if one.passes < PASSES["language"] else DATA)


@pytest.mark.usefixtures("plenty")
def test_a_longer_time_gives_a_larger_model_and_batch() -> None:
    short, long = (made("language", "x", seconds=seconds) for seconds in (100.0, 20_000.0))
    assert short.best.price.inner < long.best.price.inner and "the lowest loss to expect" in long.why
    assert short.best.batch == 8 and all(one.steps < ENOUGH for one in short.candidates if one.batch > 8)
    assert max(one.batch for one in long.candidates) > 8
    assert all(one.steps >= ENOUGH for one in long.candidates if one.batch > 8)


def test_what_was_given_stays(text: Path) -> None:
    model = {"architecture": "llama", "width": 48, "layers": 3, "heads": 4}
    found = made("language", text, seconds=200.0, length=24, batch=6, model=model, **BYTE)
    assert len(found.candidates) == 1 and "the size was given" in found.why
    words = shlex.split(found.command)
    pairs = dict(pairwise(words))
    assert (pairs["--model.width"], pairs["--batch"], pairs["--length"]) == ("48", "6", "24")
    assert pairs["--model.architecture"] == "llama" and pairs["--tokenizer.kind"] == "byte"


def test_a_length_leaves_room_for_what_is_held_out(tmp_path: Path, text: Path) -> None:
    small = tmp_path / "small.txt"
    small.write_text("A few words, again. " * 30)
    lengths = {file: length_for(*known(file)) for file in (small, text)}
    assert lengths[small] == 32 < 0.1 * 600 and lengths[text] == 128
    assert length_for(*known(text, data={"held": 0.0})) == 128


def known(file: Path, **settings: Any) -> Any:
    found = config("language", file, **BYTE, **settings)[0]
    return found, data_size(found)


def test_the_command_means_the_plan(table: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = {"data": {"cut": True, "validation": ["a.csv", "b c.csv"]}, "objectives": {"words": 2.0}}
    found = made("classify", table, seconds=100.0, **given, **BYTE)
    words = shlex.split(found.command)
    assert words[:2] == ["headway", "train"] and main([*words[1:], "--print-config"]) == 0
    said = capsys.readouterr().out
    for line in (f"steps: {found.best.steps}", f"batch: {found.best.batch}", f"  width: {found.best.choice.width}",
                 "task: classify", "  cut: true", "  - b c.csv", "  words: 2.0", "  kind: byte"):  # fmt: skip
        assert line in said.splitlines(), line


def test_a_setting_of_every_kind_is_written() -> None:
    words = command_of(("x",), {"data": {"train": ["x"], "packed": False}, "compile": True}, {"model": {"heads": None}})
    assert words == "headway train x --compile"


def test_every_step_of_the_ladder_can_be_built_and_is_larger() -> None:
    sizes = [12 * width * width * layers for width, layers in LADDER]
    assert all(2 < b / a < 4.1 for a, b in pairwise(sizes)), sizes
    assert all(width % max(1, width // 64) == 0 and width % 32 == 0 for width, _ in LADDER)


@pytest.mark.parametrize("architecture", ["davit", "recurrent", "llama", None])
def test_models_of_rising_size(architecture: str | None) -> None:
    """Of a model without layers to choose, the width alone."""
    found = choices(config("language", "x", model={"architecture": architecture})[0])
    widths = [one.width or 0 for one in found]
    assert len(found) > 5 and widths == sorted(set(widths)) and {one.architecture for one in found} == {architecture}
    assert all((one.layers is None) == (architecture in ("davit", "recurrent")) for one in found)


def test_a_budget_too_short_for_one_step(text: Path) -> None:
    with pytest.raises(ValueError, match=r"a budget of 0\.0001 s is too short for one step of the smallest model: it "):
        made("language", text, seconds=1e-4, **BYTE)


def test_as_json_and_as_text(text: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan_sizes, "LADDER", LADDER[:2])
    found = made("language", text, seconds=200.0, **BYTE)
    said = json.loads(json.dumps(as_json(found, Wanted(200.0, None, machine()))))
    best = [one for one in said["candidates"] if one["recommended"]]
    assert len(best) == 1 and best[0]["steps"] == found.best.steps and said["command"] == found.command
    lines = plain_text(data_text(found.known), [plan_table(found)], remarks(found)).splitlines()
    assert [line for line in lines if line.startswith("*")][-1] == f"* {found.why}" and lines[-1] == found.command


@pytest.mark.usefixtures("plenty")
def test_what_does_not_fit_is_not_taken() -> None:
    free = made("language", "x", seconds=2000.0)
    memory = free.best.price.memory - 1
    tight = made("language", "x", seconds=2000.0, memory=memory)
    assert all(one.price.memory <= memory for one in tight.candidates if one.steps)
    assert tight.best.price.memory <= memory < free.best.price.memory
    assert tight.best.batch < free.best.batch or tight.best.price.inner < free.best.price.inner
    with pytest.raises(ValueError, match="a memory of 1,000 bytes is too small: a step of the smallest model takes "):
        made("language", "x", seconds=9.0, memory=1000)
