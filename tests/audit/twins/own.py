"""The same bugs in headway's own models: one part of a sound model is exchanged."""

from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.adapter import Reading, Step
from headway.nn.layers import LearnedPositions
from headway.presets.gpt2 import gpt2
from tests.audit.twins.chance import NeverEval
from tests.audit.twins.twin import Twin, made
from tests.fresh import fresh


def tiny() -> Any:
    model = fresh(gpt2(width=15, layers=2, heads=3, hidden=22, vocabulary=29, length=64))
    with torch.no_grad():
        for weight in model.parameters():
            weight.mul_(6.0) if weight.ndim > 1 else None
    return model


def not_causal() -> nn.Module:
    """The second layer was configured for an encoder."""
    model = tiny()
    attention = model.stack.blocks[1].attention
    attention.config = attention.config.model_copy(update={"causal": False})
    return model


class FromZero(LearnedPositions):
    """0, 1, 2 … in every call."""

    def forward(self, x: Tensor, positions: Tensor) -> Tensor:
        return super().forward(x, torch.arange(x.shape[1]).expand_as(positions))


def from_zero() -> nn.Module:
    model = tiny()
    model.positions.__class__ = FromZero
    return model


def never_eval() -> nn.Module:
    model = tiny()
    model.dropout = NeverEval(0.1)
    return model


def remembering(model: Any, reading: Reading) -> Step:
    caches = model.stack.new_caches(capacity=None)

    def step(piece: Reading) -> Tensor:
        return model.logits(
            model.hidden_states(piece.inputs, keep=piece.keep, positions=piece.positions, caches=caches)
        )

    return step


READS: dict[str, Any] = dict(
    vocabulary=29, longest=64, causal=True, argument="tokens", mask="keep", mask_type="bool", session=remembering
)
SOUND = made(tiny, **READS)

TWINS = [
    Twin(
        "our-layer-not-causal",
        "",
        "causal",
        "stack.blocks.1.attention.core",
        made(not_causal, **READS),
        SOUND,
        frozenset({"cache", "padding", "quarantine", "export"}),  # saved without its bug
    ),
    Twin(
        "our-positions-from-zero",
        "TransformerLens#1609",
        "cache",
        "positions",
        made(from_zero, **READS),
        SOUND,
        frozenset({"padding", "quarantine"}),
    ),
    Twin(
        "our-dropout-left-on",
        "",
        "determinism",
        "dropout",
        made(never_eval, **READS),
        SOUND,
        frozenset({"dtype", "export"}),
    ),
]
