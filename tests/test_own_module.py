"""A module of a user's own, in a package of their own: trained, resumed, saved, sampled, measured, priced, audited."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

import headway as hw
from headway.cli import main
from headway.config.text import ModuleConfig
from headway.decoding import Request, generate
from headway.models.own_module import OwnModule
from tests.processes import Processes

SOURCE = '''
"""A small causal model with a convolution, dropout, a batch of buffers and a tied head."""

import torch
import torch.nn.functional as F
from torch import nn

LENGTH, VOCABULARY = 23, 300


class Mixer(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.length = LENGTH
        self.embed = nn.Embedding(VOCABULARY, width)
        self.mix = nn.Conv1d(width, width, 3)
        self.drop = nn.Dropout(0.1)
        self.attend = nn.Linear(width, 3 * width)
        self.head = nn.Linear(width, VOCABULARY, bias=False)
        self.head.weight = self.embed.weight
        self.register_buffer("calls", torch.zeros((), dtype=torch.long))
        self.register_buffer("seen", torch.zeros(width))
        self.register_buffer("future", torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1), persistent=False)

    def forward(self, ids):
        x = self.embed(ids)
        if self.training:
            with torch.no_grad():
                self.calls += 1
                self.seen += x.detach().float().mean((0, 1)).to(self.seen.dtype)
        x = x + self.drop(self.mix(F.pad(x.transpose(1, 2), (2, 0))).transpose(1, 2).relu()) + self.seen * 1e-3
        q, k, v = self.attend(x).chunk(3, -1)
        length = ids.shape[1]
        scores = (q @ k.mT / 4).masked_fill(self.future[:length, :length], -torch.inf)
        return {"logits": self.head(x + scores.softmax(-1) @ v)}


def build():
    return Mixer()


def last_only():
    class Last(Mixer):
        def forward(self, tokens):
            return super().forward(tokens)["logits"][:, -1:]

    return Last()


def words():
    return "no module"
'''
NAME = "own_package.mixer:build"
OPTIONS = [
    "--model.start", NAME, "--batch", "3", "--length", "23", "--tokenizer.kind", "byte", "--save-every", "3",
    "--evaluate-every", "3", "--log-every", "1", "--schedule.kind", "constant", "--schedule.warmup", "2",
]  # fmt: skip


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A directory with the package, where one works."""
    made = tmp_path_factory.mktemp("own")
    (made / "own_package").mkdir()
    (made / "own_package" / "__init__.py").write_text("")
    (made / "own_package" / "mixer.py").write_text(SOURCE)
    (made / "book.txt").write_text("the tide comes in, the tide goes out.\n" * 90)
    patch = pytest.MonkeyPatch()
    patch.chdir(made)
    yield made
    patch.undo()
    for name in ("own_package", "own_package.mixer"):
        sys.modules.pop(name, None)


@pytest.fixture(scope="module")
def run(place: Path) -> Path:
    assert main(["train", "book.txt", "--out", "run", "--steps", "7", *OPTIONS]) == 0
    return place / "run"


def weights(path: Path) -> dict[str, torch.Tensor]:
    return hw.load(path).model.state_dict()


def rows(run: Path, kind: str) -> list[dict]:
    found = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
    return [{name: row[name] for name in ("step", "loss")} for row in found if row["kind"] == kind]


def test_it_is_trained_and_saved_with_its_function_and_all_its_buffers(run: Path) -> None:
    losses = rows(run, "train")
    assert losses[-1]["loss"] < losses[0]["loss"]
    config = json.loads((run / "model" / "config.json").read_text())["config"]
    assert (config["kind"], config["function"], config["vocabulary"], config["length"]) == ("module", NAME, 300, 23)
    model = hw.load(run).model
    assert isinstance(model, OwnModule) and isinstance(model.config, ModuleConfig)
    assert int(model.module.calls) in (3, 6, 7)  # the best step is exported
    assert model.module.calls.dtype == torch.long and float(model.module.seen.abs().sum()) > 0
    assert model.module.head.weight is model.module.embed.weight
    assert model.module.future.any(), "a buffer that no file holds comes from the module's own code"


