"""`headway train`, every task from a file to a model that works, in the smallest sizes."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch

import headway
from headway.cli import main

SMALL = ["--model.layers", "1", "--model.width", "16", "--model.heads", "2", "--steps", "6", "--batch", "4"]
QUICK = [*SMALL, "--length", "32", "--evaluate-every", "3", "--save-every", "3", "--log-every", "2"]
WORDS = ("the", "old", "river", "ran", "past", "a", "stone", "house", "and", "nobody", "had", "seen", "it", "rise")


def sentence(chance: random.Random, words: int = 9) -> str:
    return " ".join(chance.choices(WORDS, k=words)).capitalize() + "."


@pytest.fixture
def text(tmp_path: Path) -> Path:
    chance = random.Random(0)
    paragraphs = [" ".join(sentence(chance, 11) for _ in range(7)) for _ in range(40)]
    file = tmp_path / "book.txt"
    file.write_text("\n\n".join(paragraphs) + "\n")
    return file


def trained(capsys: pytest.CaptureFixture, *arguments: str, code: int = 0) -> str:
    assert main(["train", *map(str, arguments)]) == code, capsys.readouterr().err
    return capsys.readouterr().out.strip()


def lines(run: Path, kind: str) -> list[dict]:
    return [row for row in map(json.loads, (run / "metrics.jsonl").read_text().splitlines()) if row["kind"] == kind]


@pytest.mark.parametrize("kind", ["byte", "character", "bpe", "unigram"])
def test_a_language_model_from_a_text_file(tmp_path, text, capsys, kind):
    run = tmp_path / "run"
    place = trained(capsys, text, *QUICK, "--tokenizer.kind", kind, "--tokenizer.vocabulary", "300", "--out", run)
    assert place == str(run / "model")
    assert [row["step"] for row in lines(run, "validation")] == [3, 6]
    assert lines(run, "sample") and lines(run, "end")[0]["reason"] == "finished"
    assert (run / "report.html").exists() and (run / "config.yaml").exists()
    assert main(["generate", place, "--prompt", "The old", "--max-new-tokens", "5"]) == 0
    model, tokenizer, _ = headway.load(place)
    assert tokenizer.decode(tokenizer.encode("the old river")) == "the old river"
    assert model.config.vocabulary == tokenizer.size


def test_documents_packed_into_one_row(tmp_path, text, capsys):
    run = tmp_path / "run"
    trained(capsys, text, *QUICK, "--data.packed", "--data.document", "paragraph", "--out", run)
    assert lines(run, "end")[0]["reason"] == "finished"


def test_pretraining_with_all_four_objectives(tmp_path, text, capsys):
    run, pairs, chance = tmp_path / "run", tmp_path / "pairs.tsv", random.Random(1)
    rows = [f"{sentence(chance)}\t{sentence(chance)}\t{chance.choice(['yes', 'no'])}" for _ in range(40)]
    pairs.write_text("first\tsecond\tlabel\n" + "\n".join(rows) + "\n")
    weights = [
        part for name in ("words", "adjacent", "inverted", "inference") for part in (f"--objectives.{name}", "1")
    ]
    trained(
        capsys, text, *[one.replace("32", "64") for one in QUICK], "--task", "masked",
        "--tokenizer.kind", "wordpiece", "--tokenizer.vocabulary", "120",
        *weights, "--data.pairs", pairs, "--data.document", "paragraph", "--out", run,
    )  # fmt: skip
    found = lines(run, "validation")[-1]
    assert {"words", "adjacent", "inverted", "inference", "words_accuracy", "inverted_accuracy"} <= found.keys()
    model, _, _ = headway.load(run / "model")
    assert model.config.inference_labels == ("no", "yes") and model.config.inverted
    capsys.readouterr()
    assert main(["eval", str(run), str(pairs), "--task", "inference", "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert 0 <= measured["accuracy"] <= 1 and sum(map(sum, measured["confusion"])) == 40, measured


@pytest.fixture
def labelled(tmp_path: Path) -> Path:
    chance, file = random.Random(2), tmp_path / "labelled.csv"
    rows = [f'{label},"{sentence(chance, chance.randint(2, 9))}"' for label in ("good", "bad") * 20]
    file.write_text("label,text\n" + "\n".join(rows) + "\n")
    return file


def test_a_classifier_of_texts_and_one_that_starts_from_another(tmp_path, labelled, capsys):
    run, again = tmp_path / "run", tmp_path / "again"
    trained(capsys, labelled, *QUICK, "--task", "classify", "--tokenizer.vocabulary", "300", "--out", run)
    assert "accuracy" in lines(run, "validation")[0]
    assert main(["classify", str(run / "model"), str(labelled)]) == 0
    rest = QUICK[QUICK.index("--steps") :]  # sizes are those of the start
    trained(capsys, labelled, *rest, "--task", "classify", "--model.start", run, "--out", again)
    ours, theirs = (headway.load(place / "model").model.config for place in (run, again))
    assert ours == theirs


def test_a_classifier_that_starts_from_a_language_model(tmp_path, text, labelled, capsys):
    """The class is read from the last token; the directory is one that other libraries read."""
    start, run = tmp_path / "start", tmp_path / "run"
    trained(capsys, text, *QUICK, "--task", "language", "--tokenizer.vocabulary", "300", "--out", start)
    rest = [*QUICK[QUICK.index("--batch") :], "--schedule.kind", "constant", "--task", "classify"]
    trained(capsys, labelled, *rest, "--steps", "6", "--model.start", start, "--out", run)
    model, _, _ = headway.load(run / "model")
    assert (model.config.kind, model.config.labels) == ("classifier", ("bad", "good"))
    assert json.loads((run / "model" / "config.json").read_text())["architectures"] == ["GPT2ForSequenceClassification"]
    capsys.readouterr()
    assert main(["classify", str(run), str(labelled), "--json"]) == 0
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert first["label"] in ("bad", "good")
    assert main(["eval", str(run), str(labelled), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert measured["task"] == "classify" and sum(map(sum, measured["confusion"])) == 40
    again, halved = tmp_path / "again", tmp_path / "halved"  # one from it; and one that is resumed
    trained(capsys, labelled, *rest, "--steps", "3", "--model.start", run, "--out", again)
    assert headway.load(again / "model").model.config == model.config
    trained(capsys, labelled, *rest, "--steps", "3", "--model.start", start, "--out", halved)
    trained(capsys, "--out", halved, "--resume", "--steps", "6")
    found, middle = headway.load(halved / "model").model, lines(halved, "validation")
    assert [row["step"] for row in middle] == [3, 6] and found.config == model.config
    assert all(map(torch.equal, found.parameters(), model.parameters()))


@pytest.mark.parametrize("architecture", ["transformer", "recurrent"])
def test_pairs_of_texts(tmp_path, capsys, architecture):
    chance, file, run = random.Random(3), tmp_path / "pairs.tsv", tmp_path / "run"
    rows = [(text := sentence(chance, 2)) + "\t" + text[::-1] for _ in range(40)]
    file.write_text("source\ttarget\n" + "\n".join(rows) + "\n")
    sizes = QUICK if architecture == "transformer" else ["--model.width", "16", *QUICK[QUICK.index("--steps") :]]
    place = trained(
        capsys, file, *sizes, "--task", "seq2seq", "--model.architecture", architecture, "--out", run,
        "--tokenizer.kind", "character",
    )  # fmt: skip
    assert "wanted" in lines(run, "sample")[0]
    (tmp_path / "in.txt").write_text("The river.\n")
    assert main(["translate", place, str(tmp_path / "in.txt"), "--max-new-tokens", "5"]) == 0


@pytest.mark.parametrize("architecture", ["vit", "davit"])
def test_images(tmp_path, capsys, architecture):
    run = tmp_path / "run"
    images = np.random.default_rng(0).integers(0, 256, (40, 8, 8), dtype=np.uint8)
    np.savez(tmp_path / "x.npz", images=images, label=np.arange(40) % 3)
    quick = [*QUICK[QUICK.index("--steps") :], "--data.augment", "shift"]
    trained(capsys, tmp_path / "x.npz", *quick, "--task", "images", "--model.architecture", architecture, "--out", run)
    assert "accuracy" in lines(run, "validation")[0]
    model, _, _ = headway.load(run / "model")
    assert model(torch.zeros(1, 1, 8, 8)).shape == (1, 3)


def test_sentence_vectors(tmp_path, capsys):
    chance, file, run = random.Random(4), tmp_path / "twins.jsonl", tmp_path / "run"
    rows = [json.dumps({"first": (text := sentence(chance)), "second": text.upper()}) for _ in range(40)]
    file.write_text("\n".join(rows) + "\n")
    place = trained(capsys, file, *QUICK, "--task", "embed", "--tokenizer.vocabulary", "300", "--out", run)
    (tmp_path / "in.txt").write_text("The river.\n")
    assert main(["embed", place, str(tmp_path / "in.txt"), "--out", str(tmp_path / "v.npy")]) == 0
    assert np.load(tmp_path / "v.npy").shape == (1, 16)
