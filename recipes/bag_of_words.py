"""What is reached without understanding: the figures that a model has to be better than.

The bag of words is a logistic regression on which words stand in the first text, in the second, in both and in only
one of them; their order it cannot see.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.data.batch import Examples
from headway.data.sentences import Sentences

VIEWS = ("first", "second", "both", "either")
DECAYS = (1e-4, 1e-3, 1e-2, 1e-1)  # of the squared weights; the best on a tenth of the training examples is taken
_TURN = 256  # examples that are drawn at once


def unigram_accuracy(train: Sentences, held: Sentences) -> float:
    """How often a hidden word is guessed that guesses the most frequent one of the training text."""
    guess = np.bincount(train.tokens.flat).argmax()
    return float((held.tokens.flat == guess).mean())


@dataclass(frozen=True)
class Bags:
    """For each example how much it has of each feature, a sparse row; and its label."""

    rows: Tensor
    columns: Tensor
    values: Tensor
    labels: Tensor
    width: int

    @classmethod
    def of(
        cls, examples: Examples, *, vocabulary: int, count: int, seed: int = 0, views: Sequence[str] = VIEWS
    ) -> "Bags":
        """`count` examples, each drawn from a key of its own; every row once before any comes again."""
        rows = np.arange(count) % len(examples)
        keys = np.random.default_rng(seed).integers(0, 2**62, count)
        found: list[tuple[np.ndarray, np.ndarray]] = []
        labels: list[int] = []
        for start in range(0, count, _TURN):
            part = slice(start, start + _TURN)
            inputs = {name: x.numpy() for name, x in examples.batch(rows[part], keys[part]).inputs.items()}
            for tokens, keep, types in zip(inputs["tokens"], inputs["keep"], inputs["types"], strict=True):
                found.append(_bag(tokens[keep], types[keep], vocabulary, views))
            labels += inputs["label"].tolist()
        owner = np.repeat(np.arange(count), [len(columns) for columns, _ in found])
        columns, values = (torch.from_numpy(np.concatenate([one[part] for one in found])) for part in (0, 1))
        return cls(torch.from_numpy(owner), columns, values, torch.tensor(labels), len(VIEWS) * vocabulary)

    @property
    def matrix(self) -> Tensor:
        places, shape = torch.stack([self.rows, self.columns]), (len(self.labels), self.width)
        return torch.sparse_coo_tensor(places, self.values, shape, check_invariants=True).coalesce()

    def part(self, first: int, last: int) -> "Bags":
        inside = (self.rows >= first) & (self.rows < last)
        rows, columns, values = (x[inside] for x in (self.rows, self.columns, self.values))
        return Bags(rows - first, columns, values, self.labels[first:last], self.width)


def bag_of_words(train: Bags, held: Bags) -> np.ndarray:
    """The label that the bag of words gives to each held-out example; np.mean(== labels) is its accuracy."""
    classes, edge = int(train.labels.max()) + 1, len(train.labels) * 9 // 10
    front, back = train.part(0, edge), train.part(edge, len(train.labels))
    right = [int((_fit(front, decay, classes, back) == back.labels).sum()) for decay in DECAYS]
    return _fit(train, DECAYS[int(np.argmax(right))], classes, held).numpy()


def _fit(bags: Bags, decay: float, classes: int, asked: Bags) -> Tensor:
    """argmax of the logits for `asked`, at the minimum of mean(-log p) + decay · |weights|²."""
    weight = torch.zeros(bags.width, classes, requires_grad=True)
    bias = torch.zeros(classes, requires_grad=True)
    descent = torch.optim.LBFGS([weight, bias], max_iter=60, line_search_fn="strong_wolfe")
    matrix = bags.matrix

    def loss() -> Tensor:
        descent.zero_grad()
        found = F.cross_entropy(torch.sparse.mm(matrix, weight) + bias, bags.labels) + decay * weight.square().sum()
        found.backward()
        return found

    descent.step(loss)  # type: ignore[arg-type]
    with torch.no_grad():
        return (torch.sparse.mm(asked.matrix, weight) + bias).argmax(-1)


def _bag(tokens: np.ndarray, types: np.ndarray, vocabulary: int, views: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of features and how much of each: √count, which keeps frequent words from drowning the others."""
    words = np.unique(tokens)
    first, second = ((tokens[types == side][:, None] == words).sum(0) for side in (0, 1))
    seen = {"first": first, "second": second, "both": np.minimum(first, second), "either": np.abs(first - second)}
    parts = [(words + number * vocabulary, seen[name]) for number, name in enumerate(VIEWS) if name in views]
    features, counts = (np.concatenate([part[side] for part in parts]) for side in (0, 1))
    return features[counts > 0], np.sqrt(counts[counts > 0]).astype(np.float32)
