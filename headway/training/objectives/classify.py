"""Text classification: the class of each text, by the pooled vector."""

from torch import Tensor

from headway.models.encoder import Masked
from headway.ops.loss import cross_entropy_sum
from headway.training.found import Found
from headway.training.objectives.idle import idle


def classify(model: Masked, inputs: dict[str, Tensor], *, smoothing: float = 0.0) -> Found:
    """Σ -log p of the right classes."""
    if model.config.outcome != "one":
        raise ValueError(f"a classifier with outcome={model.config.outcome!r} is not trained here, only one with 'one'")
    keep = inputs["keep"]
    hidden = model.hidden_states(inputs["tokens"], keep=keep, types=inputs["types"])
    loss, hits = cross_entropy_sum(model.classify(hidden, keep), inputs["label"], smoothing=smoothing)
    return Found({"loss": loss + idle(model, hidden)}, {"loss": hits})
