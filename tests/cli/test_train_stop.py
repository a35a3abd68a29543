"""A run that is killed or stopped goes on to the same weights, bit for bit; and mistakes are said in one sentence."""

import json
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from headway.cli import main
from tests.processes import Child
from tests.thorough import THOROUGH

STEPS = 32
SETTINGS = [
    "--tokenizer.kind", "byte", "--model.layers", "1", "--model.width", "16", "--model.heads", "2", "--length", "16",
    "--model.dropout", "0.1", "--batch", "4", "--steps", str(STEPS), "--evaluate-every", "9", "--save-every", "7",
    "--log-every", "1", "--samples", "0", "--optim.average", "0.9",
]  # fmt: skip


@pytest.fixture(scope="module")
def text(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("text") / "book.txt"
    file.write_text("".join(f"Line {number} of a book that counts to {number * number}.\n" for number in range(400)))
    return file


@pytest.fixture(scope="module")
def one_thread() -> Iterator[None]:
    """As in the processes whose runs are compared with those here."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="module")
def straight(text, tmp_path_factory, one_thread) -> Path:
    run = tmp_path_factory.mktemp("straight") / "run"
    assert main(["train", str(text), *SETTINGS, "--out", str(run)]) == 0
    return run


def reached(run: Path, step: int, process: Child) -> None:
    """Wait until a step is logged."""
    file = run / "metrics.jsonl"
    for _ in range(6000):
        if file.exists() and f'"step": {step},' in file.read_text():
            return
        assert process.poll() is None, process.stderr
        time.sleep(0.01)
    raise AssertionError(f"step {step} was not reached")


def tensors(run: Path) -> dict[str, bytes]:
    file = run / "checkpoints" / f"step-{STEPS:08d}" / "part-0000-of-0001.safetensors"
    with safe_open(file, "pt") as opened:
        return {name: opened.get_tensor(name).numpy().tobytes() for name in opened.keys()}  # noqa: SIM118


SIGNALS = [(signal.SIGKILL, -9), (signal.SIGINT, 130), *([(signal.SIGTERM, 130)] if THOROUGH else [])]


@pytest.mark.parametrize(("number", "code"), SIGNALS)
def test_a_stopped_run_goes_on_to_the_same_weights(
    text, straight, tmp_path, capsys, one_thread, processes, number, code
):
    run = tmp_path / "run"
    process = processes.headway("train", str(text), *SETTINGS, "--out", str(run))
    reached(run, 10, process)
    process.send_signal(number)
    assert process.wait(60) == code
    capsys.readouterr()
    assert main(["train", str(text), *SETTINGS, "--out", str(run), "--resume"]) == 0
    assert "goes on after step" in capsys.readouterr().err
    assert tensors(run) == tensors(straight)
    ours, theirs = (load_file(place / "model" / "model.safetensors") for place in (run, straight))
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    ours, theirs = (
        [(row["kind"], row["step"], row.get("loss")) for row in map(json.loads, (place / "metrics.jsonl").open())
         if row["kind"] in ("train", "validation")]
        for place in (run, straight)
    )  # fmt: skip
    assert ours == theirs


def test_a_mistake_costs_no_run(text, tmp_path, capsys):
    """Neither one that was to be overwritten, nor one that was to be resumed."""
    run, small = tmp_path / "run", [*SETTINGS, "--out", str(tmp_path / "run")]
    small[small.index("--steps") + 1] = "4"
    assert main(["train", str(text), *small]) == 0
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert main(["train", "nowhere.txt", *small, "--overwrite"]) == 2
    assert main(["train", str(text), *small, "--resume", "--model.hidden", "48"]) == 2
    assert main(["train", "--out", str(run), "--resume", "--config", "x.yaml"]) == 2
    assert {path: path.read_bytes() for path in run.rglob("*") if path.is_file()} == before
    assert main(["train", "--out", str(run), "--resume", "--steps", "6"]) == 0
    assert not list(tmp_path.glob(".run*"))


def test_changed_data_is_said(tmp_path, capsys):
    file, run = tmp_path / "book.txt", tmp_path / "run"
    file.write_text("A book of few words.\n" * 300)
    small = [*SETTINGS, "--out", str(run)]
    small[small.index("--steps") + 1] = "4"
    assert main(["train", str(file), *small]) == 0
    file.write_text("Another book of some words.\n" * 300)
    capsys.readouterr()
    assert main(["train", "--out", str(run), "--resume", "--steps", "5"]) == 0
    assert "its data or tokenizer has changed" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["nowhere.txt"], "nowhere.txt"),
        (["book.txt", "--stpes", "3"], "did you mean --steps"),
        (["book.txt", "--optim.rate", "-1"], "rate='-1'"),
        (["book.txt", "--task", "sing"], "sing"),
        (["empty.txt"], "empty.txt is empty"),
        (["latin.txt"], "not UTF-8"),
        (["one.csv", "--task", "classify"], "at least two classes"),
        (["one.csv", "--task", "classify", "--data.text", "txt"], "txt"),
        (["book.txt", "--resume"], "--out"),
        (["book.txt", "--out", "nothing", "--resume"], "nothing is no run"),
        (["book.txt", "--config", "wrong.yaml"], "stepps"),
        (["book.txt", "--config", "wrong.toml"], "wrong.toml is not valid TOML"),
        (["book.txt", "--batch", "5", "--accumulate", "2"], "batch 5 cannot be shared"),
        (["book.txt", "--model.width", "30", "--model.heads", "4"], "30 is not divisible by heads 4"),
        (["book.txt", "--length", "100000"], "one window needs 100001"),
        (["book.txt", "--model.start", "elsewhere"], "elsewhere"),
        (["book.txt", "--model.architecture", "vit"], "vit"),
        (["book.txt", "--out", "taken"], "taken is not empty"),
        (["book.txt", "--out", "taken", "--overwrite"], "taken holds no run"),
        (["book.txt", "--model.preset", "gpt2", "--model.architecture", "llama"], "leave model.architecture out"),
        (["book.txt", "--model.preset", "gpt2", "--model.start", "elsewhere"], "are two models: name one"),
        (["book.txt", "--model.attention", "locl"], "did you mean local"),
        (["book.txt", "--model.window", "3"], "window is an option of local or spatial attention"),
        (["book.txt", "--model.attention", "local"], "window"),
        (["book.txt", "--model.positions", "rotery"], "did you mean rotary"),
        (["book.txt", "--model.config", "nowhere.json"], "there is no file nowhere.json"),
        (["book.txt", "--data.augment", "flip"], "data.augment is for the task images"),
        (["book.txt", "--patience", "3", "--data.held", "0"], "patience 3 needs held-out data"),
        ([], "nothing to train on"),
    ],
)
def test_a_mistake_is_one_sentence(tmp_path, monkeypatch, capsys, arguments, sentence):
    monkeypatch.chdir(tmp_path)
    Path("book.txt").write_text("A book of few words, again and again.\n" * 200)
    Path("empty.txt").write_text("")
    Path("latin.txt").write_bytes(b"caf\xe9\n" * 9)
    Path("one.csv").write_text("text,label\n" + "a text,same\n" * 9)
    Path("wrong.yaml").write_text("stepps: 3\n")
    Path("wrong.toml").write_text("steps = = 3\n")
    Path("taken").mkdir()
    Path("taken/thesis.tex").write_text("years of work")
    small = [] if "--length" in arguments else ["--length", "16"]
    assert main(["train", *arguments, "--steps", "2", *small]) == 2
    said = capsys.readouterr().err.strip().splitlines()[-1]
    assert said.startswith("headway: ") and sentence in said
    assert Path("taken/thesis.tex").exists()
    assert not Path("runs").exists() or not list(Path("runs").iterdir())  # nothing half-made is left
