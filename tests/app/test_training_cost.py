"""The price of a step by hand, what a run's batches are, the clock that watches it, and the cost of real runs."""

import json
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from headway.app import training_cost
from headway.app.report import report
from headway.app.step_cost import muon_lines, setting_of, step_price, typical
from headway.app.training_cost import StepClock
from headway.cli import main
from headway.config.base import IGNORED
from headway.config.train import TrainConfig
from headway.cost.setting import Setting
from headway.cost.sheet import sheet_of
from headway.data.batch import Batch
from headway.presets.gpt2 import gpt2
from headway.training.distributed import World
from headway.training.loop import TrainingEvent
from headway.training.objectives import TrainingSetup, language_loss
from tests.app.machine_by_hand import RATE, machine, remember
from tests.app.runs_by_hand import make_run
from tests.render.parsed import Parsed

B, L, D, V, N = 3, 5, 14, 11, 2
MODEL = gpt2(width=D, heads=7, layers=N, vocabulary=V, length=L, dropout=0.0)
SETTING = Setting(batch=B, length=L)
# Four projections and eight feed-forward ones of B L D², scores and sums of B L² D, the head.
BLOCK = 12 * B * L * D * D + 2 * B * L * L * D
FORWARD = N * BLOCK + B * L * D * V


def test_a_step_is_three_forward_passes_of_products() -> None:
    found = step_price(MODEL, SETTING)
    assert found.cost.dense == 3 * FORWARD and found.seconds is None
    assert found.parameters - found.inner == (V + L) * D
    assert found.inner == N * (12 * D * D + 13 * D) + 2 * D
    assert found.cost == sheet_of("a step", MODEL, SETTING).phases["step"]


def test_parts_multiply_the_passes_and_not_the_optimiser() -> None:
    one, three = (step_price(MODEL, SETTING, parts=parts, machine=machine()) for parts in (1, 3))
    assert three.cost.dense == 3 * one.cost.dense
    assert 3 * one.cost.other - three.cost.other == 2 * 16 * one.parameters  # AdamW: 16 FLOPs for each
    assert three.memory == one.memory + 4 * one.parameters
    update = 4 * one.parameters / RATE
    assert one.seconds is not None and three.seconds == pytest.approx(3 * one.seconds - 2 * update, rel=1e-9)


def test_checkpointing_computes_the_blocks_again() -> None:
    plain, again = (step_price(MODEL, replace(SETTING, checkpointing=on), machine=machine()) for on in (False, True))
    assert again.cost.dense - plain.cost.dense == N * BLOCK
    assert again.seconds is not None and plain.seconds is not None and again.seconds > plain.seconds


def test_muon_by_hand() -> None:
    """Per block four matrices of D x D, and two of D x 4D, five turns of X Xᵀ, A A and A X each."""
    plain, muon = (step_price(MODEL, SETTING, optimiser=kind, machine=machine()) for kind in ("adamw", "muon"))
    square, wide = 3 * D**3, 2 * D * D * 4 * D + D**3
    more = 5 * N * (4 * square + 2 * wide)
    assert (
        muon.cost.dense - plain.cost.dense
        == more
        == sum(line.runs * line.operation.forward.dense for line in muon_lines(MODEL))
    )
    assert muon.seconds is not None and plain.seconds is not None
    assert muon.seconds - plain.seconds == pytest.approx(more / RATE, rel=1e-6)


def work(task: str, train: Any = None, **settings: Any) -> TrainingSetup:
    return TrainingSetup(
        TrainConfig(**{"task": task, **settings}), SimpleNamespace(config=MODEL), language_loss, train or Rows()
    )


def keep(*lengths: int, total: int) -> torch.Tensor:
    return torch.arange(total) < torch.tensor(lengths)[:, None]


def whole(*shape: int) -> torch.Tensor:
    return torch.zeros(shape, dtype=torch.long)


