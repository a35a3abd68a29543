"""The display of a training: in a log, on a terminal, in one process of many."""

import os
import pty
import re
import subprocess
import sys
from typing import Any

import pytest

from headway.app import progress as module
from headway.app.progress import Progress

ROW = {"kind": "train", "loss": 1.73214, "rate": 8.2e-4, "norm": 0.5}

SHOW = """
from headway.app.progress import Progress
with Progress(97, 11, "first") as shown:
    shown.note("a [b]note[/b] :smile:")
    for step in (13, 17, 97):
        shown.train({"step": step, "loss": 1.5, "rate": 1e-3, "tokens": 7 * step})
    shown.validation({"step": 97, "loss": 1.25, "accuracy": 0.5})
    shown.sample("To be", " or\\x1b[31m not")
    print("result")
"""


class Watch:
    """A clock that goes when told to."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(module.time, "monotonic", lambda: self.now)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    monkeypatch.delenv("RANK", raising=False)
    return Watch(monkeypatch)


def row(step: int, **more: Any) -> dict[str, Any]:
    return {**ROW, "step": step, "tokens": 100 * step, **more}


def test_a_log_gets_a_line_every_few_seconds_and_the_last(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(101, 1, "first") as shown:
        for step in range(2, 102):
            watch.now += 0.5
            shown.train(row(step))
    found = capsys.readouterr()
    lines = found.err.splitlines()
    assert found.out == "" and 6 <= len(lines) <= 11
    assert lines[0].startswith("2 of 101 steps · loss 1.7321 · rate 0.00082")
    assert re.search(r" · 200 tokens/s · 4\d s left$", lines[1])
    assert lines[-1].startswith("101 of 101 steps") and not lines[-1].endswith("left")


def test_a_resumed_run_is_timed_from_where_it_starts(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(1100, 1000, "first") as shown:
        for step in (1010, 1020):
            watch.now += 10
            shown.train(row(step))
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.endswith("· 100 tokens/s · 1 min 20 s left")


def test_validations_notes_and_samples_are_lines(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    with Progress(10) as shown:
        shown.validation({"kind": "validation", "step": 7, "loss": 1.25, "bits_per_byte": 2.5, "seconds": 3.0})
        shown.note("a [bold]word[/bold] \x1b[2J" + "long " * 60)
        shown.sample("KING:\n", " O\n\x1b[2Jend")
        shown.validation({"step": 9, "loss": "nan"})
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "step 7: validation loss 1.25 · bits per byte 2.5"
    assert lines[1].startswith("a [bold]word[/bold] ␛[2Jlong") and lines[1].count("long") == 60
    assert lines[2:5] == ["  ╭ KING:", "  │  O", "  │ ␛[2Jend"]
    assert lines[5] == "step 9: validation loss NaN"


@pytest.mark.parametrize("rank", ["0", "1"])
def test_one_process_of_many_speaks(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], rank: str
) -> None:
    monkeypatch.setenv("RANK", rank)
    with Progress(10) as shown:
        shown.note("a")
        shown.train(row(1))
        shown.validation({"step": 1, "loss": 1.0})
        shown.sample("a", "b")
    assert bool(capsys.readouterr().err) == (rank == "0")


def test_closing_twice_says_nothing_twice(watch: Watch, capsys: pytest.CaptureFixture[str]) -> None:
    shown = Progress(10)
    shown.train(row(1))
    shown.close()
    shown.close()
    assert len(capsys.readouterr().err.splitlines()) == 1


def terminal(**environment: str) -> tuple[str, str]:
    """stdout, and what a terminal at stderr gets."""
    master, slave = pty.openpty()
    settings = {"TERM": "xterm-256color", "COLUMNS": "100", "LINES": "30"} | environment
    plain = {name: value for name, value in os.environ.items() if name not in ("NO_COLOR", "FORCE_COLOR", "RANK")}
    process = subprocess.Popen(
        [sys.executable, "-c", SHOW], env=plain | settings, stdout=subprocess.PIPE, stderr=slave, text=True
    )
    os.close(slave)
    seen = b""
    while True:
        try:
            part = os.read(master, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    out, _ = process.communicate(timeout=30)
    os.close(master)
    assert process.returncode == 0
    return out, seen.decode()


def test_a_terminal_gets_a_bar_and_stdout_nothing_of_it() -> None:
    out, seen = terminal()
    assert out == "result\n"
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert "first" in plain and "━" in plain and "97 of 97  100 %" in plain and "validation 1.2500" in plain
    assert "a [b]note[/b] :smile:" in plain and "To be or␛[31m not" in plain
    assert "\x1b[31m not" not in seen  # the model's own
    assert seen.rstrip().endswith("\x1b[?25h")  # the cursor is back


def test_no_color_is_honoured_on_a_terminal() -> None:
    colours = re.compile(r"\x1b\[[0-9;]*(?:3[0-8]|9[0-7])[0-9;]*m")
    assert colours.search(terminal()[1])
    assert not colours.search(terminal(NO_COLOR="1")[1])


def test_a_dumb_terminal_gets_lines() -> None:
    assert "\x1b" not in terminal(TERM="dumb")[1]
