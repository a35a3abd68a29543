"""A target for each source: every token of the target is asked for what follows it."""

from collections.abc import Mapping

from jaxtyping import Bool
from torch import Tensor

from headway.models.recurrent import Recurrent
from headway.models.seq2seq import Seq2Seq
from headway.training.found import Found


def seq2seq(model: Seq2Seq | Recurrent, inputs: Mapping[str, Tensor], *, smoothing: float = 0.0) -> Found:
    """The sum over real tokens of the target; padding does not go through the head."""
    source_keep, target_keep = _needed(inputs["source_keep"]), _needed(inputs["target_keep"])
    if isinstance(model, Recurrent):
        memory = model.encode(inputs["source"], keep=source_keep)
        hidden = model.hidden_states(inputs["target"], memory, keep=target_keep)
    else:
        encoded = model.encode(inputs["source"], keep=source_keep)
        hidden = model.hidden_states(inputs["target"], encoded, source_keep=source_keep, keep=target_keep)
    total, right = model.cross_entropy(hidden, inputs["targets"], smoothing=smoothing)
    return Found({"loss": total}, {"loss": right})


def _needed(keep: Bool[Tensor, "B L"]) -> Bool[Tensor, "B L"] | None:
    """None where nothing is padding: attention then has nothing to hide, which is faster."""
    return None if bool(keep.all()) else keep
