"""`headway runs` as a command."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headway.cli import VERBS, main
from tests.app.runs_by_hand import make_run, rows

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(autouse=True)
def listed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(VERBS, "runs", VERBS.get("runs", "List runs."))
    make_run(tmp_path / "runs", "first")
    make_run(tmp_path / "runs", "second", rows(seed=3, best=1.5), batch=24)
    make_run(tmp_path / "runs", "third", [*rows()[:2], {"kind": "train", "step": 20, "loss": "nan"}])
    monkeypatch.chdir(tmp_path)


def shown(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["runs", *arguments]) == code
    found = capsys.readouterr()
    return found.out, found.err


def test_the_list(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = shown(capsys)
    head, *lines = out.splitlines()
    assert err == "" and " ".join(head.split()) == "name task state parameters steps best loss at step time"
    by_name = {line.split()[0]: " ".join(line.split()) for line in lines}
    assert by_name["first"] == "first language finished 809 k 2,000 of 2,000 1.7029 1,600 1 min 30 s"
    assert by_name["third"] == "third language running 809 k 20 of 2,000 – – 0.5 s"


def test_the_list_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    found = {row["name"]: row for row in json.loads(shown(capsys, "--json")[0])}
    assert found["first"]["best_step"] == 1600 and found["third"]["best_loss"] is None
    assert found["second"]["path"] == "runs/second"


def test_a_comparison(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = shown(capsys, "--compare", "first", "second")
    assert out.startswith("Validation loss\n") and "A first" in out and "B second" in out and "⠤" in out
    assert [line.split() for line in out.splitlines()][-1] == ["batch", "12", "24"]


def test_a_comparison_as_json_and_as_a_page(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    out, err = shown(capsys, "--compare", "first", "third", "--json", "--html", "both.html")
    found = json.loads(out, parse_constant=lambda name: pytest.fail(f"JSON has no {name}"))
    assert found["measures"]["last training loss"][1] is None and found["differences"] == {}
    assert err == "page: both.html\n" and "<svg" in (tmp_path / "both.html").read_text("utf-8")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--compare", "frist", "second"], "there is no run 'frist' (did you mean first?); there are first, second"),
        (["--compare", "first"], "--compare takes at least two different runs, not 1"),
        (["nowhere"], "there is no directory nowhere: `headway train` makes runs/<name>; name another directory"),
    ],
)
def test_mistakes(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    out, err = shown(capsys, *arguments, code=2)
    assert out == "" and err.startswith(f"headway: {said}") and err.count("\n") == 1


def test_damage_is_noted_and_names_are_no_markup(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = make_run(tmp_path / "runs", "[red]x")
    (path / "config.yaml").write_text("a: [")
    out, err = shown(capsys)
    assert "[red]x" in out and err == "note: [red]x: config.yaml cannot be read\n"


def test_a_list_needs_no_torch() -> None:
    code = (
        "import sys; from headway.cli import VERBS, main; VERBS.setdefault('runs', 'x'); "
        "print(main(['runs']), main(['runs', '--compare', 'first', 'second']), 'torch' in sys.modules)"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 0 False"
