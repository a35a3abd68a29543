"""`headway look` as a command: what goes where, what is asked, and what it says to a mistake."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import headway
from headway.cli import main
from headway.look.record import as_json
from headway.render import GENERATOR
from tests.app.runs_by_hand import make_run
from tests.look.example import example
from tests.look.reading import made

TEXT = "the cat sat on the mat"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model, one that translates and one that reads images, on disk."""
    path = tmp_path_factory.mktemp("models")
    for name, (model, tokenizer) in {
        "gpt": made.language(),
        "t5": made.seq2seq(),
        "vit": (made.vision(), None),
    }.items():
        headway.save(model, path / name, tokenizer=tokenizer)
    return path


@pytest.fixture(autouse=True)
def here(models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(models)


def looked(capsys: pytest.CaptureFixture[str], *arguments: object, code: int = 0) -> tuple[str, str]:
    assert main(["look", *map(str, arguments)]) == code
    found = capsys.readouterr()
    return found.out, found.err


def test_it_is_drawn_with_a_table_of_heads(capsys: pytest.CaptureFixture[str]) -> None:
    out, err = looked(capsys, "gpt", TEXT)
    assert "decoder 0" in out and "decoder 1" in out
    assert "entropy" in out.splitlines()[-7] and len(out.splitlines()[-6:]) == 6, "a line for each head"
    assert "parameters" in err, "the receipt"


def test_a_page_and_a_picture(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    page, picture = tmp_path / "page.html", tmp_path / "heads.png"
    out, err = looked(capsys, "gpt", TEXT, "-o", page, "--png", picture, "--layers", "1")
    assert GENERATOR in page.read_text(encoding="utf-8") and picture.read_bytes()[:4] == b"\x89PNG"
    assert f"written: {page}" in err and f"written: {picture}" in err
    assert len(out.splitlines()) == 4, "the table alone: its head and three heads"


@pytest.mark.parametrize(
    ("option", "name", "begins"),
    [
        ("--out", "a.html", b"<!doctype html>"),
        ("--html", "b.page", b"<!doctype html>"),
        ("-o", "c.png", b"\x89PNG"),
        ("--output", "d.PDF", b"%PDF"),
    ],
)
def test_out_is_a_page_or_a_picture_by_its_ending(
    option: str, name: str, begins: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    _, err = looked(capsys, "gpt", TEXT, option, tmp_path / name, "--layers", "1")
    assert (tmp_path / name).read_bytes().lower().startswith(begins.lower()) and f"written: {tmp_path / name}" in err


def test_the_record_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = looked(capsys, "gpt", TEXT, "--json", "--layers", "0-1", "--heads", "2,0", "--rows", "1-3", "--no-lens")
    found = json.loads(out)
    assert found["sides"][0]["tokens"] == ["the", " cat", " sat", " on", " the", " mat"]
    assert [(one["label"], one["heads"], one["rows"]) for one in found["layers"]] == [
        ("0", [0, 2], [1, 3]), ("1", [0, 2], [1, 3]),
    ]  # fmt: skip
    assert found["lens"] is None and all("data" not in one and "maps" not in one for one in found["layers"])
    assert all(len(one["measures"]) == 2 for one in found["layers"])


def test_stdin_and_a_pair(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"the cat\n")))
    out, _ = looked(capsys, "t5", "-", "--pair", "a dog", "--json")
    found = json.loads(out)
    assert [side["tokens"] for side in found["sides"]] == [["the", " cat", "<|end|>"], ["<|start|>", "a", " dog"]]
    assert found["lens"]["side"] == 1


def test_an_image(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    Image.fromarray(np.zeros((31, 37, 3), np.uint8)).save(tmp_path / "a.png")
    out, _ = looked(capsys, "vit", "--image", tmp_path / "a.png", "--json", "--heads", 0)
    assert json.loads(out)["sides"][0]["grid"] == [3, 4]


def test_a_rule_needs_no_model(capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = looked(capsys, "--mechanism", "local", "--window", 2, "--length", 5)
    assert "13 of 25 pairs" in out
    _, err = looked(capsys, "gpt", "--mechanism", "local", code=2)
    assert "leave the target out" in err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([], "say what to look at"),
        (["gpt"], "gpt reads text, and none was given"),
        (["gpt", ""], "the text has no token that gpt could read"),
        (["gpt", "the cat " * 31], "tokens, and gpt has positions for 31"),
        (["gpt", "a", "--layers", "3-1"], "--layers are whole numbers and ranges"),
        (["gpt", "a", "--heads", "x"], "--heads are whole numbers and ranges"),
        (["gpt", "a", "--rows", "1,3"], "--rows stand one after the other"),
        (["gpt", "a", "--layers", "7"], "gpt has layers 0 to 1, in the order in which they run: 7 cannot be shown"),
        (["gpt", "a\udcff"], "the text is not UTF-8"),
        (["vit", "--image", "nowhere.png"], "nowhere.png: no such file"),
        (["vit", "a text"], "vit reads an image, and a text was given"),
        (["nothing", "a", "-o", "no/page.html"], "cannot write no/page.html: the directory no does not exist"),
        (["nothing", "a", "-o", "gpt"], "gpt is a directory"),
        (["nothing", "a", "--png", "page.html"], "page.html"),
        (["nothing", "a"], "'nothing' is neither a directory nor a preset"),
    ],
)
def test_a_mistake_is_one_sentence(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    out, err = looked(capsys, *arguments, code=2)
    assert out == "" and said in err and len(err.splitlines()) <= 2, "perhaps behind the receipt"


def test_of_a_run_its_own_example_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run, page = make_run(tmp_path), tmp_path / "page.html"
    (run / "heads.json").write_text(json.dumps(as_json(example())))
    out, err = looked(capsys, run)
    assert "An example: by rule" in out and out.count("encoder 4") == 4 and "made by rule" in err
    out, err = looked(capsys, run, "-o", page)
    assert 'id="look-layer-1"' in page.read_text(encoding="utf-8") and "written:" in err
    (run / "heads.json").unlink()
    assert "it has no model yet" in looked(capsys, run, code=2)[1]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["gpt", TEXT, "--layers", "0-99999999999"], "--layers has 99999999999, and no model has so many"),
        (["gpt", TEXT, "--html", "a.png", "--png", "./a.png"], "cannot both be a.png"),
        (["gpt", TEXT, "-o", "a.png", "--png", "b.png"], "--out a.png and --png b.png are the same kind of file"),
        (["gpt", TEXT, "--out", "a.html", "--html", "b.html"], "--out a.html and --html b.html are the same kind"),
        (["gpt", TEXT, "-o", ""], "the name of the file to write is empty"),
        (["--mechanism", "local", "--window", "2", "--heads", "3", "--pair", "x"], "leave --pair, --heads out"),
        (["gpt", "--mechanism", "softmax"], "leave the target out"),
        (["run", "--layers", "0"], "without a text of yours, run shows the example of its report: leave --layers out"),
    ],
)
def test_options_that_nobody_reads_are_refused(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (make_run(tmp_path, "run") / "heads.json").write_text(json.dumps(as_json(example())))
    monkeypatch.chdir(tmp_path)
    assert said in looked(capsys, *arguments, code=2)[1]
