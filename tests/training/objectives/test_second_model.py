"""Objectives beside a second model: preferences and a teacher, against the formulas in NumPy and torch's own."""

import json
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

import headway as hw
from headway.config.train import DataConfig, LoraConfig
from headway.data.instructions import Preferences, preferences
from headway.models.lora import adapters_of, add_lora
from headway.ops.loss import LinearHead, divergence, log_probabilities
from headway.training.objectives import distillation_loss, language_loss, preference_loss
from tests.data.texts import tokenizer

TOKENIZER = tokenizer()
IGNORED = -100


def model(seed: int, **sizes: Any) -> Any:
    sizes = {"layers": 2, "width": 20, "heads": 2, "length": 19, "vocabulary": TOKENIZER.size} | sizes
    return hw.build("tinyllama", **sizes, hidden=13, kv_heads=1, seed=seed, std=0.3).double()


def batch(rows: int = 3) -> dict[str, torch.Tensor]:
    draw = torch.Generator().manual_seed(7)
    tokens = torch.randint(TOKENIZER.size, (2 * rows, 11), generator=draw)
    targets = torch.randint(TOKENIZER.size, (2 * rows, 11), generator=draw)
    targets[:, :4] = IGNORED
    targets[1, 8:] = IGNORED
    return {"tokens": tokens, "targets": targets}


def answer_by_hand(one: Any, inputs: dict[str, torch.Tensor]) -> np.ndarray:
    """Σ log p of each row's targets, in NumPy."""
    with torch.no_grad():
        logits = one(inputs["tokens"]).numpy()
    found = []
    for row, targets in zip(logits, inputs["targets"].numpy(), strict=True):
        real = np.flatnonzero(targets != IGNORED)
        high = row[real].max(-1, keepdims=True)
        total = high[:, 0] + np.log(np.exp(row[real] - high).sum(-1))
        found.append((row[real, targets[real]] - total).sum())
    return np.array(found)


def test_log_probabilities_and_divergence_in_chunks_with_gradients() -> None:
    draw = torch.Generator().manual_seed(3)
    make = partial(torch.randn, generator=draw, dtype=torch.float64)
    h, w, h2, w2 = make(7, 5), make(13, 5), make(7, 3), make(13, 3)
    targets = torch.randint(13, (7,), generator=draw)
    h.requires_grad_(), w.requires_grad_()
    head, teacher = LinearHead(h, w, 0.5, 3.0), LinearHead(h2, w2)
    z = 3.0 * torch.tanh(0.5 * h @ w.T / 3.0)
    plain = F.log_softmax(z, -1)[torch.arange(7), targets]
    p = F.softmax(h2 @ w2.T / 2.5, -1)
    apart = 2.5**2 * (p * (p.log() - F.log_softmax(z / 2.5, -1))).sum()
    found_apart = divergence(head, teacher, temperature=2.5, chunk=2)
    for found, wanted in ((log_probabilities(head, targets, chunk=3), plain), (found_apart, apart)):
        torch.testing.assert_close(found, wanted)
        for one, other in zip(
            torch.autograd.grad(found.sum(), (h, w)), torch.autograd.grad(wanted.sum(), (h, w), retain_graph=True),
            strict=True,
        ):  # fmt: skip
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_the_loss_of_preferences_by_hand(smoothing: float) -> None:
    ours, start, inputs = model(1), model(2), batch()
    found = preference_loss(ours, inputs, reference=start, beta=0.3, smoothing=smoothing)
    gained = answer_by_hand(ours, inputs) - answer_by_hand(start, inputs)
    m = 0.3 * (gained[:3] - gained[3:])
    by_hand = ((1 - smoothing) * np.log1p(np.exp(-m)) + smoothing * np.log1p(np.exp(m))).sum()
    assert float(found.losses["loss"].detach()) == pytest.approx(by_hand, rel=1e-10)
    assert int(found.hits["loss"]) == int((m > 0).sum())
    found.losses["loss"].backward()
    assert all(one.grad is not None for one in ours.parameters())
    assert all(one.grad is None for one in start.parameters())