def test_a_run_that_was_stopped_goes_on_bit_for_bit(run: Path, place: Path) -> None:
    assert main(["train", "book.txt", "--out", "stopped", "--steps", "3", *OPTIONS]) == 0
    assert main(["train", "--out", "stopped", "--resume", "--steps", "7"]) == 0
    assert main(["train", "book.txt", "--out", "three", "--steps", "7", *OPTIONS, "--optim.rate", "0.002"]) == 0
    other = weights(place / "three")
    mine, again = weights(run), weights(place / "stopped")
    assert rows(run, "validation")[-1] == rows(place / "stopped", "validation")[-1]
    assert mine.keys() == again.keys() and all(torch.equal(mine[name], again[name]) for name in mine)
    assert not all(torch.equal(mine[name], other[name]) for name in mine), "the comparison can fail"


def test_what_it_writes_is_what_reading_each_text_alone_gives(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, tokenizer, _ = hw.load(run, dtype="float64")
    assert tokenizer is not None
    prompts = ["the", "the tide comes", "o"]
    wanted = []
    for prompt in prompts:
        tokens = tokenizer.encode(prompt)
        for _ in range(6):
            with torch.no_grad():
                tokens.append(int(model.module(torch.tensor([tokens]))["logits"][0, -1].argmax()))
        wanted.append(tuple(tokens[-6:]))
    requests = [Request(prompt=prompt, max_new_tokens=6) for prompt in prompts]
    for options in ({}, {"pad": "right"}, {"pad": "none"}, {"cache": False}):
        found = generate(model, requests, tokenizer=tokenizer, **options)
        assert [result.tokens for result in found] == wanted, options
    words = [part for prompt in prompts for part in ("--prompt", prompt)]
    capsys.readouterr()
    assert main(["generate", str(run), *words, "--max-new-tokens", "6", "--dtype", "float64", "--json"]) == 0
    assert [tuple(row["tokens"]) for row in json.loads(capsys.readouterr().out)] == wanted


def test_it_is_measured_priced_audited_and_described(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main(["eval", str(run), "book.txt", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["task"] == "language" and 0 < measured["loss"] < rows(run, "train")[0]["loss"]
    assert main(["cost", str(run), "--length", "11", "--json"]) == 0
    priced = json.loads(capsys.readouterr().out)
    assert main(["cost", NAME, "--length", "11", "--json"]) == 0
    own = json.loads(capsys.readouterr().out)
    assert priced["params"] == own["params"] == sum(one.numel() for one in hw.load(run).model.parameters())
    assert priced["flops"] == own["flops"] > 0
    assert main(["audit", str(run), "--quick", "--json"]) in (0, 1)
    laws = {row["law"]: row["status"] for row in json.loads(capsys.readouterr().out)["findings"]}
    assert laws["causal"] == "holds", laws
    assert main(["info", str(run)]) == 0
    described = capsys.readouterr().out
    assert f"{own['params']:,}" in described and "attend" in described
    assert "Mixer" in (run / "report.html").read_text()


def test_a_run_of_it_says_what_it_costs_and_shows_its_heads(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cost = json.loads((run / "cost.json").read_text())
    model = hw.load(run).model
    assert sum(cost["parameters"].values()) == sum(one.numel() for one in model.parameters())
    assert cost["batch"] == {"rows": 3, "length": 23, "parts": 1} and cost["phases"]["backward"]["flops"] > 0
    kept = sum(value for name, value in cost["memory"].items() if name != "in use at most")
    assert cost["memory"]["in use at most"] > kept > cost["memory"]["activations kept"] > 0
    assert {row["what"] for row in cost["compared"]} >= {"seconds of a step", "memory of a step"}
    capsys.readouterr()
    assert main(["look", str(run), "--json"]) == 0
    layers = json.loads(capsys.readouterr().out)["layers"]
    assert [layer["kind"] for layer in layers] == ["decoder"]


def test_it_is_priced_at_the_length_that_it_says(run: Path, place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cost", str(run), NAME, "--json"]) == 0
    assert [sheet["setting"]["length"] for sheet in json.loads(capsys.readouterr().out)] == [23, 23]
    assert main(["cost", NAME, "--length", "29"]) == 2
    assert capsys.readouterr().err == f"headway: {NAME} reads 23 tokens at most, not 29: give a smaller length\n"
    source = "from torch import nn\n\ndef silent():\n    return nn.Embedding(5, 3)\n"
    (place / "own_package" / "lengths.py").write_text(
        source + "\ndef short():\n    it = silent()\n    it.length = 7\n    return it\n"
    )
    assert main(["cost", "own_package.lengths:silent"]) == 0
    assert "priced at a length of 128: own_package.lengths:silent does not say" in capsys.readouterr().err
    assert main(["cost", "own_package.lengths:short", "--length", "29"]) == 0
    assert "says that it reads 7 tokens at most, and is priced at 29" in capsys.readouterr().err


def test_another_run_starts_from_it_and_python_trains_it_too(run: Path, place: Path) -> None:
    start = ["--model.start", str(run), *OPTIONS[2:6], *OPTIONS[8:]]
    assert main(["train", "book.txt", "--out", "next", "--steps", "1", *start]) == 0
    assert rows(place / "next", "validation")[-1]["loss"] <= rows(run, "validation")[0]["loss"]
    found = hw.train(NAME, "book.txt", out="python", steps=2, batch=3, length=23, tokenizer="byte")
    assert isinstance(found.model, OwnModule) and found.state == "finished"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--model.start", "own_package.mixer:bild"], "own_package.mixer has no 'bild' (did you mean build?)"),
        (["--model.start", "own_package.nothing:build"], "there is no module 'own_package.nothing'"),
        (["--model.start", "own_package.mixer:words"], "gives a str: a model or its configuration is expected"),
        (
            ["--model.start", "own_package.mixer:last_only"],
            "gives (1, 1, 300) for tokens (1, 2): logits of every token",
        ),
        (["--model.start", NAME, "--tokenizer.kind", "bpe"], "tokens, and own_package.mixer:build knows 300"),
        (["--model.start", NAME, "--data.packed"], "which data.packed has no effect on"),
        (["--model.start", NAME, "--model.layers", "3"], "has its sizes already: leave model.layers out"),
        (["--model.start", NAME, "--task", "masked"], "starts from a masked or sentence model"),
    ],
)
def test_what_does_not_fit_is_refused(
    options: list[str], sentence: str, place: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (place / "varied.txt").write_text(" ".join(f"word{number} and {number * 7}x" for number in range(4000)))
    byte = [] if "--tokenizer.kind" in options else ["--tokenizer.kind", "byte"]
    assert main(["train", "varied.txt", "--out", "refused", "--steps", "1", "--length", "16", *byte, *options]) == 2
    error = capsys.readouterr().err.splitlines()[-1]
    assert error.startswith("headway: ") and sentence in error
    assert not (place / "refused").exists()


def test_a_module_that_cannot_be_imported_is_refused_clearly(run: Path, tmp_path: Path, processes: Processes) -> None:
    for command in (
        ["generate", str(run), "--prompt", "the"],
        ["train", "--out", str(run), "--resume", "--steps", "9"],
    ):
        lost = processes.headway(*command, cwd=tmp_path)
        assert lost.wait() == 2 and "Traceback" not in lost.stderr
        assert "there is no module 'own_package.mixer'" in lost.stderr.splitlines()[-1]


def test_generating_from_a_function_needs_its_tokenizer(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["generate", NAME, "--prompt", "the"]) == 2
    assert "own_package.mixer:build gives no tokenizer" in capsys.readouterr().err
