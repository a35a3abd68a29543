"""Objectives in half precision."""

import torch

from headway.config.text import SentenceConfig
from headway.presets.bert import bert
from headway.training.objectives import contrastive_loss
from tests.fresh import fresh


def test_twins_in_bfloat16() -> None:
    """Heads that nobody asks take part in the precision of the model, whatever that of the vectors is."""
    encoder = bert(width=12, heads=3, layers=1, hidden=20, vocabulary=7, length=5, words=True)
    model = fresh(SentenceConfig(encoder=encoder, limit=5), dtype=torch.bfloat16)
    inputs = {
        "tokens_a": torch.tensor([[1, 2, 3, 1, 4]]), "lengths_a": torch.tensor([3, 2]),
        "tokens_b": torch.tensor([[1, 2, 1, 4, 5]]), "lengths_b": torch.tensor([2, 3]),
        "same": torch.zeros(2, 2, dtype=torch.bool),
    }  # fmt: skip
    loss = contrastive_loss(model, inputs).losses["loss"]
    loss.backward()
    assert all(parameter.grad is not None for parameter in model.encoder.word_head.parameters())
