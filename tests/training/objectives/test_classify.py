"""Text classification: the sum by hand, gradients everywhere, and texts of different lengths learnt."""

from typing import Any

import numpy as np
import pytest
import torch

from headway.data.labelled import Labelled, LabelledText
from headway.presets.bert import bert
from headway.training.objectives import classification_loss
from tests.data.texts import NOUNS, tokenizer
from tests.fresh import fresh

TOKENIZER = tokenizer()
# The class is the first noun's half of the list, in texts of different lengths.
TEXTS = [
    (f"{'the ' * (n % 5)}{NOUNS[n % 11]} opens {'a window ' * (n % 3)}", "low" if n % 11 < 5 else "up")
    for n in range(33)
]
DATA = Labelled([LabelledText(f"line {n}", *text) for n, text in enumerate(TEXTS)], TOKENIZER, length=23)
SIZES: dict[str, Any] = dict(width=22, heads=2, layers=1, hidden=37, vocabulary=TOKENIZER.size, length=23, dropout=0.0)


def test_the_sum_is_that_of_the_texts_alone() -> None:
    model = fresh(bert(**SIZES, classes=2, words=True), dtype=torch.float64).eval()
    found = classification_loss(model, DATA.batch(np.arange(7), np.arange(7)).inputs)
    alone = [DATA.batch(np.array([row]), np.array([0])).inputs for row in range(7)]
    logits = torch.cat([model(one["tokens"]) for one in alone])
    right = torch.tensor(DATA.answers[:7])
    assert float(found.losses["loss"].detach()) == pytest.approx(
        -float(logits.log_softmax(-1)[torch.arange(7), right].sum())
    )
    assert int(found.hits["loss"]) == int((logits.argmax(-1) == right).sum())
    found.losses["loss"].backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_it_learns() -> None:
    model, given = fresh(bert(**SIZES, classes=2), seed=1), DATA.batch(np.arange(33), np.arange(33)).inputs
    descent = torch.optim.AdamW(model.parameters(), lr=5e-3)
    for _ in range(40):
        descent.zero_grad()
        classification_loss(model, given).losses["loss"].backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        descent.step()
    assert int(classification_loss(model.eval(), given).hits["loss"]) >= 31


def test_only_one_class_of_several_is_trained() -> None:
    model = fresh(bert(**SIZES, classes=2, outcome="several"))
    with pytest.raises(ValueError, match="outcome='several' is not trained here"):
        classification_loss(model, DATA.batch(np.arange(2), np.arange(2)).inputs)
