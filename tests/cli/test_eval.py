"""`headway eval`: numbers on stdout, the rest on stderr, and a mistake is one sentence."""

import json
from pathlib import Path
from typing import Any

import pytest

import headway
from headway.cli import VERBS, main
from headway.config.train import ModelChoice, TokenizerConfig
from headway.config.vision import Images
from headway.data.tokenizer_training import train_tokenizer
from headway.presets.sized import sized_language, small_davit
from tests.fresh import fresh

TEXT = "The café is closed. It opens at seven.\n" * 7


@pytest.fixture(autouse=True)
def verb(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(VERBS, "eval", "Measure a model on data.")


@pytest.fixture
def language(tmp_path: Path) -> str:
    tokenizer = train_tokenizer([TEXT], TokenizerConfig(kind="byte"), task="language")
    config = sized_language(ModelChoice(layers=1, width=22, heads=2), vocabulary=tokenizer.size, length=13)
    headway.save(fresh(config, std=0.3), tmp_path / "model", tokenizer=tokenizer)
    (tmp_path / "x.txt").write_text(TEXT)
    return str(tmp_path / "model")


@pytest.fixture
def pictures(tmp_path: Path) -> str:
    labels = tuple(f"digit-{number}" for number in range(10))
    choice = ModelChoice(depths=(1, 1), widths=(6, 10), stage_heads=(3, 5))
    images = Images(mean=(0.3,), std=(0.4,))
    config = small_davit(choice, image=8, channels=1, classes=10, labels=labels, images=images)
    headway.save(fresh(config, std=0.3), tmp_path / "model")
    return str(tmp_path / "model")


def asked(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = main(["eval", *words])
    out, err = capsys.readouterr()
    return code, out, err


def test_text_and_json_say_the_same(language: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = asked(capsys, language, str(tmp_path / "x.txt"), "--stride", "5")
    again, line, _ = asked(capsys, language, str(tmp_path / "x.txt"), "--stride", "5", "--json")
    found: dict[str, Any] = json.loads(line)
    assert (code, again, line.count("\n")) == (0, 0, 1)
    assert found["task"] == "language" and found["counts"]["bytes"] == len(TEXT.encode())
    for name in ("loss", "perplexity", "bits_per_byte"):
        (shown,) = [words.split()[1] for words in out.splitlines() if words.split()[:1] == [name]]
        assert shown == f"{found[name]:.4f}"
    assert "parameters" in err and "windows of 13 tokens, one every 5" in out


def test_classes_and_who_was_taken_for_whom(pictures: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = asked(capsys, pictures, "digits-test")
    found = json.loads(asked(capsys, pictures, "digits-test", "--json")[1])
    assert code == 0 and found["counts"] == {"examples": 360}
    assert sum(map(sum, found["confusion"])) == 360 and found["labels"][7] == "digit-7"
    assert [one["count"] for one in found["classes"]] == [sum(row) for row in found["confusion"]]
    (row,) = [line for line in out.splitlines() if line.startswith("digit-7") and len(line.split()) == 11]
    assert [int(count) for count in row.split()[1:]] == found["confusion"][7]


@pytest.mark.parametrize(("words", "sentence"), [
    ([], "there is nothing to measure on: name a file"),
    (["x.txt", "--batch", "0"], "--batch is at least 1, not 0"),
    (["x.txt", "--stride", "0"], "--stride is at least 1, not 0"),
    (["x.txt", "--task", "images"], "holds a language model, which is measured by language, not images"),
    (["nowhere.txt"], "nowhere.txt"),
    (["x.txt", "--length", "99"], "the model reads 13 tokens, and --length asks for 99"),
])  # fmt: skip
def test_a_mistake_is_one_sentence(
    words: list[str], sentence: str, language: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [str(tmp_path / word) if word.endswith(".txt") else word for word in words]
    code, out, err = asked(capsys, language, *words)
    assert code == 2 and not out
    assert sentence in err.splitlines()[-1]


def test_pictures_that_are_not_there(pictures: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = asked(capsys, pictures, str(tmp_path / "nowhere"))
    assert code == 2 and "there is no file or folder" in err
    code, _, err = asked(capsys, str(tmp_path / "nothing"), "digits-test")
    assert code == 2 and "does not exist: a model is a directory" in err