def test_adapters_off_are_the_reference() -> None:
    """With a copy of the start as reference it is the same loss; before the first step no pair is preferred."""
    start, ours, inputs = model(1), model(1), batch()
    add_lora(ours, LoraConfig(rank=2, on=("query", "up")), seed=5)
    first = preference_loss(ours.train(), inputs, reference=None, beta=0.5)
    assert float(first.losses["loss"].detach()) == pytest.approx(3 * np.log(2), rel=1e-12)
    with torch.no_grad():
        for adapter in adapters_of(ours).values():
            adapter.up.normal_(generator=torch.Generator().manual_seed(9))
    alone = preference_loss(ours, inputs, reference=None, beta=0.5).losses["loss"]
    beside = preference_loss(ours, inputs, reference=start, beta=0.5).losses["loss"]
    torch.testing.assert_close(alone, beside, rtol=1e-12, atol=0.0)
    assert abs(float(alone.detach()) - 3 * np.log(2)) > 1e-3
    assert ours.training and all(layer.training for layer in ours.modules())


def test_a_teacher_by_hand_and_measured_without() -> None:
    ours, teacher, inputs = model(1), model(2, layers=1, width=28), batch()
    options = dict(teacher=teacher, temperature=2.0, weight=0.75)
    found = distillation_loss(ours.train(), inputs, **options).losses["loss"]
    real = inputs["targets"] != IGNORED
    z, y = ours(inputs["tokens"])[real], teacher(inputs["tokens"])[real].detach()
    p = F.softmax(y / 2, -1)
    apart = 4 * (p * (p.log() - F.log_softmax(z / 2, -1))).sum()
    torch.testing.assert_close(
        found, 0.25 * F.cross_entropy(z, inputs["targets"][real], reduction="sum") + 0.75 * apart
    )
    measured = distillation_loss(ours.eval(), inputs, **options)
    torch.testing.assert_close(measured.losses["loss"], language_loss(ours, inputs).losses["loss"])


def test_preferences_are_read_from_texts_and_messages(tmp_path: Path) -> None:
    turn = lambda role, text: {"role": role, "content": text}  # noqa: E731
    rows = [
        {"prompt": "the river", "chosen": "a bridge", "rejected": "winter"},
        {"prompt": [turn("user", "the river")], "chosen": [turn("assistant", "a bridge")], "rejected": "winter"},
        {"chosen": [turn("user", "the river"), turn("assistant", "a bridge")],
         "rejected": [turn("user", "the river"), turn("assistant", "winter")]},
    ]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "a.csv").write_text("prompt,chosen,rejected\nthe river,a bridge,winter\n")
    found = [one for name in ("a.jsonl", "a.csv") for one in preferences(DataConfig(), [str(tmp_path / name)])]
    said = [
        [[(turn["role"], turn["content"]) for turn in side.messages] for side in (one.chosen, one.rejected)]
        for one in found
    ]
    assert all(one == said[0] for one in said) and said[0][1] == [("user", "the river"), ("assistant", "winter")]
    made = Preferences(found, TOKENIZER, length=19).batch(np.array([0, 3]), np.zeros(2))
    assert made.counts == {"loss": 2} and made.inputs["tokens"].shape[0] == 4
    better = made.inputs["tokens"][0].tolist()
    assert better[: len(TOKENIZER.encode("the river"))] == TOKENIZER.encode("the river")
    assert made.inputs["tokens"][1].tolist() == better != made.inputs["tokens"][2].tolist()


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"prompt": "x", "chosen": "y"}, "lacks 'chosen' or 'rejected'"),
        ({"prompt": "x", "chosen": "y", "rejected": " "}, "has an empty rejected"),
        ({"prompt": "x", "chosen": "y", "rejected": "y"}, "has the same text as chosen and as rejected"),
        ({"chosen": "y", "rejected": "z"}, "has no 'prompt', and 'chosen' is an answer to nothing"),
        ({"prompt": "x", "chosen": [{"role": "user", "content": "y"}], "rejected": "z"}, "is not the assistant's"),
        ({"prompt": "x", "chosen": 5, "rejected": "z"}, "line 1 of .*: chosen: "),
    ],
)
def test_preferences_that_are_none(tmp_path: Path, row: dict, sentence: str) -> None:
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    with pytest.raises(ValueError, match=sentence):
        list(preferences(DataConfig(), [str(tmp_path / "a.jsonl")]))
