"""What models are worth: their figures on held-out data, beside what is reached without understanding.

python recipes/baselines.py sentiment [RUN]    the most frequent class, logistic regressions on words, the run's model
python recipes/baselines.py pretrain [RUN]     the most frequent word, chance, a bag of words, the run's model

A run is by default recipes/runs/NAME; where there is none, the baselines of the recipe are printed alone.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression

sys.path.insert(0, str(Path(__file__).parent.parent))

from headway import load
from headway.app.settings import resolve
from headway.config.base import IGNORED
from headway.config.run_files import RunFiles
from headway.data.batch import Examples
from headway.data.labelled import Labelled, LabelledText
from headway.data.masked_text import MaskedText
from headway.data.measures import accuracy, confusion, macro_f1
from headway.data.source import records
from headway.models.encoder import Masked
from headway.training.tasks.encoder import prepare_masked
from recipes.bag_of_words import Bags, bag_of_words

HERE = Path(__file__).parent
GRAMS, STRENGTHS = ((1, 1), (1, 2)), (1.0, 3.0, 10.0)  # of the logistic regression; chosen on the validation part
ASKED = 4000  # questions about held-out sentences, the same ones for all
_TURN = 100


def sentiment(run: Path) -> None:
    """Accuracy and macro-F1 on the test part."""
    train, validation, test = (_samples(part) for part in ("train", "validation", "test"))
    names = sorted({sample.label for sample in train})
    number = {name: index for index, name in enumerate(names)}
    right = np.array([number[sample.label] for sample in test])

    def show(what: str, found: np.ndarray) -> None:
        table = confusion(right, found, classes=len(names))
        print(f"{what:57} accuracy {accuracy(table):.1%}   macro-F1 {macro_f1(table):.1%}", flush=True)

    most = np.bincount([number[sample.label] for sample in train]).argmax()
    show("the most frequent class", np.full(len(right), most))
    for grams in GRAMS:
        tried = [_regression(train, validation, grams, strength) for strength in STRENGTHS]
        _, predict = max(tried, key=lambda one: one[0])
        kind = "words" if grams == (1, 1) else "words and pairs of words"
        show(f"logistic regression on {kind} (tf-idf)", np.array([number[name] for name in predict(test)]))
    if (run / "model").is_dir():
        loaded = load(run / "model")
        assert loaded.tokenizer is not None
        examples = Labelled(test, loaded.tokenizer, length=loaded.model.config.length, labels=names, cut=True)
        show(str(run), _classes(loaded.model, examples))


def pretrain(run: Path) -> None:
    """Hidden words, adjacency and inversion of the held-out tenth; in questions about sentences no word is hidden."""
    with TemporaryDirectory() as away:
        place = RunFiles(run if run.is_dir() else Path(away))
        given = place.config if place.config.is_file() else HERE / "pretrain.yaml"
        work = prepare_masked(resolve({}, file=given, environment={}), place, print)
    model = load(place.model).model if place.model.is_dir() else None
    train, held = work.train, work.validation
    assert isinstance(train, MaskedText) and isinstance(held, MaskedText) and work.tokenizer is not None
    for name in held.weights:
        mine, theirs = train.only(name), held.only(name)
        if name == "words":
            usual = np.bincount(_hidden(mine)).argmax()
            print(f"words: the most frequent one {np.mean(_hidden(theirs) == usual):.1%}", flush=True)
        else:
            vocabulary = work.tokenizer.size
            bags = (
                Bags.of(mine, vocabulary=vocabulary, count=len(mine)),
                Bags.of(theirs, vocabulary=vocabulary, count=ASKED, seed=1),
            )
            found = bag_of_words(*bags) == bags[1].labels.numpy()
            print(f"{name}: chance 50 %, bag of words {found.mean():.1%}", flush=True)
        if model is not None:
            print(f"{name}: {run} {_right(model, theirs, name):.1%}", flush=True)


def _samples(part: str) -> list[LabelledText]:
    found = records([str(HERE / "data" / "sentiment" / f"{part}.tsv")], columns=("text", "label"))
    return [LabelledText(one.where, one.fields["text"], one.fields["label"]) for one in found]


def _regression(
    train: list[LabelledText], validation: list[LabelledText], grams: tuple[int, int], strength: float
) -> tuple[float, Callable[[list[LabelledText]], list[str]]]:
    """(accuracy on the validation part, who answers)."""
    words = TfidfVectorizer(ngram_range=grams, sublinear_tf=True)
    fitted = LogisticRegression(C=strength, max_iter=1000).fit(
        words.fit_transform([sample.text for sample in train]), [sample.label for sample in train]
    )

    def predict(asked: list[LabelledText]) -> list[str]:
        return list(fitted.predict(words.transform([sample.text for sample in asked])))

    return float(np.mean([a == b.label for a, b in zip(predict(validation), validation, strict=True)])), predict


@torch.no_grad()
def _classes(model: Masked, examples: Labelled) -> np.ndarray:
    found = np.zeros(len(examples), dtype=np.int64)
    order = np.argsort(examples.sizes, kind="stable")
    for rows in np.array_split(order, max(1, len(order) // _TURN)):
        inputs = examples.batch(rows, rows).inputs
        found[rows] = model(inputs["tokens"], keep=inputs["keep"], types=inputs["types"]).argmax(-1).numpy()
    return found


@torch.no_grad()
def _right(model: Masked, examples: Examples, name: str) -> float:
    """The share of right answers to the questions that `Bags.of(..., count=ASKED, seed=1)` draws."""
    rows, keys = np.arange(ASKED) % len(examples), np.random.default_rng(1).integers(0, 2**62, ASKED)
    hits: list[torch.Tensor] = []
    for start in range(0, ASKED, _TURN):
        part = slice(start, start + _TURN)
        inputs = examples.batch(rows[part], keys[part]).inputs
        hidden = model.hidden_states(inputs["tokens"], keep=inputs["keep"], types=inputs["types"])
        if name == "words":
            asked = inputs["words"] != IGNORED
            hits.append(model.words(hidden[asked]).argmax(-1) == inputs["words"][asked])
        else:
            ask = model.adjacent if name == "adjacent" else model.inverted
            hits.append(ask(hidden, inputs["keep"]).argmax(-1) == inputs["label"])
    return float(torch.cat(hits).float().mean())


def _hidden(examples: Examples) -> np.ndarray:
    """The words that are hidden in as many examples as are asked."""
    rows, keys = np.arange(ASKED) % len(examples), np.random.default_rng(1).integers(0, 2**62, ASKED)
    words = examples.batch(rows, keys).inputs["words"]
    return words[words != IGNORED].numpy()


if __name__ == "__main__":
    names = {"sentiment": sentiment, "pretrain": pretrain}
    if len(sys.argv) not in (2, 3) or sys.argv[1] not in names:
        sys.exit(f"usage: python recipes/baselines.py {' | '.join(names)} [RUN]")
    names[sys.argv[1]](Path(sys.argv[2]) if len(sys.argv) == 3 else HERE / "runs" / sys.argv[1])
