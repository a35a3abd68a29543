"""Parts of texts: entities as transformers' pipeline joins them, answers as a search of all spans finds them."""

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
import transformers

import headway
from headway.app.spans import LONGEST, Span
from headway.cli import main
from headway.models.encoder import Masked
from tests.parity.compare import shake

VOCABULARY = [
    "[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "the", "of", "in", "on", "rain", "stone", "river", "runs",
    "falls", "over", "under", "##s", "##ing", "##ed", "very", "old", "new", "red", "green", ".", ",", "!", "?",
]  # fmt: skip
TEXTS = [
    "the rain falls.",
    "",
    "A very old river runs over the red stones, under the green stone!",
    "stone",
    "the rain falls on the stone, " * 9,
    "unheard words running in the rain?",
    "old, new: very very very very very old.",
]
LABELS = ["O", "B-A", "I-A", "B-B", "I-B"]
QUESTION, CONTEXT = "over the stone?", "the rain falls on the old stones, very old, under the green river running."
SIZES: dict[str, Any] = dict(
    vocab_size=len(VOCABULARY), hidden_size=22, num_attention_heads=2, num_hidden_layers=2, intermediate_size=17,
    max_position_embeddings=97,
)  # fmt: skip


def directory(path: Path, kind: str, **changes: Any) -> Path:
    """A tiny random model of transformers with words to read."""
    path.mkdir()
    (path / "vocab.txt").write_text("\n".join(VOCABULARY))
    transformers.BertTokenizerFast(str(path / "vocab.txt"), model_max_length=97).save_pretrained(path)
    torch.manual_seed(3)
    model = getattr(transformers, kind)(transformers.BertConfig(**SIZES, **changes)).eval()
    shake(model, size=0.4)
    if kind == "BertForTokenClassification":  # no label is more frequent than the others
        with torch.no_grad():
            scores = model(torch.arange(len(VOCABULARY))[None]).logits
            model.classifier.bias -= scores.mean((0, 1))
    model.save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def tagger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    names = dict(enumerate(LABELS))
    return directory(tmp_path_factory.mktemp("spans") / "ner", "BertForTokenClassification", id2label=names)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return directory(tmp_path_factory.mktemp("spans") / "qa", "BertForQuestionAnswering")


def test_entities_are_those_of_the_pipeline(tagger: Path) -> None:
    """It gives a word the label of its first token too, with this strategy."""
    texts = [text for text in TEXTS if text]
    pipe = transformers.pipeline("token-classification", str(tagger), aggregation_strategy="first", device="cpu")
    found = headway.classify(tagger, texts)
    count = 0
    for text, own, theirs in zip(texts, found, pipe(texts), strict=True):
        expected = [(one["entity_group"], one["start"], one["end"]) for one in theirs]
        assert [(one.label, one.start, one.end) for one in own] == expected
        for one, other in zip(own, theirs, strict=True):
            assert one.text == text[one.start : one.end]
            assert one.probability == pytest.approx(float(other["score"]), abs=1e-5)
        count += len(own)
    assert count > 7 and len({one.label for spans in found for one in spans}) == 2
    assert any(" " in one.text for spans in found for one in spans), "no entity of several words, so nothing was joined"


def test_a_label_without_a_prefix_is_one_words_own(tmp_path: Path) -> None:
    place = directory(tmp_path / "pos", "BertForTokenClassification", num_labels=3)
    (found,) = headway.classify(place, ["the rain falls."])
    assert [one.text for one in found] == ["the", "rain", "falls", "."]
    assert {one.label for one in found} <= {"LABEL_0", "LABEL_1", "LABEL_2"}


