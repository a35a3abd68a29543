"""Heads that nobody asked: they take part with nothing, so that their gradients are 0 and not missing.

Processes that share a model wait for the gradient of every parameter.
"""

import torch
from jaxtyping import Float
from torch import Tensor

from headway.models.encoder import Masked


def idle(model: Masked, like: Tensor) -> Float[Tensor, ""]:
    """The number 0, of which the gradient by every parameter of pooler and heads is 0."""
    nobody = like.new_zeros(0, 1, model.config.stack.block.output_width, dtype=model.tokens.weight.dtype)
    asked = {
        model.pooled: model.pooler, model.words: model.word_head, model.adjacent: model.adjacent_head,
        model.inverted: model.inverted_head, model.inference: model.inference_head, model.classify: model.class_head,
    }  # fmt: skip
    parts = [ask(nobody).sum() for ask, head in asked.items() if head is not None]
    return torch.stack(parts).sum() if parts else like.new_zeros(())
