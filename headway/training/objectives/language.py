"""The next token: every token of a text is asked for what follows it."""

from collections.abc import Mapping

import torch
from jaxtyping import Int
from torch import Tensor

from headway.models.language import Language
from headway.ops.mask import packed
from headway.training.found import Found


def language(model: Language, inputs: Mapping[str, Tensor], *, smoothing: float = 0.0) -> Found:
    """Windows of a text; with `lengths`, documents one after the other in one row, each of which sees itself alone."""
    tokens, lengths = inputs["tokens"], inputs.get("lengths")
    if lengths is None:
        hidden = model.hidden_states(tokens)
    else:
        hidden = model.hidden_states(tokens, positions=restarting(lengths)[None], mask=packed(lengths.tolist()))
    total, right = model.cross_entropy(hidden, inputs["targets"], smoothing=smoothing)
    return Found({"loss": total}, {"loss": right})


def restarting(lengths: Int[Tensor, " N"]) -> Int[Tensor, " T"]:
    """Positions of texts that stand one after the other: 0, 1, … in each.

    >>> restarting(torch.tensor([2, 3])).tolist()
    [0, 1, 0, 1, 2]
    """
    starts = (lengths.cumsum(0) - lengths).repeat_interleave(lengths)
    return torch.arange(len(starts), device=lengths.device) - starts
