"""A target for each source: every token of the target is asked for what follows it."""

from collections.abc import Mapping

from jaxtyping import Bool, Float
from torch import Tensor

from headway.models.recurrent import Recurrent
from headway.models.seq2seq import Seq2Seq
from headway.ops.loss import linear_cross_entropy
from headway.train.found import Found


def seq2seq(model: Seq2Seq | Recurrent, inputs: Mapping[str, Tensor], *, smoothing: float = 0.0) -> Found:
    """The sum over real tokens of the target; padding does not go through the head."""
    source_keep, target_keep = _needed(inputs["source_keep"]), _needed(inputs["target_keep"])
    targets = inputs["targets"].flatten()
    if isinstance(model, Recurrent):
        memory = model.encode(inputs["source"], keep=source_keep)
        hidden = model.read(inputs["target"], memory, keep=target_keep)
        total, right = linear_cross_entropy(_rows(hidden), model.head.weight, targets, smoothing=smoothing)
        return Found({"loss": total}, {"loss": right})
    encoded = model.encode(inputs["source"], keep=source_keep)
    hidden = model.read(inputs["target"], encoded, source_keep=source_keep, keep=target_keep)
    embed = model.tokens if model.target_tokens is None else model.target_tokens
    total, right = linear_cross_entropy(
        _rows(hidden),
        (embed if model.head is None else model.head).weight,
        targets,
        bias=None if model.head_bias is None else model.head_bias[0],
        scale=model.config.head_scale,
        smoothing=smoothing,
    )
    return Found({"loss": total}, {"loss": right})


def _rows(hidden: Float[Tensor, "B L D"]) -> Float[Tensor, "N D"]:
    return hidden.flatten(0, 1)


def _needed(keep: Bool[Tensor, "B L"]) -> Bool[Tensor, "B L"] | None:
    """None where nothing is padding: attention then has nothing to hide, which is faster."""
    return None if bool(keep.all()) else keep
