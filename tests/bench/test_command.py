"""`headway bench` as a user meets it, on a toy work that takes no time."""

import json
import sys
from types import ModuleType

import pytest
import torch

from headway.bench import WORKS, run, show
from headway.bench.machine import MachineLimits
from headway.bench.measure import Timing
from headway.bench.row import Row, Target
from headway.cli import main
from headway.cli.bench import Work

MACHINE = MachineLimits("toy processor", 1, {"float32": 1e9}, 1e9, Timing((1.0, 1.0)))
TARGET = Target("at most 9 x", at_most=9.0)


def equal(session):
    contenders = {"torch": lambda: torch.ones(3), "headway": lambda: torch.ones(3)}
    row = Row("attention", "sum", "L3", "float32")
    yield session.race(row, contenders, flops=1000, target=TARGET, budget=0.0, longest=60.0, least=3)


def unequal(session):
    contenders = {"torch": lambda: torch.ones(3), "headway": lambda: torch.zeros(3)}
    yield session.race(Row("attention", "max", "L3", "float32"), contenders, target=TARGET)


@pytest.fixture(autouse=True)
def toy(monkeypatch):
    module = ModuleType("toy_work")
    module.CASES = {"equal": equal, "unequal": unequal}  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "toy_work", module)
    monkeypatch.setitem(WORKS, "attention", "toy_work")
    monkeypatch.setattr(run, "measure", lambda: MACHINE)
    monkeypatch.setattr(run, "reference", lambda: Timing((1.0, 1.0)))


def test_json_is_a_list_of_rows_on_stdout_and_progress_is_on_stderr(capsys):
    assert main(["bench", "attention", "--only", "equal", "--json"]) == 0
    out, err = capsys.readouterr()
    (row,) = json.loads(out)
    assert {"work", "model", "shape", "precision", "streams", "headway", "peers", "unit", "best_peer"} < set(row)
    assert {"ratio_to_best", "limit", "share_of_limit", "spread"} < set(row)
    assert (row["work"], row["model"], row["streams"], row["unit"]) == ("attention", "sum", 1, "ms")
    assert row["ratio_to_best"] > 0
    assert row["peers"]["torch"] > 0
    assert row["machine"].startswith("toy processor, 1 threads")
    assert "equal: sum, L3, float32" in err


def test_the_table_says_target_and_verdict(capsys):
    assert main(["bench", "--only", "equal"]) == 0
    out = capsys.readouterr().out
    assert "at most 9 x" in out
    assert "toy processor" in out
    assert "1 met" in out or "1 unclear" in out or "1 missed" in out


def test_a_disagreement_is_a_row_without_figures_and_exit_code_1(capsys):
    assert main(["bench", "attention", "--json"]) == 1
    first, second = json.loads(capsys.readouterr().out)
    assert first["headway"] > 0
    assert (second["headway"], second["verdict"], second["peers"]) == (None, "not measured", {})
    assert "disagree" in second["note"]


def test_a_noisy_machine_is_said_on_stderr(capsys, monkeypatch):
    monkeypatch.setattr(run, "reference", lambda: Timing((2.0, 2.0)))
    assert main(["bench", "--only", "equal", "--json"]) == 0
    out, err = capsys.readouterr()
    assert "warning: the same product took +100% at the end of the run" in err
    assert "warning" not in out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["attentoin"], '"attention"'),
        (["--only", "equa"], "did you mean 'equal'? the cases are equal, unequal"),
        (["--only", "zzz"], "no case 'zzz' in 'attention': the cases are equal, unequal"),
        (["--qick"], "--quick"),
        (["--threads", "0"], "at least 1"),
        (["--plot", "picture.doc"], ".png"),
        (["--plot", "nowhere/at/all.png"], "does not exist"),
        (["decode", "nowhere"], "`headway bench decode` takes one directory of a model, not nowhere"),
        (["decode", "--streams", "0"], "--streams is at least 1, not 0"),
        (["embed", "--sentences", "0"], "--sentences is at least 1, not 0"),
        (["prefill", "--peers", "nowhere"], "nowhere is no environment with a bin/python"),
    ],
)
def test_mistakes_end_with_exit_code_2_and_a_sentence_before_anything_is_measured(arguments, said, capsys):
    assert main(["bench", *arguments]) == 2
    out, err = capsys.readouterr()
    assert said in err
    assert out == ""
    assert "measuring" not in err


def test_a_missing_extra_says_how_to_install_it(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(show, "find_spec", lambda name: None)
    assert main(["bench", "--plot", str(tmp_path / "rows.png")]) == 2
    assert 'pip install "headway[plot]"' in capsys.readouterr().err


def test_the_plot_is_a_picture(tmp_path, capsys):
    path = tmp_path / "rows.png"
    assert main(["bench", "--only", "equal", "--plot", str(path)]) == 0
    assert path.read_bytes().startswith(b"\x89PNG")
    show.draw([], tmp_path / "empty.svg")
    assert b"<svg" in (tmp_path / "empty.svg").read_bytes()


def test_the_command_line_offers_every_work():
    assert list(Work.__args__) == [*WORKS, "report"]
