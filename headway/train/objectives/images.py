"""The class of an image."""

from collections.abc import Mapping

from torch import Tensor

from headway.models.davit import DaViT
from headway.models.vit import Vision
from headway.ops.loss import cross_entropy_sum
from headway.train.found import Found


def images(model: Vision | DaViT, inputs: Mapping[str, Tensor], *, smoothing: float = 0.0) -> Found:
    """Cross entropy of the classifier; of a model with a teacher's head, the mean of that of both heads.

    DeiT's second head follows a teacher's answers (arXiv:2012.12877); without a teacher the label is its teacher.
    """
    hidden, label = model.read(inputs["images"]), inputs["label"]
    logits = model.logits(hidden)
    total, right = cross_entropy_sum(logits, label, smoothing=smoothing)
    if isinstance(model, Vision) and model.head is not None and model.teacher_head is not None:
        heads = model.head(model.vector(hidden)), model.teacher_head(hidden[:, 1])
        first, second = (cross_entropy_sum(one, label, smoothing=smoothing)[0] for one in heads)
        total = (first + second) / 2
    return Found({"loss": total}, {"loss": right})
