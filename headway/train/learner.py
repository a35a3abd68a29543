"""A model and what is asked of it, as one module: the unit that is trained, compiled and spread over processes."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from headway.nn.block import Block
from headway.train.found import Found

Objective = Callable[..., Found]


class Learner(nn.Module):
    """Tensors of a batch in, sums of losses out."""

    def __init__(self, model: nn.Module, objective: Objective, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self._objective, self._smoothing = objective, smoothing

    def forward(self, inputs: dict[str, Tensor]) -> Found:
        # Labels are smoothed to learn from, and plain to measure with.
        return self._objective(self.model, inputs, smoothing=self._smoothing if self.training else 0.0)


def forget_activations(model: nn.Module) -> None:
    """Let every block compute its activations again in the backward pass instead of keeping them (arXiv:1604.06174)."""
    for block in model.modules():
        if isinstance(block, Block):
            # On the instance: names of parameters stay as they are, and so do files that hold them.
            block.forward = partial(checkpoint, block.forward, use_reentrant=False)  # type: ignore[method-assign]


def total(found: Found, weights: Mapping[str, float], counts: Mapping[str, float]) -> Tensor:
    """Σ weight · sum / count: the loss of a step, or the part of it that this batch brings."""
    parts = [weights.get(name, 1.0) * loss / max(counts[name], 1.0) for name, loss in found.losses.items()]
    loss: Any = sum(parts)
    return loss
