"""`headway audit` as a command: exit codes, formats, what it leaves in a run, and what it says to a mistake."""

import json
from pathlib import Path

import pytest

from headway import build
from headway.cli import main
from headway.config.train import TokenizerConfig
from headway.data.tokenizer_training import train_tokenizer
from headway.hub.save import save
from tests.app.runs_by_hand import make_run
from tests.cost.tiny import MODELS as TINY
from tests.fresh import fresh

MODELS = """
import torch
from torch import nn
from headway.audit import Adapter


class Peek(nn.Module):
    def __init__(self, padding=(2, 0)):
        super().__init__()
        self.embed, self.mix, self.head = nn.Embedding(50, 8), nn.Conv1d(8, 8, 3), nn.Linear(8, 50)
        self.padding = padding

    def forward(self, tokens):
        x = nn.functional.pad(self.embed(tokens).mT, self.padding)
        return self.head(torch.relu(self.mix(x).mT))


def sound():
    return Peek()


def sick():
    return Peek((1, 1)), Adapter(vocabulary=50, causal=True)


def number():
    return 3


def fails():
    raise RuntimeError("no data here")
"""


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("zoo.py").write_text(MODELS)


def audited(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> tuple[str, str]:
    assert main(["audit", *arguments]) == code
    found = capsys.readouterr()
    return found.out, found.err


def test_a_sound_model_is_0_and_a_sick_one_1(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = audited(capsys, "zoo:sound", "--laws", "causal,batch", "--quick")
    assert "2 laws: 2 hold" in out and "6 trials" not in out.splitlines()[0]
    out, _ = audited(capsys, "zoo:sick", "--laws", "causal,batch", "--quick", code=1)
    assert "Results before place 1 change with the input at 1." in out and "mix (Conv1d)" in out


def test_json_and_a_page(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = audited(capsys, "zoo:sick", "--laws", "causal", "--quick", "--json", "--html", "a.html", code=1)
    found = json.loads(out)
    assert not found["holds"] and found["findings"][0]["module"] == "mix"
    assert found["findings"][0]["example"]["case"]["length"] == 2
    assert "Conv1d" in Path("a.html").read_text()


def test_the_same_seed_gives_the_same_report(capsys: pytest.CaptureFixture[str]) -> None:
    def findings() -> list[dict[str, object]]:
        arguments = ["bare-block", "--laws", "batch,positions", "--quick", "--json", "--seed", "3"]
        out, _ = audited(capsys, *arguments)
        return [{key: one[key] for key in one if key != "seconds"} for one in json.loads(out)["findings"]]

    assert findings() == findings()


def test_health_of_a_preset(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = audited(capsys, "eecs-layer", "--health")
    assert "entropy" in out and "healthy" in out
    out, _ = audited(capsys, "eecs-layer", "--health", "--json", "--html", "h.html")
    assert json.loads(out)["heads"] and "entropy" in Path("h.html").read_text()


def test_of_a_file_without_text_there_is_nothing_to_look_at(capsys: pytest.CaptureFixture[str]) -> None:
    """Its spaces, or the special tokens around nothing, are tokens all the same."""
    tokenizer = train_tokenizer(["a few words"], TokenizerConfig(kind="byte"), task="language")
    save(build("gpt2", layers=1, width=8, heads=2, length=5, vocabulary=257), "small", tokenizer=tokenizer)
    Path("blank.txt").write_text(" \n" * 9)
    _, err = audited(capsys, "small", "--health", "--data", "blank.txt", code=2)
    assert "blank.txt is empty: there is no text in it to look at" in err


def test_of_a_run_the_report_shows_the_audit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path / "runs" / "mine")
    save(fresh(TINY["gpt2"]), run / "model")
    audited(capsys, str(run), "--laws", "causal", "--quick")
    assert json.loads((run / "audit.json").read_text())["holds"]
    page = (run / "report.html").read_text()
    assert "No result depends on a later input" in page and 'id="audit"' in page


MISTAKES = {
    ("zoo:number",): "gives a int",
    ("zoo:fails",): "no data here",
    ("zoo:nobody",): "zoo has no 'nobody'",
    ("nobody:at_all",): "no module 'nobody'",
    ("gtp2",): "did you mean gpt2?",
    ("zoo:sound", "--laws", "casual"): "did you mean causal?",
    ("zoo:sound", "--data", "book.txt"): "add --health",
    ("zoo:sound", "--health", "--laws", "causal"): "leave --laws out",
    ("zoo:sound", "--inputs", "words"): "inputs",
    ("zoo:sound", "--vocabulary", "60", "--laws", "batch"): "index out of range",
    ("zoo:sound", "--mask", "nothing", "--laws", "padding"): "nothing",
    ("zoo:sound", "--html", "no/such/place.html", "--laws", "batch", "--quick"): "no/such",
    ("bare-block", "--health", "--data", "zoo.py"): "no tokenizer",
}


@pytest.mark.parametrize("arguments", MISTAKES, ids=lambda one: " ".join(one))
def test_a_mistake_is_one_sentence(arguments: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    out, err = audited(capsys, *arguments, code=2)
    assert out == "" and err.startswith("headway: ") and MISTAKES[arguments] in err and err.count("\n") == 1
