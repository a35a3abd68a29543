"""Contrastive sentence embeddings: each text finds its twin among all of a batch (InfoNCE: arXiv:1807.03748).

s_ij = a_i · b_j / τ of unit vectors        loss_i = -½ (log softmax_j(s_ij)_i + log softmax_j(s_ji)_i)

The negatives are the other pairs of the same part of a batch, so fewer or smaller parts change what is asked.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor

from headway.models.sentence import SentenceEncoder
from headway.training.found import Found
from headway.training.objectives.idle import idle

TEMPERATURE = 0.05


def embed(model: SentenceEncoder, inputs: dict[str, Tensor], *, smoothing: float = 0.0) -> Found:
    """Both directions; pairs that share a text (`same`) are no negatives of one another."""
    if smoothing:
        raise ValueError(f"smoothing={smoothing:g} has no meaning for twins among negatives: leave it at 0")
    a, b = (model.encode_row(inputs[f"tokens_{side}"][0], inputs[f"lengths_{side}"].tolist()) for side in "ab")
    loss, hits = info_nce(a, b, inputs["same"])
    return Found({"loss": loss + idle(model.encoder, a)}, {"loss": hits})


def info_nce(
    a: Float[Tensor, "B O"], b: Float[Tensor, "B O"], same: Bool[Tensor, "B B"]
) -> tuple[Float[Tensor, ""], Tensor]:
    """The sum over the pairs, and how many texts `a` are nearest to their own twin."""
    scores = F.normalize(a, dim=-1) @ F.normalize(b, dim=-1).T / TEMPERATURE
    right = torch.arange(len(scores), device=scores.device)
    scores = scores.masked_fill(same, -torch.inf)
    ways = [F.cross_entropy(way, right, reduction="sum") for way in (scores, scores.T)]
    return (ways[0] + ways[1]) / 2, (scores.argmax(-1) == right).sum()
