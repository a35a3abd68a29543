"""The class of an image."""

from collections.abc import Mapping

from torch import Tensor

from headway.models.davit import DaViT
from headway.models.vit import Vision
from headway.training.found import Found


def images(model: Vision | DaViT, inputs: Mapping[str, Tensor], *, smoothing: float = 0.0) -> Found:
    """Σ -log p of the right classes."""
    hidden = model.hidden_states(inputs["images"])
    total, right = model.cross_entropy(hidden, inputs["label"], smoothing=smoothing)
    return Found({"loss": total}, {"loss": right})
