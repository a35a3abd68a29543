"""Contrastive embeddings: the equation by hand, duplicates that are nobody's negatives, and twins found."""

import math

import numpy as np
import pytest
import torch

from headway.config.text import SentenceConfig
from headway.data.text_pairs import ContrastivePairs, TextPair
from headway.presets.bert import bert
from headway.training.objectives import contrastive_loss, info_nce
from tests.data.texts import NOUNS, VERBS, tokenizer
from tests.fresh import fresh

TOKENIZER = tokenizer()
DATA = ContrastivePairs(
    [
        TextPair(f"line {n}", f"the {NOUNS[n]} {VERBS[n % 7]}", f"a {NOUNS[n]}" + " of winter" * (n % 2))
        for n in range(11)
    ],
    TOKENIZER,
    limit=13,
)
ENCODER = bert(width=22, heads=2, layers=1, hidden=37, vocabulary=TOKENIZER.size, length=13, dropout=0.0, words=True)
CONFIG = SentenceConfig(encoder=ENCODER, limit=13)


def test_the_loss_by_hand() -> None:
    """Unit vectors at right angles: s is 20 for a twin, 0 for the others, and of length nothing depends."""
    a, b = torch.eye(3, dtype=torch.float64), torch.eye(3, dtype=torch.float64) * 7
    none = torch.zeros(3, 3, dtype=torch.bool)
    loss, hits = info_nce(a, b, none)
    assert float(loss) == pytest.approx(3 * math.log1p(2 * math.exp(-20)), rel=1e-6) and int(hits) == 3
    b = b[[1, 0, 2]]
    loss, hits = info_nce(a, b, none)
    assert float(loss) == pytest.approx(2 * (20 + math.log1p(2 * math.exp(-20))) + math.log1p(2 * math.exp(-20)))
    assert int(hits) == 1


def test_both_directions_count_half() -> None:
    a, b = torch.randn(5, 7, dtype=torch.float64), torch.randn(5, 7, dtype=torch.float64)
    none = torch.zeros(5, 5, dtype=torch.bool)
    scores = torch.nn.functional.normalize(a) @ torch.nn.functional.normalize(b).T * 20
    by_hand = -(scores.log_softmax(0).diagonal() + scores.log_softmax(1).diagonal()).sum() / 2
    torch.testing.assert_close(info_nce(a, b, none)[0], by_hand)
    torch.testing.assert_close(info_nce(b, a, none)[0], by_hand)


def test_what_is_the_same_is_no_negative() -> None:
    a, b = torch.randn(3, 7, dtype=torch.float64), torch.randn(3, 7, dtype=torch.float64)
    same = torch.tensor([[False, True, False], [True, False, False], [False, False, False]])
    a.requires_grad_()
    loss, _ = info_nce(a, b, same)
    scores = torch.nn.functional.normalize(a) @ torch.nn.functional.normalize(b).T * 20
    kept = [(0, 0), (0, 2)], [(1, 1), (1, 2)], [(2, 2), (2, 0), (2, 1)]
    forth = sum(torch.stack([scores[i, j] for i, j in row]).logsumexp(0) - scores[row[0]] for row in kept)
    back = sum(torch.stack([scores[j, i] for i, j in row]).logsumexp(0) - scores[row[0]] for row in kept)
    torch.testing.assert_close(loss, (forth + back) / 2)
    loss.backward()
    assert a.grad is not None and a.grad.isfinite().all()


def test_hard_negatives_stand_where_the_first_text_looks() -> None:
    """In NumPy: the first text's way has the negatives of all pairs, but what is its own; the way back has none."""
    draw = np.random.default_rng(3)
    a, b, n = (draw.standard_normal((rows, 7)) for rows in (5, 5, 3))
    own = np.zeros((5, 3), dtype=bool)
    own[1, 2] = True
    unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)  # noqa: E731
    close, hard = np.exp(unit(a) @ unit(b).T / 0.05), np.exp(unit(a) @ unit(n).T / 0.05) * ~own
    right = np.diag(close)
    by_hand = -(np.log(right / (close.sum(1) + hard.sum(1))) + np.log(right / close.sum(0))).sum() / 2
    given = [torch.from_numpy(x) for x in (a, b, np.zeros((5, 5), dtype=bool), n, own)]
    loss, hits = info_nce(*given[:4], own=given[4])
    assert float(loss) == pytest.approx(by_hand, rel=1e-10)
    assert int(hits) == int(((close.argmax(1) == np.arange(5)) & (right > hard.max(1))).sum())


def test_hard_negatives_are_learnt_from() -> None:
    twins = [
        TextPair(f"line {n}", f"the {NOUNS[n]}", f"a {NOUNS[n]}", (f"the {NOUNS[n]} of winter",)) for n in range(9)
    ]
    given = ContrastivePairs(twins, TOKENIZER, limit=13).batch(np.arange(9), np.arange(9)).inputs
    model = fresh(CONFIG, seed=1)
    found = contrastive_loss(model, given)
    found.losses["loss"].backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    without = contrastive_loss(model, {name: x for name, x in given.items() if not name.endswith("_n")})
    assert float(found.losses["loss"].detach()) > float(without.losses["loss"].detach())


def test_every_parameter_has_a_gradient_and_twins_are_found() -> None:
    model, given = fresh(CONFIG, seed=1), DATA.batch(np.arange(11), np.arange(11)).inputs
    found = contrastive_loss(model, given)
    before, first = int(found.hits["loss"]), float(found.losses["loss"].detach())
    descent = torch.optim.AdamW(model.parameters(), lr=1e-2)
    for _ in range(20):
        descent.zero_grad()
        contrastive_loss(model, given).losses["loss"].backward()
        assert all(parameter.grad is not None for parameter in model.parameters())
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        descent.step()
    found = contrastive_loss(model.eval(), given)
    assert int(found.hits["loss"]) >= 10 > before
    assert float(found.losses["loss"].detach()) < first / 5


def test_smoothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"smoothing=0.1 has no meaning"):
        contrastive_loss(fresh(CONFIG), DATA.batch(np.arange(2), np.arange(2)).inputs, smoothing=0.1)