BATCHES = {
    "language": ({"tokens": whole(3, 5)}, {"batch": 3, "length": 5}),
    "masked": (
        {"tokens": whole(3, 7), "keep": keep(2, 7, 5, total=7),
         "words": torch.tensor([[1, IGNORED], [2, 2], [2, IGNORED]])},
        {"batch": 3, "length": 7, "lengths": (2, 7, 5), "logits": 2},
    ),
    "classify": ({"tokens": whole(2, 7), "keep": keep(3, 7, total=7)}, {"batch": 2, "length": 7, "lengths": (3, 7)}),
    "seq2seq": (
        {"source": whole(2, 11), "source_keep": keep(11, 5, total=11), "target": whole(2, 7),
         "target_keep": keep(4, 7, total=7)},
        {"batch": 2, "length": 7, "source": 11, "lengths": (4, 7), "source_lengths": (11, 5), "logits": 6},
    ),
    "images": ({"images": torch.zeros(5, 1, 8, 8)}, {"batch": 5}),
    "embed": ({"lengths_a": torch.tensor([3, 8]), "lengths_b": torch.tensor([2, 7])}, {"batch": 4, "length": 5}),
}  # fmt: skip


@pytest.mark.parametrize("task", BATCHES)
def test_batches_of_every_task(task: str) -> None:
    inputs, expected = BATCHES[task]
    found = setting_of(work(task, dtype="bfloat16"), Batch(inputs, {"loss": 1}))
    assert {name: getattr(found, name) for name in expected} == expected
    assert found.training and found.dtype == "bfloat16"


def test_packed_documents_are_rows_of_their_mean_length() -> None:
    found = setting_of(work("language"), Batch({"tokens": whole(1, 16), "lengths": torch.tensor([2, 3, 11])}, {}))
    assert (found.batch, found.length) == (3, 5)


class Rows:
    """Examples whose length depends on the row."""

    sizes = None

    def __len__(self) -> int:
        return 48

    def batch(self, rows: Any, keys: Any) -> Batch:
        longest = 3 + int(rows.max()) % 5
        return Batch({"tokens": whole(len(rows), longest), "keep": torch.ones(len(rows), longest) > 0}, {"loss": 1})


def test_a_process_has_its_share_and_all_of_them_read_the_tokens() -> None:
    many = replace(World(), size=4, data_size=4)
    alone, tokens = typical(work("classify", Rows(), batch=24), World())
    share, shared = typical(work("classify", Rows(), batch=24, accumulate=3), many)
    assert (alone.batch, share.batch) == (24, 2)
    assert tokens == 24 * alone.length and shared == 24 * share.length


def test_the_watch_counts_steps_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    monkeypatch.setattr(training_cost.time, "perf_counter", lambda: now)
    watch = StepClock(step=7, tokens=70)
    # (kind, step, seconds since the loop went on, seconds of handling it)
    happened = [("train", 10, 3.0, 5.0), ("validation", 12, 99.0, 7.0), ("checkpoint", 12, 50.0, 0.0),
                ("train", 15, 6.0, 1.0), ("train", 20, 5.5, 1.0), ("end", 20, 0.0, 0.0)]  # fmt: skip
    for kind, step, before, after in happened:
        now += before
        watch.see(TrainingEvent(kind, {"step": step, "tokens": 10 * step}))
        now += after
        watch.rest()
    found = watch.measured()
    assert found is not None
    assert (found.steps, found.seconds, found.tokens) == (13, 1.1, 10.0)  # of 1.0, 2.0 and 1.1
    assert StepClock(step=7, tokens=70).measured() is None


@pytest.fixture
def text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "book.txt"
    file.write_text("".join(f"Once there were {n} little houses in a row.\n" for n in range(300)))
    return file


SMALL = ("--tokenizer.kind", "byte", "--model.width", "16", "--model.layers", "1", "--model.heads", "2", "--batch", "4",
         "--length", "16", "--log-every", "1", "--evaluate-every", "3", "--samples", "0")  # fmt: skip


def trained(capsys: pytest.CaptureFixture[str], *more: str) -> str:
    assert main(["train", *more]) == 0
    return capsys.readouterr().err