@torch.no_grad()
def by_hand(place: Path, question: str, context: str) -> dict[str, float]:
    """Every span of the context that may be an answer, by its text, with its probability."""
    loaded = headway.load(place)
    model, tokenizer = loaded.model, loaded.tokenizer
    assert isinstance(model, Masked) and tokenizer is not None
    one = tokenizer.engine.encode(question, context)
    begin, end = model(torch.tensor([one.ids]), types=torch.tensor([one.type_ids]))[0].double().T.tolist()
    inside = [place for place, text in enumerate(one.sequence_ids) if text == 1]
    weights: dict[tuple[int, int], float] = {(0, 0): math.exp(begin[0] + end[0])}
    for i in inside:
        for j in inside:
            if i <= j < i + LONGEST:
                weights[i, j] = math.exp(begin[i] + end[j])
    total = sum(weights.values())
    return {
        context[one.offsets[i][0] : one.offsets[j][1]] if i else "": weight / total
        for (i, j), weight in sorted(weights.items(), key=lambda pair: pair[1])
    }


@pytest.mark.parametrize("context", [CONTEXT, "the old river " * 15])
def test_answers_are_the_most_probable_spans(context: str, reader: Path) -> None:
    expected = by_hand(reader, QUESTION, context)
    (found,) = headway.classify(reader, [(QUESTION, context)])
    assert [one.probability for one in found] == sorted((one.probability for one in found), reverse=True)
    assert found[0].probability == pytest.approx(max(expected.values()), rel=1e-4)
    for one in found:
        assert one.text == context[one.start : one.end]
        assert isinstance(one, Span) and one.text in expected


def test_no_answer_is_an_answer(reader: Path, tmp_path: Path) -> None:
    loaded = headway.load(reader)
    assert isinstance(loaded.model, Masked) and loaded.model.answer_head is not None
    tokens = torch.tensor([loaded.tokenizer.encode(QUESTION, CONTEXT)])
    with torch.no_grad():  # what the first token has and the others have not
        first = loaded.model.hidden_states(tokens)[0]
        loaded.model.answer_head.weight += 9 * (first[0] - first[1:].mean(0))
    best = headway.classify(loaded, [(QUESTION, CONTEXT)])[0][0]
    assert isinstance(best, Span)
    assert (best.text, best.label, best.start, best.end) == ("", "no answer", 0, 0)


def test_the_command_prints_them(tagger: Path, reader: Path, tmp_path: Path, capsys) -> None:
    (tmp_path / "ner.txt").write_text(f"{TEXTS[2]}\n\n")
    (tmp_path / "qa.txt").write_text(f"{QUESTION}\t{CONTEXT}\n")
    assert main(["classify", str(tagger), str(tmp_path / "ner.txt")]) == 0
    first, second = capsys.readouterr().out.splitlines()
    expected = headway.classify(tagger, TEXTS[2])
    cells = first.split("\t")
    assert (
        second == "" and cells[::3] == [one.text for one in expected] and cells[1::3] == [one.label for one in expected]
    )
    assert main(["classify", str(tagger), str(tmp_path / "ner.txt"), "--json"]) == 0
    row = json.loads(capsys.readouterr().out.splitlines()[0])
    assert [one["start"] for one in row["entities"]] == [one.start for one in expected]
    assert main(["classify", str(reader), str(tmp_path / "qa.txt"), "--json", "--top", "2"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert (row["text"], row["pair"], len(row["answers"])) == (QUESTION, CONTEXT, 2)
    assert row["answer"] == (row["answers"][0]["text"] or None)
    assert main(["classify", str(reader), str(tmp_path / "qa.txt"), "--top", "1"]) == 0
    assert capsys.readouterr().out.split("\t")[0] == (row["answer"] or "no answer")


def test_what_a_model_cannot_read_is_refused(tagger: Path, reader: Path) -> None:
    with pytest.raises(ValueError, match="input 1 has no text to find an answer in"):
        headway.classify(reader, [(QUESTION, CONTEXT), "the rain"])
    with pytest.raises(ValueError, match="input 0 has two texts"):
        headway.classify(tagger, [(QUESTION, CONTEXT)])
    with pytest.raises(ValueError, match="has 157 tokens, and the model reads 97"):
        headway.classify(reader, [(QUESTION, "the old " * 75)])
    assert headway.classify(reader, [(QUESTION, "the old " * 75)], cut=True)
