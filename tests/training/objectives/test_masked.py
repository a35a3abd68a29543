"""The masked objectives: their sums by hand, gradients that are never missing, and that a small model learns each."""

import itertools
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.config.base import IGNORED
from headway.data.labelled import Labelled, LabelledText
from headway.data.masked_text import OBJECTIVES, MaskedText
from headway.data.sentences import Sentences
from headway.models.encoder import Masked
from headway.presets.bert import bert
from headway.training.objectives import masked_loss
from tests.data.texts import NOUNS, VERBS, documents, tokenizer
from tests.fresh import fresh

TOKENIZER = tokenizer()
SIZES: dict[str, Any] = dict(width=22, heads=2, layers=2, hidden=37, vocabulary=TOKENIZER.size, length=37, dropout=0.0)
HEADS: dict[str, Any] = dict(words=True, adjacent=True, inverted=True, inference=3)


@cache
def examples(*names: str) -> MaskedText:
    rows = [LabelledText(f"line {n}", f"the {NOUNS[n]}", "abc"[n % 3], second=f"a {VERBS[n % 7]}") for n in range(11)]
    pairs = Labelled(rows, TOKENIZER, length=37)
    text = Sentences.read(documents(5), TOKENIZER)
    return MaskedText(text, TOKENIZER, length=37, weights=dict.fromkeys(names, 1.0), pairs=pairs)


def inputs(names: tuple[str, ...], count: int, seed: int = 0) -> dict[str, Tensor]:
    return examples(*names).batch(np.arange(count), np.arange(seed, seed + count)).inputs


def model(**changes: Any) -> Masked:
    return fresh(bert(**{**SIZES, **HEADS, **changes}), dtype=torch.float64)


def test_the_sums_are_those_of_the_heads_one_row_at_a_time() -> None:
    made, given = model().eval(), inputs(OBJECTIVES, 23)
    found = masked_loss(made, given)
    losses, hits = dict.fromkeys(OBJECTIVES, 0.0), dict.fromkeys(OBJECTIVES, 0)
    for row in range(23):
        tokens, types, words = (given[name][row][given["keep"][row]] for name in ("tokens", "types", "words"))
        hidden = made.hidden_states(tokens[None], types=types[None])
        asked = [(0, made.words(hidden)[0, place], int(words[place])) for place in torch.where(words != IGNORED)[0]]
        if kind := int(given["kind"][row]):
            head = (made.adjacent, made.inverted, made.inference)[kind - 1]
            asked.append((kind, head(hidden)[0], int(given["label"][row])))
        for number, logits, answer in asked:
            losses[OBJECTIVES[number]] -= float(logits.log_softmax(-1)[answer].detach())
            hits[OBJECTIVES[number]] += int(logits.argmax() == answer)
    assert {name: float(loss.detach()) for name, loss in found.losses.items()} == pytest.approx(losses, rel=1e-9)
    assert {name: int(count) for name, count in found.hits.items()} == hits


def test_smoothing_of_labels() -> None:
    made, given = model().eval(), inputs(("adjacent",), 7)
    hidden = made.hidden_states(given["tokens"], keep=given["keep"], types=given["types"])
    logits = made.adjacent(hidden, given["keep"]).log_softmax(-1).detach()
    right = F.one_hot(given["label"], 2) * 0.8 + 0.1
    found = masked_loss(made, given, smoothing=0.2).losses["adjacent"].detach()
    assert float(found) == pytest.approx(-float((logits * right).sum()))


def test_a_head_that_no_row_asks_has_gradients_of_zero_not_none() -> None:
    """Several processes wait for one another's gradients of every parameter."""
    for names in (("words",), ("adjacent",), ("inference", "inverted")):
        made = model(classes=5)
        found = masked_loss(made, inputs(names, 5), names=names)
        torch.stack(list(found.losses.values())).sum().backward()
        for name, parameter in made.named_parameters():
            assert parameter.grad is not None, name
        for name in set(OBJECTIVES) - set(names) - {"words"} | {"class"}:
            gradient = made.get_parameter(f"{name}_head.weight").grad
            assert gradient is not None and not gradient.any()


def test_no_row_at_all_of_an_objective_is_a_sum_of_zero() -> None:
    found = masked_loss(model(), inputs(("adjacent",), 5))
    assert {name: float(found.losses[name].detach()) for name in ("words", "inverted", "inference")} == dict(
        words=0.0, inverted=0.0, inference=0.0
    )


def test_only_named_objectives_are_answered() -> None:
    assert list(masked_loss(model(), inputs(("words",), 3), names=("words",)).losses) == ["words"]
    assert list(masked_loss(model(inference=0), inputs(("words",), 3)).losses) == ["words", "adjacent", "inverted"]
    with pytest.raises(ValueError, match="no masked-word head"):
        masked_loss(model(words=False), inputs(("words",), 3), names=("words",))
    with pytest.raises(ValueError, match="no inversion head"):
        masked_loss(model(inverted=False), inputs(("inverted",), 3), names=("inverted",))


@pytest.mark.parametrize(("name", "steps"), [("words", 30), ("adjacent", 30), ("inverted", 30), ("inference", 30)])
def test_a_small_model_learns_it(name: str, steps: int) -> None:
    """A few rows by heart, from nothing: half or a third are right by chance."""
    torch.manual_seed(0)  # dropout
    made = fresh(bert(**{**SIZES, **HEADS, "layers": 1}), seed=1).train()
    given = inputs((name,), 11)
    descent = torch.optim.AdamW(made.parameters(), lr=1e-2)
    losses = []
    for _ in itertools.repeat(None, steps):
        found = masked_loss(made, given, names=(name,))
        descent.zero_grad()
        found.losses[name].backward()
        torch.nn.utils.clip_grad_norm_(made.parameters(), 1.0)
        descent.step()
        losses.append(float(found.losses[name].detach()))
    asked = int((given["words"] != IGNORED).sum()) if name == "words" else 11
    assert int(masked_loss(made.eval(), given, names=(name,)).hits[name]) >= 0.8 * asked
    assert losses[-1] < 0.5 * losses[0]