def test_a_run_opens_with_its_price_and_closes_with_what_it_took(
    text: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    remember(machine())
    said = trained(capsys, str(text), *SMALL, "--steps", "5", "--out", "run")
    lines = said.splitlines()
    assert lines.index("price") < next(at for at, line in enumerate(lines) if "validation loss" in line)
    assert any(line.split()[:2] == ["5", "steps"] for line in lines) and "expected" in said
    assert [line.split()[0] for line in lines if line.startswith("cost")] == ["cost"], said
    found = json.loads(Path("run/cost.json").read_text())
    compared = {row["what"]: row for row in found["compared"]}
    step = compared["seconds of a step"]
    assert step["predicted"] == pytest.approx(found["seconds"]) and 0 < step["measured"] < 60
    per_second = compared["tokens per second"]
    assert per_second["measured"] == pytest.approx(4 * 16 / step["measured"])
    reached = compared["FLOP/s in products"]
    assert reached["measured"] == pytest.approx(found["phases"]["step"]["executed_flops"] / step["measured"])
    memory = compared["memory of a step"]
    assert memory["predicted"] == found["memory"]["in use at most"] > 16 * sum(found["parameters"].values())
    assert f"{100 * reached['measured'] / (2 * RATE):.0f} %" in reached["remark"]


def test_a_run_that_goes_on_is_priced_anew(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(capsys, str(text), *SMALL, "--steps", "3", "--out", "run")
    said = trained(capsys, "--out", "run", "--resume", "--steps", "5")
    assert any(line.split()[:2] == ["2", "steps"] for line in said.splitlines())
    assert "no predicted times" in said and "headway cost --machine" in said
    rows = {row["what"]: row for row in json.loads(Path("run/cost.json").read_text())["compared"]}
    assert rows["seconds of a step"]["predicted"] is None and rows["seconds of a step"]["measured"] > 0


def test_what_goes_wrong_with_a_price_is_one_line_and_the_weights_are_the_same(
    text: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    trained(capsys, str(text), *SMALL, "--steps", "3", "--model.dropout", "0.3", "--out", "priced")

    def broken(*_: object, **__: object) -> None:
        raise ValueError("a gadget\nhas no price")

    monkeypatch.setattr(training_cost, "price_run", broken)
    said = trained(capsys, str(text), *SMALL, "--steps", "3", "--model.dropout", "0.3", "--out", "unpriced")
    assert "no price: a gadget has no price\n" in said and not Path("unpriced/cost.json").exists()
    ours, theirs = (load_file(Path(run, "model", "model.safetensors")) for run in ("priced", "unpriced"))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    assert "Cost" in Parsed(Path("priced/report.html").read_text()).text


def test_muon_and_parts_in_a_run(text: Path, capsys: pytest.CaptureFixture[str]) -> None:
    remember(machine())
    trained(capsys, str(text), *SMALL, "--steps", "2", "--accumulate", "2", "--optim.kind", "muon", "--out", "run")
    found = json.loads(Path("run/cost.json").read_text())
    assert found["batch"] == {"rows": 2, "length": 16, "parts": 2}
    assert found["phases"]["step"]["flops"] > 2 * (found["phases"]["forward"]["flops"] * 3)


COST = {
    "parameters": {"weights": 786_432, "biases": 0}, "batch": {"rows": 16, "length": 128, "parts": 1}, "tokens": 2048,
    "seconds": 0.5, "memory": {"weights": 4_001}, "machine": "A processor", "notes": ["a <note>"],
    "phases": {"step": {"flops": 12, "useful_flops": 11, "executed_flops": 13, "other_flops": 7}},
    "operations": [{"path": "stack.blocks.up", "kind": "product", "runs": 4, "parameters": 5, "flops": 2047,
                    "other_flops": 0, "seconds": 0.25}],
    "compared": [{"what": "seconds of a step", "predicted": 0.5, "measured": 0.625, "remark": "1.25 times"}],
}  # fmt: skip


def test_the_section_of_a_report(tmp_path: Path) -> None:
    path = make_run(tmp_path)
    assert 'id="cost"' not in report(path).read_text("utf-8")
    (path / "cost.json").write_text(json.dumps(COST))
    text = report(path).read_text("utf-8")
    found = Parsed(text).text
    assert 'id="cost"' in text
    for said in (
        "0.625",
        "1.25 times",
        "stack.blocks.up",
        "2,047",
        "4,001",
        "786,432 parameters",
        "a <note>",
        "A processor",
    ):
        assert said in found
    (path / "cost.json").write_text(json.dumps({**COST, "compared": None, "machine": None}))
    assert "0.625" not in Parsed(report(path).read_text("utf-8")).text


@pytest.mark.parametrize("damaged", ["{", '{"parameters": 3}', "[]"])
def test_a_damaged_file_takes_no_other_section_along(tmp_path: Path, damaged: str) -> None:
    path = make_run(tmp_path)
    (path / "cost.json").write_text(damaged)
    text = report(path).read_text("utf-8")
    assert "This part is missing" in text and 'id="loss"' in text
