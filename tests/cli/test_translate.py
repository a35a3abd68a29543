"""`headway translate`: lines in, lines out; order, padding and company do not matter."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Engine
from tokenizers import models, pre_tokenizers, processors, trainers

import headway
from headway.app import translate as job
from headway.cli import main
from headway.config import LanguageConfig, Special, StackConfig
from headway.data.tokenizer import Tokenizer
from headway.decoding import Request, beam, generate
from headway.models.seq2seq import Seq2Seq
from headway.presets.seq2seq import PRESETS, marian
from tests.fresh import fresh
from tests.parity.seq2seq import unchecked  # noqa: F401 of every test here

LINES = ["the cat sat on the mat", "a dog", "", "the quick brown fox jumps over the lazy dog", "mat", "  ", "the dog"]
VOCABULARY = 61


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """Byte pairs trained on a few lines; </s> ends a source."""
    engine = Engine(models.BPE(unk_token="<unk>"))
    engine.pre_tokenizer = pre_tokenizers.Whitespace()
    words = ["</s>", "<unk>", "<pad>"]
    engine.train_from_iterator([*LINES, "say:"], trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=words))
    assert engine.get_vocab_size() == VOCABULARY
    engine.post_processor = processors.TemplateProcessing(single="$A </s>", special_tokens=[("</s>", 0)])
    return Tokenizer(engine, {"eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory, tokenizer: Tokenizer) -> tuple[Path, Seq2Seq]:
    """A tiny random Marian on disk."""
    config = marian(width=22, layers=1, heads=2, vocabulary=VOCABULARY)
    special, forced = Special(end=(0,), pad=2, start=2), config.forced.model_copy(update={"never": (2,)})
    made = fresh(config.model_copy(update={"length": 31, "special": special, "forced": forced}), std=0.4, seed=3)
    with torch.no_grad():
        for block in made.decoder.blocks:
            block.cross.out.weight *= 3  # so that different sources give different texts
    path = tmp_path_factory.mktemp("model") / "marian"
    headway.save(made, path, tokenizer=tokenizer)
    return path, made


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def run(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[str, str]:
    assert main(["translate", *map(str, arguments)]) == 0
    return capsys.readouterr()


def alone(model: Seq2Seq, tokenizer: Tokenizer, line: str, *, beams: int | None = None, alpha: float = 1.0) -> Any:
    """One line for itself, without a batch."""
    request = [Request(prompt=line, max_new_tokens=5)]
    if beams is None:
        return generate(model, request, tokenizer=tokenizer)[0]
    return beam(model, request, tokenizer=tokenizer, beams=beams, alpha=alpha)[0][0]


@pytest.mark.parametrize("beams", [None, 3])
def test_lines_stay_in_order(capsys, model, tokenizer, text, beams: int | None) -> None:
    expected = [alone(model[1], tokenizer, line, beams=beams, alpha=0.6).text if line.strip() else "" for line in LINES]
    assert len(set(expected)) == 6, "lines that all give the same cannot show their order"
    search = [] if beams is None else ["--beam", beams, "--length-penalty", 0.6]
    for batch in (2, 32):
        out, err = run(capsys, model[0], text, "--max-new-tokens", 5, "--batch", batch, *search)
        assert out.split("\n") == [*expected, ""]
        assert "parameters in float32" in err and "7 lines" in err


def test_json_says_everything(capsys, model, tokenizer, text) -> None:
    out, _ = run(capsys, model[0], text, "--max-new-tokens", 5, "--beam", 2, "--json")
    rows = [json.loads(line) for line in out.splitlines()]
    assert [row["source"] for row in rows] == LINES
    best = alone(model[1], tokenizer, LINES[3], beams=2)
    assert rows[3]["tokens"] == list(best.tokens) and rows[3]["text"] == best.text
    assert rows[3]["score"] == pytest.approx(best.score, abs=1e-4) and rows[3]["finish"] == best.finish
    assert rows[2] == {"source": "", "text": "", "tokens": [], "finish": "end"}


def test_standard_input_and_windows(capsys, model, text, monkeypatch) -> None:
    """A file longer than a window gives the same lines; so does stdin."""
    expected, _ = run(capsys, model[0], text, "--max-new-tokens", 5)
    monkeypatch.setattr(job, "WINDOW", 3)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes())))
    assert run(capsys, model[0], "-", "--max-new-tokens", 5)[0] == expected
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(text.read_bytes().removesuffix(b"\n"))))
    assert run(capsys, model[0], "--max-new-tokens", 5)[0] == expected


def test_a_prefix_stands_before_each_line(capsys, model, tokenizer, text) -> None:
    out, _ = run(capsys, model[0], text, "--max-new-tokens", 5, "--prefix", "say: ")
    assert out.split("\n")[1] == alone(model[1], tokenizer, "say: a dog").text
    assert out.split("\n")[2] == ""


def test_what_was_cut_short_is_said(capsys, model, text) -> None:
    rows, err = run(capsys, model[0], text, "--max-new-tokens", 2, "--json")
    short = sum(json.loads(row)["finish"] == "max_new_tokens" for row in rows.splitlines())
    # The last token of a text that reached its limit is forced to be its end, which is no end of the model's choice.
    assert short > 0 and f"; {short} not ended after 2 tokens" in err
    assert all(json.loads(row)["tokens"][-1:] in ([], [0]) for row in rows.splitlines())
    rows, err = run(capsys, model[0], text, "--max-new-tokens", 999, "--json")
    assert all(len(json.loads(row)["tokens"]) <= 30 for row in rows.splitlines())


def test_a_line_that_is_too_long(capsys, model, tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "long.txt"
    path.write_text("a dog\n" + "the dog " * 31 + "\n")
    assert main(["translate", str(model[0]), str(path)]) == 2
    assert "line 2 of" in (err := capsys.readouterr().err) and "the model reads 31" in err and "--cut" in err
    out, err = run(capsys, model[0], path, "--cut", "--max-new-tokens", 5)
    assert "2 lines" in err and "; 1 cut to the 31 tokens that the model reads\n" in err
    tokens = tokenizer.encode("the dog " * 31)
    request = Request(prompt=(*tokens[:30], 0), max_new_tokens=5)
    assert out.split("\n")[1] == generate(model[1], [request], tokenizer=tokenizer)[0].text


def test_a_line_break_of_the_model_is_no_new_line(capsys, model, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(Tokenizer, "decode", lambda self, tokens, special=False: "one\ntwo" if len(tokens) else "")
    path = tmp_path / "text.txt"
    path.write_text("a dog\nmat\n")
    assert run(capsys, model[0], path, "--max-new-tokens", 7)[0].count("\n") == 2


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--beam", "0"], "--beam is at least 1, not 0"),
        (["--max-new-tokens", "0"], "--max-new-tokens is at least 1, not 0"),
        (["--batch", "0"], "--batch is at least 1, not 0"),
        (["--prefix", "\udcff"], "--prefix is not UTF-8 text"),
        (
            ["--prefix", "x/" * 3000],
            "--prefix has 6,000 characters, and is read again before every line: at most 1,000",
        ),
    ],
)
def test_bad_options_are_one_sentence(capsys, tmp_path: Path, options: list[str], sentence: str) -> None:
    assert main(["translate", str(tmp_path), *options]) == 2
    assert capsys.readouterr().err == f"headway: {sentence}\n"


def unread(*_: object, **__: object) -> None:
    raise AssertionError("the weights were read")


def test_a_single_line_is_singular(capsys, model, tmp_path: Path) -> None:
    path = tmp_path / "one.txt"
    path.write_text("a dog\n")
    assert "\n1 line" in (err := run(capsys, model[0], path, "--max-new-tokens", 1)[1]) and "1 lines" not in err
    assert "after 1 token or" in err


def test_broken_weights_name_the_line(capsys, model, tokenizer, tmp_path: Path) -> None:
    torn = fresh(model[1].config.model_copy(update={"tied": False, "family": "headway"}), std=0.4, seed=3)
    with torch.no_grad():
        torn.tokens.weight[tokenizer.encode("mat")[0]] = float("nan")
    headway.save(torn, tmp_path / "torn", tokenizer=tokenizer)
    path = tmp_path / "text.txt"
    path.write_text("a dog\nthe cat sat\nmat\nthe dog\n")
    for search in ([], ["--beam", "2"]):
        assert main(["translate", str(tmp_path / "torn"), str(path), "--max-new-tokens", "3", *search]) == 2
        assert f"the model's largest logit for line 3 of {path} is nan" in capsys.readouterr().err


def test_stdin_is_looked_at_before_the_weights(capsys, model, monkeypatch) -> None:
    monkeypatch.setattr("headway.hub.load", unread)
    for stdin, sentence in (
        (None, "standard input is closed: give a file, or something to read"),
        (io.TextIOWrapper(io.BytesIO(b"a dog\n\xff\n")), "line 2 of standard input is not UTF-8 text"),
    ):
        monkeypatch.setattr(sys, "stdin", stdin)
        assert main(["translate", str(model[0])]) == 2
        assert capsys.readouterr().err == f"headway: {sentence}\n"
    assert main(["translate", str(model[0]), "--beam", "62"]) == 2
    assert "--beam 62 is more than the 61 tokens that the model can choose from" in capsys.readouterr().err


def test_bad_input_is_one_sentence(capsys, model, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("headway.hub.load", unread)
    bad = tmp_path / "bad.txt"
    bad.write_bytes(b"a dog\n\xff\xfe\n")
    assert main(["translate", str(model[0]), str(bad)]) == 2
    assert f"line 2 of {bad} is not UTF-8 text" in capsys.readouterr().err
    assert main(["translate", str(tmp_path / "nowhere"), str(bad)]) == 2
    assert "does not exist" in capsys.readouterr().err
    assert main(["translate", str(model[0]), str(tmp_path / "none.txt")]) == 2
    assert capsys.readouterr().err == f"headway: {tmp_path / 'none.txt'}: no such file or directory\n"
    assert main(["translate", "t5-small", str(bad)]) == 2
    assert "'t5-small' is a preset" in capsys.readouterr().err


def test_a_model_that_reads_no_source_is_refused(capsys, tmp_path: Path, tokenizer: Tokenizer, monkeypatch) -> None:
    monkeypatch.setattr("headway.hub.load", unread)
    block = PRESETS["bart-base"]().decoder.block.model_copy(update={"cross": None})
    small = block.attention.model_copy(update={"width": 22, "heads": 2, "kv_heads": 2, "head_width": 11,
        "value_width": 11, "source_width": 22, "output_width": 22})  # fmt: skip
    block = block.model_copy(update={"attention": small, "feedforward": None})
    config = LanguageConfig(vocabulary=VOCABULARY, length=31, stack=StackConfig(block=block, layers=1))
    headway.save(fresh(config), tmp_path / "language", tokenizer=tokenizer)
    assert main(["translate", str(tmp_path / "language")]) == 2
    assert "holds a language model, and translating takes one that reads a source" in capsys.readouterr().err


def test_a_model_without_a_tokenizer_is_refused(capsys, model, tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr("headway.hub.load", unread)
    headway.save(model[1], tmp_path / "bare")
    assert main(["translate", str(tmp_path / "bare")]) == 2
    assert "has no tokenizer" in capsys.readouterr().err


def test_padding_is_never_looked_at(capsys, model, tokenizer, text, tmp_path: Path) -> None:
    config = model[1].config
    poisoned = fresh(config.model_copy(update={"special": Special(end=(0,), pad=2, start=3)}), std=0.4, seed=5)
    headway.save(poisoned, tmp_path / "clean", tokenizer=tokenizer)
    expected, _ = run(capsys, tmp_path / "clean", text, "--max-new-tokens", 5)
    with torch.no_grad():
        poisoned.tokens.weight[2] = float("nan")
        poisoned.head_bias[0, 2] = float("nan")
    headway.save(poisoned, tmp_path / "poisoned", tokenizer=tokenizer)
    assert run(capsys, tmp_path / "poisoned", text, "--max-new-tokens", 5)[0] == expected
