"""`headway plan` as a command: the command that it prints trains."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest

from headway.app.plan import sizes as plan_sizes
from headway.cli import main
from headway.cost.time import machine as machines
from tests.app.machine_by_hand import machine, remember


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan_sizes, "LADDER", plan_sizes.LADDER[:2])
    remember(machine())
    Path("book.txt").write_text(
        "".join(f"Once there were {n} little houses. They stood in a row.\n" for n in range(60))
    )
    Path("rows.csv").write_text("label,text\n" + "".join(f"{'ab'[n % 2]},a word of {n}\n" for n in range(60)))
    pairs = "".join(f"a word {n}\tun mot {n}\n" for n in range(60))
    Path("pairs.tsv").write_text("source\ttarget\n" + pairs)
    Path("twins.tsv").write_text("first\tsecond\n" + pairs)
    np.savez("x.npz", images=np.zeros((40, 8, 8), np.uint8), label=np.arange(40) % 3)


def planned(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["plan", *arguments]) == code
    found = capsys.readouterr()
    return found.out, found.err


DATA = {
    "language": "book.txt", "masked": "book.txt", "classify": "rows.csv", "seq2seq": "pairs.tsv",
    "embed": "twins.tsv", "images": "x.npz",
}  # fmt: skip
SMALL = ("--budget", "20s", "--tokenizer.vocabulary", "300")


def test_the_printed_command_trains(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = planned(capsys, "language", "book.txt", *SMALL)
    assert err == "" and "*" in out
    words = shlex.split(out.splitlines()[-1])
    words[words.index("--steps") + 1] = "2"
    assert main([*words[1:], "--out", "run"]) == 0
    assert Path("run/model/config.json").exists()


@pytest.mark.parametrize("task", [task for task in DATA if task != "language"])
def test_every_task_has_a_plan_that_can_be_prepared(task: str, capsys: pytest.CaptureFixture[str]) -> None:
    more = SMALL if task != "images" else SMALL[:2]
    found = json.loads(planned(capsys, task, DATA[task], *more, "--json")[0])
    best = next(one for one in found["candidates"] if one["recommended"])
    assert best["steps"] > 0 and found["task"] == task
    assert main([*shlex.split(found["command"])[1:], "--dry-run"]) == 0
    said = capsys.readouterr().out
    assert f"of {best['parameters']:,} parameters, {best['steps']:,} steps of {best['batch']} examples" in said


@pytest.mark.parametrize("architecture", ["davit", "recurrent", "llama"])
def test_other_architectures(architecture: str, capsys: pytest.CaptureFixture[str]) -> None:
    task = {"davit": "images", "recurrent": "seq2seq", "llama": "language"}[architecture]
    more = SMALL if task != "images" else SMALL[:2]
    out, _ = planned(capsys, task, DATA[task], *more, "--model.architecture", architecture, "--model.width", "32")
    assert main([*shlex.split(out.splitlines()[-1])[1:], "--dry-run"]) == 0


def test_nothing_is_written(capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(Path().rglob("*"))
    planned(capsys, "language", "book.txt", *SMALL)
    assert sorted(Path().rglob("*")) == before


def test_a_machine_that_was_never_measured_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.place().unlink()
    monkeypatch.setattr(machines, "measure", lambda say: say("measuring") or machine())
    out, err = planned(capsys, "language", "book.txt", *SMALL)
    assert "was not measured yet" in err and "measuring" in err and "headway train" in out


@pytest.mark.parametrize(
    "arguments",
    [["book.txt", "a word too many"], ["nothing.txt"], ["book.txt", "--memory", "lots"], ["-"], ["rows.csv"],
     ["book.txt", "--model.start", "somewhere"], ["book.txt", "--model.preset", "nothing"]],
)  # fmt: skip
def test_a_mistake_is_found_before_the_machine_is_measured(
    arguments: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    machines.place().unlink()
    monkeypatch.setattr(machines, "measure", lambda say: pytest.fail("it was measured"))
    Path("rows.csv").write_text("no,text,here\n")
    _, err = planned(capsys, "classify" if "rows.csv" in arguments else "language", *arguments, code=2)
    assert err.count("\n") == 1 and "was not measured" not in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["language", "book.txt", "--budget", "soon"], "a budget is a time such as 90s, 20min, 2h or 1d, not 'soon'"),
        (["language", "book.txt", "--budget", "1h", "--memory", "lots"], "'lots' is no amount of memory"),
        (["language", "nothing.txt"], "there is no file or folder nothing.txt"),
        (["language", "-"], "standard input can be read once only"),
        (["translate", "pairs.tsv"], "there is no task 'translate' (did you mean seq2seq?)"),
        (["langauge", "book.txt"], "(did you mean language?)"),
        (["language"], "a plan needs data"),
        (["classify", "pairs.tsv"], "has no column 'text'"),
        (["images", "book.txt"], "book.txt holds no pictures"),
        (["images", "gone.npz"], "there is no file or folder gone.npz"),
        (["language", "book.txt", "--steps", "5"], "leave --steps out"),
        (["language", "book.txt", "--model.start", "somewhere"], "model.start somewhere has its size already"),
        (["language", "book.txt", "--bugdet", "2h"], "--bugdet"),
        (["language", "book.txt", "--budget", "1s", "--model.width", "8192", "--memory", "1T"], "is too short"),
        (["language", "book.txt", "--memory", "1k"], "is too small"),
    ],
)
def test_mistakes_are_one_sentence(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = planned(capsys, *arguments, code=2)
    assert out == "" and said in err and err.count("\n") == 1 and "Traceback" not in err
