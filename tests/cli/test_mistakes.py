"""What a command says of streams that are closed, values that are no numbers, files that hold something else."""

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers

import headway
from headway.cli import main
from headway.cli.errors import LONGEST, report_errors
from headway.config import Special
from headway.config.text import SentenceConfig
from headway.data.tokenizer import Tokenizer
from headway.decoding.beam import Beams
from headway.presets.bert import bert
from headway.presets.seq2seq import t5
from tests.fresh import fresh


def words() -> Tokenizer:
    engine = Engine(models.WordLevel({"[UNK]": 0, "a": 1, "b": 2}, unk_token="[UNK]"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    return Tokenizer(engine)


def told(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one sentence of a command that is refused."""
    assert main(list(map(str, arguments))) == 2
    lines = capsys.readouterr().err.splitlines()
    assert sum(line.startswith("headway: ") for line in lines) == 1
    return lines[-1]


@pytest.mark.parametrize("command", [["--help"], ["train", "--help"], ["cost", "--help"], ["info"]])
def test_a_reader_that_leaves_after_one_line_is_no_error(command: list[str]) -> None:
    """As `headway --help | head -1`, in a shell that tells of a pipe nobody reads as of a signal."""
    reading, writing = os.pipe()
    os.close(reading)
    call = [sys.executable, "-m", "headway", *command]
    done = subprocess.run(call, stdout=writing, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_a_closed_stdout_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    assert main(["info"]) == 2
    assert "standard output is closed" in capsys.readouterr().err


def test_a_closed_stdin_is_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes: dict[str, Any] = {"layers": 1, "width": 8, "heads": 2, "hidden": 7, "vocabulary": 3, "length": 5}
    headway.save(headway.build(bert(**sizes, classes=2)), tmp_path / "bert", tokenizer=words())
    headway.save(headway.build(SentenceConfig(encoder=bert(**sizes), limit=5)), tmp_path / "vectors", tokenizer=words())
    monkeypatch.setattr(sys, "stdin", None)
    for command in (["classify", tmp_path / "bert"], ["embed", tmp_path / "vectors", "-o", tmp_path / "x.npy"],
                    ["train", "-", "--out", tmp_path / "run"]):  # fmt: skip
        assert "standard input is closed: give a file, or something to read" in told(capsys, *command)


def test_a_closed_stderr_leaves_results_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """print() takes None for stdout: a note would stand among the results."""
    monkeypatch.setattr(sys, "stderr", None)
    assert report_errors(lambda: print("a note", file=sys.stderr) or 0, []) == 0
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("power", [float("nan"), float("inf"), -1e308, 1e308])
def test_a_length_penalty_is_a_power_that_numbers_bear(power: float) -> None:
    with pytest.raises(ValueError, match="a length penalty is a power from -50 to 50"):
        Beams(alpha=power)


@pytest.mark.parametrize("verb", ["translate", "generate"])
def test_it_is_refused_without_a_beam_and_before_a_model_is_loaded(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, verb: str
) -> None:
    (tmp_path / "lines").write_text("a\n")
    more = [tmp_path / "lines"] if verb == "translate" else ["--prompt", "a"]
    assert "a length penalty is a power" in told(capsys, verb, tmp_path, *more, "--length-penalty", "nan")


def test_a_full_disk_is_told_without_its_number(capsys: pytest.CaptureFixture[str], monkeypatch: Any) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        monkeypatch.setattr("headway.cli.errors._discard_stdout", lambda: None)
        assert main(["info"]) == 2
        monkeypatch.undo()
        assert capsys.readouterr().err.endswith("headway: no space left on device\n")
        full.buffer.raw.close()


def test_a_value_of_a_million_letters_is_shortened(capsys: pytest.CaptureFixture[str]) -> None:
    assert len(told(capsys, "eval", "bert", "--task", "x" * 10**6)) <= LONGEST + len("headway: ")


def test_control_characters_of_a_path_are_spelled_out(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in told(capsys, "info", "no\x1b[31m/such")


@pytest.mark.parametrize("name", ["x" * 300, "x/" * 3000])
def test_a_path_that_is_too_long_is_told(capsys: pytest.CaptureFixture[str], name: str) -> None:
    assert told(capsys, "info", f"./{name}")
    assert told(capsys, "cost", "gpt2", "--out", name)


def test_memory_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert report_errors(lambda: len(torch.empty(2**60)), []) == 2
    assert "memory" in capsys.readouterr().err


def test_a_place_to_write_to_is_checked_before_the_work(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headway.audit.examination.open_subject", None)  # nothing is opened
    assert "does not exist" in told(capsys, "audit", "gpt2", "--html", tmp_path / "no" / "page.html")


def test_labels_stay_in_their_cell(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    labels = ("a\tb", "c\nd", "e\x1b[31m")
    config = bert(width=8, heads=2, layers=1, hidden=8, vocabulary=3, length=8, classes=3, labels=labels)
    headway.save(fresh(config), tmp_path / "m", tokenizer=words())
    (tmp_path / "lines").write_text("a b\n")
    assert main(["classify", str(tmp_path / "m"), str(tmp_path / "lines")]) == 0
    out = capsys.readouterr().out
    assert out.count("\n") == 1 and out.count("\t") == 5 and "\x1b" not in out


def test_health_on_an_empty_file_is_told(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = fresh("gpt2", layers=1, width=8, heads=2, vocabulary=3, length=8)
    headway.save(model, tmp_path / "m", tokenizer=words())
    (tmp_path / "empty.txt").write_text("")
    assert "empty" in told(capsys, "audit", tmp_path / "m", "--health", "--data", tmp_path / "empty.txt")


def test_a_start_token_outside_of_the_vocabulary_is_told() -> None:
    config: Any = t5(width=8, hidden=8, layers=1, heads=2, head_width=4)
    model = fresh(config.model_copy(update={"vocabulary": 13, "special": Special(start=13, end=(1,))}))
    with pytest.raises(ValueError, match="the start token 13 is outside of the model's vocabulary of 13"):
        headway.generate(model, (1, 2), max_new_tokens=2)


def test_a_full_disk_while_a_model_is_converted_is_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, processes: Any
) -> None:
    """RLIMIT_FSIZE is how large a file may become; the system answers as on a full disk."""
    headway.save(fresh("gpt2", layers=1, width=64, heads=2, vocabulary=999, length=8), tmp_path / "m")
    code = (
        "import resource, signal, sys\nfrom headway.cli import main\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\nresource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    done = processes.run(code, "convert", str(tmp_path / "m"), str(tmp_path / "new"))
    assert done.code == 2 and "Traceback" not in done.stderr, done.stderr
    assert done.stderr.splitlines()[-1].startswith("headway: ") and "file too large" in done.stderr.lower()
    assert sorted(one.name for one in tmp_path.iterdir()) == ["m"]
