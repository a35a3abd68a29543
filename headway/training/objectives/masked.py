"""BERT's pre-training: hidden words, and three questions about two sentences, each with a sum of its own."""

from collections.abc import Sequence

from torch import Tensor

from headway.data.batch import IGNORED
from headway.data.masked_text import OBJECTIVES
from headway.models.encoder import Masked
from headway.ops.loss import cross_entropy_sum
from headway.training.found import Found
from headway.training.objectives.idle import idle


def masked(
    model: Masked, inputs: dict[str, Tensor], *, smoothing: float = 0.0, names: Sequence[str] | None = None
) -> Found:
    """Sums of -log p over hidden words and over the rows of each question; `names`: those in use, or all heads'."""
    keep = inputs["keep"]
    hidden = model.hidden_states(inputs["tokens"], keep=keep, types=inputs["types"])
    losses, hits = {}, {}
    for name in _heads(model) if names is None else names:
        if name == "words":
            losses[name], hits[name] = model.word_loss(hidden, inputs["words"], smoothing=smoothing)
        else:
            ask = {"adjacent": model.adjacent, "inverted": model.inverted, "inference": model.inference}[name]
            mine = inputs["kind"] == OBJECTIVES.index(name)
            labels = inputs["label"].where(mine, IGNORED)
            losses[name], hits[name] = cross_entropy_sum(ask(hidden, keep), labels, smoothing=smoothing)
    nothing = idle(model, hidden)
    return Found({name: loss + nothing for name, loss in losses.items()}, hits)


def _heads(model: Masked) -> list[str]:
    c = model.config
    return [name for name, has in zip(OBJECTIVES, (c.words, c.adjacent, c.inverted, c.inference), strict=True) if has]
