"""Heads that begin with what trained ones do: look at equal words and at near places (mimetic initialisation).

    W_k = W_q, so that q·k / √K is about `strength` for a vector with itself, and small for two unlike ones

with sinusoids for positions, which are alike where they are near. Trained models have W_q W_kᵀ close to a multiple of
the identity, and small data learns sooner from there (Trockman and Kolter 2023, arXiv:2305.09828).
"""

import torch

from headway.models.encoder import Masked
from headway.nn.attention import Attention
from headway.nn.layers import LearnedPositions

PLACES, BASE = 1.6, 100.0  # of the sinusoids: their size beside the words', and the slowest wave beside the fastest


@torch.no_grad()
def look_alike(model: Masked, strength: float, *, seed: int) -> None:
    """Change positions, queries and keys of a fresh model in place, but not the last layer's heads.

    There the first token gathers what the heads on sentences read, and it would see little but itself.
    """
    generator = torch.Generator().manual_seed(seed)
    for part in [part for part in model.modules() if isinstance(part, Attention)][:-1]:
        narrow, width = part.config.head_width, part.config.width
        query, key, _ = part.qkv.weight.split(part.columns)
        query.normal_(0.0, (strength / width) ** 0.5 * narrow**-0.25, generator=generator)
        key.copy_(query)
    if isinstance(model.positions, LearnedPositions):
        places = model.positions.weight
        length, width = places.shape
        turns = torch.arange(length)[:, None] * BASE ** (-torch.arange(0, width, 2) / width)
        waves = torch.cat([turns.sin(), turns.cos()], 1)[:, :width]
        places.copy_(waves * PLACES * model.tokens.weight.std())
    model.types.weight.mul_(0.5)
