"""Evaluations beside the same numbers by hand: one example at a time, log-probabilities added up in float64."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sacrebleu
import torch
from torch import Tensor

import headway
from headway.app.evaluate import evaluate, task_of
from headway.app.metrics import EvalSettings, Evaluation, ranked
from headway.app.run import read_run
from headway.config.train import DataConfig, ModelChoice, TokenizerConfig
from headway.data.image_dataset import read_images
from headway.data.masked_text import MaskedText
from headway.data.measures import spearman
from headway.data.sentences import Sentences
from headway.data.text_pairs import TextPair, seq2seq_special_tokens
from headway.data.tokenizer import Tokenizer
from headway.data.tokenizer_training import train_tokenizer
from headway.decoding import Request, generate
from headway.hub.load import Loaded
from headway.hub.target import Directory, directory
from headway.presets.bert import bert
from headway.presets.sized import sized_language, sized_seq2seq, small_vit
from tests.fresh import fresh

TEXT = "The café is closed. It opens at seven, says Zoë; the rain has ended.\n" * 5
SENTENCES = (
    "The small red fox ran. A big dog, however, sat there. It was raining hard now. Nobody saw the old cat. " * 6
)


def saved(place: Path, config: Any, tokenizer: Tokenizer | None, **options: Any) -> Loaded:
    """A random model, by way of the disk, with logits that are far from one another."""
    headway.save(fresh(config, dtype=torch.float64, std=0.3), place, tokenizer=tokenizer)
    return headway.load(place)


def measured(loaded: Loaded, *places: Any, task: str | None = None, **options: Any) -> Evaluation:
    data = {name: options.pop(name) for name in list(options) if name in DataConfig.model_fields}
    settings = EvalSettings(DataConfig(train=tuple(map(str, places)), **data), **options)
    heard: list[tuple[str, int, int]] = []
    found = evaluate(
        loaded, task_of(loaded.model.config, task, Path("here")), settings, lambda *seen: heard.append(seen)
    )
    assert heard and heard[-1][1] == heard[-1][2]
    return found


def lost(logits: Tensor, target: Tensor) -> float:
    return float(-logits.double().log_softmax(-1)[torch.arange(len(target)), target].sum())


# Language


@pytest.fixture
def language(tmp_path: Path) -> Loaded:
    tokenizer = train_tokenizer([TEXT], TokenizerConfig(kind="byte"), task="language")
    config = sized_language(ModelChoice(layers=2, width=22, heads=2), vocabulary=tokenizer.size, length=13)
    return saved(tmp_path / "model", config, tokenizer)


@pytest.mark.parametrize("stride", [None, 4])
def test_every_token_is_counted_with_the_context_promised(language: Loaded, stride: int | None, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(TEXT)
    found = measured(language, tmp_path / "x.txt", length=11, stride=stride, batch=7)
    assert language.tokenizer is not None
    ended = language.tokenizer.end
    tokens = [ended, *language.tokenizer.encode(TEXT, special=False), ended]
    step, total, place = stride or 11, 0.0, 0
    while place < len(tokens) - 1:  # the tokens place + 1 … are predicted next
        first = max(0, place - (11 - step)) if place else 0
        last = min(first + 11, len(tokens) - 1)
        first = max(0, last - 11)
        with torch.no_grad():
            logits = language.model(torch.tensor([tokens[first:last]]))[0]
        total += lost(logits[place - first :], torch.tensor(tokens[place + 1 : last + 1]))
        place = last
    assert found.counts["tokens"] == len(tokens) - 1 and found.counts["bytes"] == len(TEXT.encode())
    assert found.measures["loss"] == pytest.approx(total / (len(tokens) - 1), abs=1e-6)
    assert found.measures["perplexity"] == pytest.approx(math.exp(found.measures["loss"]))
    assert found.measures["bits_per_byte"] == pytest.approx(total / math.log(2) / len(TEXT.encode()), abs=1e-6)
    assert f"from {12 - step} to 11 tokens" in found.notes[0]


def test_a_window_is_not_longer_than_the_model(language: Loaded, tmp_path: Path) -> None:
    (tmp_path / "x.txt").write_text(TEXT)
    with pytest.raises(ValueError, match="the model reads 13 tokens, and --length asks for 14"):
        measured(language, tmp_path / "x.txt", length=14)


# Masked words


def test_hidden_words_are_asked_one_by_one(tmp_path: Path) -> None:
    tokenizer = train_tokenizer([SENTENCES], TokenizerConfig(kind="wordpiece", vocabulary=71), task="masked")
    sizes: dict[str, Any] = dict(width=22, heads=2, layers=1, hidden=31, vocabulary=tokenizer.size, length=43, types=2)
    loaded = saved(tmp_path / "model", bert(**sizes, words=True, adjacent=True), tokenizer)
    (tmp_path / "x.txt").write_text(SENTENCES)
    found = measured(loaded, tmp_path / "x.txt", batch=5)
    examples = MaskedText(Sentences.read([SENTENCES], tokenizer), tokenizer, length=43, weights={"words": 1.0})
    total = hits = count = 0.0
    for row in range(len(examples)):
        inputs = examples.batch(np.array([row]), np.array([row])).inputs
        with torch.no_grad():
            logits = loaded.model.words(
                loaded.model.hidden_states(inputs["tokens"], keep=inputs["keep"], types=inputs["types"])
            )
        asked = inputs["words"][0] >= 0
        total += lost(logits[0, asked], inputs["words"][0, asked])
        hits += int((logits[0, asked].argmax(-1) == inputs["words"][0, asked]).sum())
        count += int(asked.sum())
    assert found.counts["words"] == count > 20
    assert found.measures["words_loss"] == pytest.approx(total / count, abs=1e-6)
    assert found.measures["words_accuracy"] == hits / count
    assert 0 <= found.measures["adjacent_accuracy"] <= 1 and found.counts["adjacent"] > 0


# Classes


def test_pictures_by_hand(tmp_path: Path) -> None:
    album = read_images(["digits-test"])
    config = small_vit(
        ModelChoice(layers=1, width=22, heads=2, patch=4), image=8, channels=1, classes=10, labels=album.names,
        images=album.measure(),
    )  # fmt: skip
    loaded = saved(tmp_path / "model", config, None)
    found = measured(loaded, "digits-test", batch=53)
    images = loaded.model.config.images
    x = (album.take(np.arange(360)).astype(np.float64)[..., 0] - images.mean[0]) / images.std[0]
    with torch.no_grad():
        logits = torch.cat([loaded.model(some[:, None]) for some in torch.from_numpy(x).split(40)])
    guesses, right = logits.argmax(-1).numpy(), album.labels
    assert found.measures["accuracy"] == pytest.approx((guesses == right).mean())
    assert found.measures["loss"] == pytest.approx(lost(logits, torch.from_numpy(right)) / 360, abs=1e-5)
    assert found.table is not None and found.table[3, 5] == ((right == 3) & (guesses == 5)).sum()
    assert found.table.sum() == 360 == found.counts["examples"]
    assert found.measures["majority"] == np.bincount(right).max() / 360


def test_texts_of_mixed_lengths_by_hand(tmp_path: Path) -> None:
    tokenizer = train_tokenizer([SENTENCES], TokenizerConfig(kind="wordpiece", vocabulary=71), task="classify")
    sizes: dict[str, Any] = dict(width=22, heads=2, layers=1, hidden=31, vocabulary=tokenizer.size, length=43, types=2)
    loaded = saved(tmp_path / "model", bert(**sizes, classes=3, labels=("calm", "wet", "wild")), tokenizer)
    texts = ["It was raining hard now.", "The cat", "Nobody saw the old cat there", "A big dog sat", "red"]
    labels = ["wet", "calm", "calm", "wild", "wet"]
    rows = [f"{label},{text}\n" for label, text in zip(labels, texts, strict=True)]
    (tmp_path / "x.csv").write_text("mood,said\n" + "".join(rows))
    found = measured(loaded, tmp_path / "x.csv", text="said", label="mood", batch=2)
    with torch.no_grad():
        logits = torch.cat([loaded.model(torch.tensor([tokenizer.encode(text)])) for text in texts])
    right = torch.tensor([1, 0, 0, 2, 1])
    assert found.measures["loss"] == pytest.approx(lost(logits, right) / 5, abs=1e-6)
    assert found.measures["accuracy"] == pytest.approx(float((logits.argmax(-1) == right).double().mean()))
    (tmp_path / "z.csv").write_text("label,first,second\nwet,It was raining,The cat\n")
    (two,) = tokenizer.engine.encode_batch([("It was raining", "The cat")])
    with torch.no_grad():
        logits = loaded.model(torch.tensor([two.ids]), types=torch.tensor([two.type_ids]))
    pair = measured(loaded, tmp_path / "z.csv", paired=True)
    assert pair.measures["loss"] == pytest.approx(lost(logits, torch.tensor([1])), abs=1e-6)
    (tmp_path / "y.csv").write_text("mood,said\nsour,The cat\n")
    with pytest.raises(ValueError, match="has the label 'sour', which the training data never had"):
        measured(loaded, tmp_path / "y.csv", text="said", label="mood")


# Pairs


@pytest.fixture
def translator(tmp_path: Path) -> Loaded:
    tokenizer = train_tokenizer([TEXT], TokenizerConfig(kind="byte"), task="seq2seq")
    config = sized_seq2seq(
        ModelChoice(layers=1, width=22, heads=2),
        vocabulary=tokenizer.size,
        length=61,
        special=seq2seq_special_tokens(tokenizer),
    )
    return saved(tmp_path / "model", config, tokenizer)


PAIRS = [("the café", "das Café"), ("rain", "Regen und noch viel mehr davon"), ("it opens at seven", "um sieben")]


def test_translations_by_hand(translator: Loaded, tmp_path: Path) -> None:
    (tmp_path / "x.tsv").write_text("en\tde\n" + "".join(f"{a}\t{b}\n" for a, b in PAIRS))
    found = measured(translator, tmp_path / "x.tsv", source="en", target="de", batch=2, max_new_tokens=19, samples=2)
    model, tokenizer = translator.model, translator.tokenizer
    assert tokenizer is not None
    total, count, written = 0.0, 0, []
    for source, target in PAIRS:
        read, said = ([*tokenizer.encode(text, special=False), tokenizer.end] for text in (source, target))
        with torch.no_grad():
            logits = model(torch.tensor([read]), torch.tensor([[model.config.special.start, *said[:-1]]]))
        total, count = total + lost(logits[0], torch.tensor(said)), count + len(said)
        (result,) = generate(
            model, [Request(prompt=source, max_new_tokens=19)], tokenizer=tokenizer, past_length="stop"
        )
        written.append(" ".join(result.text.splitlines()))
    assert found.measures["loss"] == pytest.approx(total / count, abs=1e-6)
    right = [[target for _, target in PAIRS]]
    assert found.measures["bleu"] == sacrebleu.corpus_bleu(written, right).score
    assert found.measures["chrf"] == sacrebleu.corpus_chrf(written, right).score
    assert any(note.startswith("chrf: nrefs:1") for note in found.notes) and "decoding: greedy" in found.notes
    assert [one["source"] for one in found.samples] == [PAIRS[0][0], PAIRS[2][0]]
    assert found.samples[1]["text"] == written[2]


def test_without_sacrebleu_the_way_out_is_said(
    translator: Loaded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "sacrebleu", None)
    with pytest.raises(ValueError, match=r'pip install "headway\[metrics\]"'):
        measured(translator, tmp_path / "x.tsv")


def test_twins_by_hand(tmp_path: Path) -> None:
    from headway.config.text import SentenceConfig

    tokenizer = train_tokenizer([SENTENCES], TokenizerConfig(kind="wordpiece", vocabulary=71), task="embed")
    inner = bert(width=22, heads=2, layers=1, hidden=31, vocabulary=tokenizer.size, length=43, types=2)
    loaded = saved(tmp_path / "model", SentenceConfig(encoder=inner, limit=43), tokenizer)
    twins = [
        ("the red fox", "a fox", 3),
        ("big dog", "small dog", 2.5),
        ("it rains", "hard rain", 4),
        ("cat", "now", 0),
    ]
    lines = [f'{{"a": "{a}", "b": "{b}", "alike": {score}}}\n' for a, b, score in twins]
    (tmp_path / "x.jsonl").write_text("".join(lines))
    found = measured(loaded, tmp_path / "x.jsonl", first="a", second="b", score="alike", batch=4)
    a, b = (loaded.model.encode([tokenizer.encode(twin[side]) for twin in twins]).double() for side in (0, 1))
    scores = torch.nn.functional.normalize(a) @ torch.nn.functional.normalize(b).T
    assert found.measures["retrieval_accuracy"] == float((scores.argmax(-1) == torch.arange(4)).double().mean())
    assert found.measures["spearman"] == pytest.approx(spearman(scores.diag().numpy(), np.array([3, 2.5, 4, 0])))
    (tmp_path / "y.jsonl").write_text(lines[0] + '{"a": "cat", "b": "now", "alike": "very"}\n')
    with pytest.raises(ValueError, match=r"line 2 of .* has the score 'very', and a number is expected"):
        measured(loaded, tmp_path / "y.jsonl", first="a", second="b", score="alike")


# What is asked of whom


def test_a_task_that_a_model_cannot_do_is_refused() -> None:
    sizes: dict[str, Any] = dict(width=22, heads=2, layers=1, hidden=31, vocabulary=7, length=5, types=2)
    here = Path("here")
    assert task_of(bert(**sizes, classes=3), None, here) == "classify"
    assert task_of(bert(**sizes, words=True), None, here) == "masked"
    assert task_of(bert(**sizes, words=True, classes=3), "masked", here) == "masked"
    with pytest.raises(ValueError, match="here holds a masked model, which is measured by classify, not masked"):
        task_of(bert(**sizes, classes=3), "masked", here)
    with pytest.raises(ValueError, match="here holds a masked model without a head: there is nothing to measure"):
        task_of(bert(**sizes), None, here)


def test_a_run_stands_for_its_model(language: Loaded, tmp_path: Path) -> None:
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("task: language\ndata: {train: [x.txt], text: body}\n")
    with pytest.raises(ValueError, match="run is a run that has not finished: it has no model yet"):
        directory(str(run))
    (tmp_path / "model").rename(run / "model")
    assert directory(str(run)) == Directory(run / "model", run)
    assert read_run(run).config == {"task": "language", "data": {"train": ["x.txt"], "text": "body"}}
    with pytest.raises(ValueError, match="gpt2' is a preset: sizes without weights"):
        directory("gpt2")


def test_ranks_leave_out_other_answers_to_the_same_text_and_count_negatives() -> None:
    line = {"a": 0.0, "b": 1.0, "x": 0.1, "y": 0.3, "z": 0.9, "n": 0.05}  # angles: the nearer, the more alike
    vectors = {text: np.array([np.cos(angle), np.sin(angle)]) for text, angle in line.items()}
    twins = [TextPair("1", "a", "y"), TextPair("2", "a", "x"), TextPair("3", "b", "z", ("n",))]
    ranks, candidates = ranked(twins, vectors)
    assert ranks.tolist() == [1, 1, 0] and candidates == 4  # n alone is nearer to a than y and x are
