"""`headway classify`: order, padding and company do not matter, and a mistake is one sentence."""

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer as Engine
from tokenizers import models, normalizers, pre_tokenizers, processors, trainers

import headway
from headway.cli import main
from headway.data.image import read_image
from headway.data.tokenizer import Tokenizer
from headway.models.encoder import Masked
from headway.presets.bert import bert
from headway.presets.vision import vit
from tests.fresh import fresh

LINES = [
    "the cat sat on the mat",
    "a dog",
    "the quick brown fox jumps over the lazy dog and sits on the mat again",
    "",
    "rain on the roof\tthe roof is wet",
    "mat",
    "the dog jumps",
]
LABELS = ("calm", "wild", "wet")


@pytest.fixture(scope="module")
def tokenizer() -> Tokenizer:
    """WordPiece, trained on a few lines."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    engine = Engine(models.WordPiece(unk_token="[UNK]"))
    engine.normalizer, engine.pre_tokenizer = normalizers.BertNormalizer(), pre_tokenizers.BertPreTokenizer()
    engine.train_from_iterator(LINES, trainers.WordPieceTrainer(vocab_size=71, special_tokens=words))
    engine.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return Tokenizer(engine, {"cls_token": "[CLS]", "sep_token": "[SEP]", "pad_token": "[PAD]"})


def saved(path: Path, tokenizer: Tokenizer | None, **changes: Any) -> Masked:
    """A tiny random model on disk, with logits that are far from one another."""
    sizes: dict[str, Any] = dict(width=22, heads=2, layers=2, hidden=31, vocabulary=71, length=43, types=2)
    model = fresh(bert(**{**sizes, "classes": 3, "labels": LABELS, **changes}), std=0.5)
    with torch.no_grad():
        model.tokens.weight[0] = float("nan")  # whoever looks at padding will notice
    headway.save(model, path, tokenizer=tokenizer)
    return model


@pytest.fixture
def model(tmp_path: Path, tokenizer: Tokenizer) -> Masked:
    return saved(tmp_path / "model", tokenizer)


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{line}\n" for line in LINES), encoding="utf-8")
    return path


def rows(capsys: pytest.CaptureFixture[str], *arguments: object) -> list[dict[str, Any]]:
    assert main(["classify", *map(str, arguments), "--json"]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def probabilities(row: dict[str, Any]) -> list[float]:
    named = {one["label"]: one["probability"] for one in row["classes"]}
    return [named[label] for label in LABELS]


@torch.no_grad()
def alone(model: Masked, tokenizer: Tokenizer, line: str) -> list[float]:
    """One line by hand: no batch, no padding."""
    text, _, pair = line.partition("\t")
    first = len(tokenizer.encode(text))
    tokens = torch.tensor([tokenizer.encode(text, pair or None)])
    types = (torch.arange(tokens.shape[1]) >= first).long()[None]
    return model(tokens, types=types)[0].softmax(-1).tolist()


@pytest.mark.parametrize("batch", [1, 3, 32])
def test_results_depend_on_their_own_line_alone(
    batch: int, model: Masked, tokenizer: Tokenizer, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = rows(capsys, tmp_path / "model", text, "--batch", batch)
    assert [row["text"] + "\t" + row["pair"] if "pair" in row else row["text"] for row in found] == LINES
    for row, line in zip(found, LINES, strict=True):
        assert probabilities(row) == pytest.approx(alone(model, tokenizer, line), abs=1e-5)
        assert row["label"] == max(zip(probabilities(row), LABELS, strict=True))[1]
    spread = torch.tensor([probabilities(row) for row in found]).std(0)
    assert spread.min() > 0.01, "all lines have the same classes, so nothing was tested"


def test_windows_are_joined_in_order(
    model: Masked, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = rows(capsys, tmp_path / "model", text)
    monkeypatch.setattr("headway.app.classify.WINDOW", 2)
    parts = rows(capsys, tmp_path / "model", text)
    assert [row["text"] for row in parts] == [row["text"] for row in whole]
    for one, other in zip(parts, whole, strict=True):
        assert probabilities(one) == pytest.approx(probabilities(other), abs=1e-5)


def test_a_second_column_is_the_second_sentence(
    model: Masked, tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "pairs.txt"
    path.write_text("rain on the roof\tthe roof is wet\nrain on the roof the roof is wet\n")
    found = [probabilities(row) for row in rows(capsys, tmp_path / "model", path)]
    assert found[0] != pytest.approx(found[1], abs=1e-3)


def test_text_goes_to_stdout_and_the_rest_to_stderr(
    model: Masked, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    expected = rows(capsys, tmp_path / "model", text)
    assert main(["classify", str(tmp_path / "model"), str(text), "--top", "2"]) == 0
    shown = capsys.readouterr()
    for line, row in zip(shown.out.splitlines(), expected, strict=True):
        fields = line.split("\t")
        assert fields[::2] == [one["label"] for one in row["classes"][:2]]
        assert [float(value) for value in fields[1::2]] == pytest.approx(sorted(probabilities(row))[:0:-1], abs=6e-5)
    assert "bert, " in shown.err and "0 missing" in shown.err
    assert shown.err.endswith("7 classified\n")


@pytest.mark.parametrize("dash", [[], ["-"]])
def test_lines_come_from_stdin_too(
    dash: list[str],
    model: Masked,
    text: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = rows(capsys, tmp_path / "model", text)
    as_elsewhere = b"\xef\xbb\xbf" + text.read_bytes().replace(b"\n", b"\r\n")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(as_elsewhere)))
    assert rows(capsys, tmp_path / "model", *dash) == expected


@torch.no_grad()
def test_several_classes_at_once_and_values(
    tokenizer: Tokenizer, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    several = saved(tmp_path / "several", tokenizer, outcome="several")
    saved(tmp_path / "value", tokenizer, outcome="value")
    logits = several(torch.tensor([tokenizer.encode(LINES[0])]))[0]
    row = rows(capsys, tmp_path / "several", text, "--top", 1)[0]
    assert row["labels"] == [LABELS[index] for index in logits.argsort(descending=True) if logits[index] >= 0]
    assert row["classes"] == [
        {"label": LABELS[logits.argmax()], "probability": pytest.approx(float(logits.max().sigmoid()), rel=1e-5)}
    ]
    row = rows(capsys, tmp_path / "value", text)[0]
    values = [
        {"label": label, "value": pytest.approx(float(one), rel=1e-5)}
        for label, one in zip(LABELS, logits, strict=True)
    ]
    assert row == {"text": LINES[0], "classes": values}


def test_a_long_text_is_refused_or_cut(
    model: Masked, tokenizer: Tokenizer, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "long.txt"
    path.write_text("the mat\n" + "dog " * 60 + "\n")
    assert main(["classify", str(tmp_path / "model"), str(path)]) == 2
    assert f"line 2 of {path} has 62 tokens, and the model reads 43" in capsys.readouterr().err
    long = rows(capsys, tmp_path / "model", path, "--cut")[1]
    assert probabilities(long) == pytest.approx(alone(model, tokenizer, "dog " * 41), abs=1e-5)


def test_bfloat16_is_close(model: Masked, text: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    exact = rows(capsys, tmp_path / "model", text)
    rough = rows(capsys, tmp_path / "model", text, "--dtype", "bfloat16")
    assert exact != rough
    for one, other in zip(exact, rough, strict=True):
        assert probabilities(one) == pytest.approx(probabilities(other), abs=0.1)


def broken(tmp_path: Path, tokenizer: Tokenizer) -> dict[str, tuple[list[Any], str]]:
    """What is wrong -> the arguments, and part of the sentence."""
    good, bare, mute, nan = (tmp_path / name for name in ("good", "bare", "mute", "nan"))
    damaged = saved(nan, tokenizer)
    with torch.no_grad():
        damaged.class_head.weight.fill_(float("nan"))
    headway.save(damaged, nan, tokenizer=tokenizer, overwrite=True)
    saved(good, tokenizer)
    saved(bare, tokenizer, classes=0, labels=())
    saved(mute, None)
    files = {
        "empty": b"",
        "latin": "one\nnaïve\n".encode("latin-1"),
        "columns": b"a\tb\tc\n",
        "fine": b"the mat\n",
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    fine = tmp_path / "fine"
    return {
        "no directory": ([tmp_path / "nowhere", fine], f"{tmp_path / 'nowhere'} does not exist"),
        "no model": ([tmp_path, fine], "has no config.json"),
        "no classifier": ([bare, fine], f"{bare} holds a masked model without a classifier"),
        "no tokenizer": ([mute, fine], f"{mute} has no tokenizer"),
        "no file": ([good, tmp_path / "none.txt"], f"{tmp_path / 'none.txt'}: no such file or directory"),
        "a directory": ([good, tmp_path], f"{tmp_path} is a directory"),
        "empty": ([good, tmp_path / "empty"], "there is nothing to classify: the input is empty"),
        "not UTF-8": ([good, tmp_path / "latin"], f"line 2 of {tmp_path / 'latin'} is not UTF-8 text"),
        "columns": ([good, tmp_path / "columns"], "has 3 columns: give a text, or two with a tab between them"),
        "an option": ([good, "--jsno", fine], "there is no option '--jsno'"),
        "top": ([good, fine, "--top", 0], "--top is at least 1, not 0"),
        "batch": ([good, fine, "--batch", 0], "--batch is at least 1, not 0"),
        "dtype": ([good, fine, "--dtype", "int8"], "float32"),
        "a preset": (["bert-tiny", fine], "'bert-tiny' is a preset: sizes without weights"),
        "damaged": ([nan, fine], f"the classes of line 1 of {fine} are not finite numbers"),
    }


def test_a_mistake_is_one_sentence_and_exit_code_2(
    tmp_path: Path, tokenizer: Tokenizer, capsys: pytest.CaptureFixture[str]
) -> None:
    for what, (arguments, sentence) in broken(tmp_path, tokenizer).items():
        assert main(["classify", *map(str, arguments)]) == 2, what
        shown = capsys.readouterr()
        last = shown.err.splitlines()[-1]
        assert shown.out == "" and last.startswith("headway: ") and sentence in last, what
        assert "Traceback" not in shown.err


@torch.no_grad()
def test_pictures_are_classified_by_what_they_show(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    image = pytest.importorskip("PIL.Image")
    other = fresh(vit(width=12, heads=3, layers=2, image=15, patch=5, classes=3), std=0.5)
    headway.save(other, tmp_path / "vit")
    paths = [tmp_path / f"{number}.png" for number in range(3)]
    for path in paths:
        pixels = torch.randint(0, 256, (11, 17, 3), dtype=torch.uint8).numpy()
        image.fromarray(pixels).save(path)
    found = rows(capsys, tmp_path / "vit", *paths, "--batch", 2)
    assert [row["file"] for row in found] == [str(path) for path in paths]
    for row, path in zip(found, paths, strict=True):
        values = other(read_image(path, other.config)[None])[0].softmax(-1)
        assert row["label"] == other.config.label(int(values.argmax()))
        assert [one["probability"] for one in row["classes"]] == pytest.approx(
            values.sort(descending=True)[0].tolist(), abs=1e-5
        )
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO("\n".join(map(str, paths)).encode())))
    assert rows(capsys, tmp_path / "vit", "--batch", 2) == found
    assert main(["classify", str(tmp_path / "vit"), str(tmp_path / "vit" / "config.json")]) == 2
    assert "config.json cannot be read as a picture" in capsys.readouterr().err
    for listed, sentence in [
        (f"{paths[0]}\n\n{paths[1]}\n", "line 2 of standard input is empty: give the path of a picture"),
        (f"{paths[0]}\n{paths[1]}\nnone.png\n", "line 3 of standard input: there is no file none.png"),
        (f"{paths[0]}\n{tmp_path / 'vit' / 'config.json'}\n", "line 2 of standard input: "),
    ]:
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(listed.encode())))
        assert main(["classify", str(tmp_path / "vit")]) == 2
        shown = capsys.readouterr()
        assert shown.out == "" and sentence in shown.err.splitlines()[-1]


def test_lines_that_were_cut_are_counted(
    model: Masked, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tiny model reads 43 tokens, of which two are [CLS] and [SEP]."""
    monkeypatch.setattr("headway.app.classify.WINDOW", 2)
    path = tmp_path / "long.txt"
    path.write_text("".join("dog " * count + "\n" for count in (41, 42, 1, 60, 97)) + "dog " * 21 + "\t" + "mat " * 20)
    assert main(["classify", str(tmp_path / "model"), str(path), "--cut"]) == 0
    said = "cut to 43 tokens, the most that this model reads: 4 of 6 lines\n"
    assert capsys.readouterr().err.endswith(said)
    path.write_text("dog " * 41)
    assert main(["classify", str(tmp_path / "model"), str(path), "--cut"]) == 0
    assert capsys.readouterr().err.endswith(": 0 of 1 lines\n")


@pytest.mark.parametrize("piped", [False, True])
def test_input_that_is_no_text_is_refused_before_the_model_is_loaded(
    piped: bool, model: Masked, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    latin, loads = "one\nnaïve\n".encode("latin-1"), []
    (tmp_path / "latin").write_bytes(latin)
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(latin)))
    monkeypatch.setattr("headway.hub.load", lambda *given, **named: loads.append(given))
    assert main(["classify", str(tmp_path / "model"), "-" if piped else str(tmp_path / "latin")]) == 2
    name = "standard input" if piped else tmp_path / "latin"
    assert capsys.readouterr().err == f"headway: line 2 of {name} is not UTF-8 text\n"
    assert not loads


def test_pictures_that_are_not_there_are_refused_before_the_model_is_loaded(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    headway.save(fresh(vit(width=12, heads=3, layers=2, image=15, patch=5, classes=3)), tmp_path / "vit")
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"none.png\n")))
    monkeypatch.setattr("headway.hub.load", lambda *given, **named: pytest.fail("a model was loaded"))
    assert main(["classify", str(tmp_path / "vit")]) == 2
    assert capsys.readouterr().err == "headway: line 1 of standard input: there is no file none.png\n"
