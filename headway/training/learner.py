"""A model and what is asked of it, as one module: the unit that is trained, compiled and spread over processes."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import Any

from torch import Tensor, nn

from headway.nn.context import agreeing
from headway.training.found import Found

Objective = Callable[..., Found]


class Learner(nn.Module):
    """Tensors of a batch in, sums of losses out."""

    def __init__(self, model: nn.Module, objective: Objective, *, smoothing: float = 0.0) -> None:
        super().__init__()
        self.model = model
        self._objective, self._smoothing = objective, smoothing
        self.agree: Callable[[bool], bool] | None = (
            None  # where processes compute one pass together: whether any says so
        )

    def forward(self, inputs: dict[str, Tensor]) -> Found:
        with nullcontext() if self.agree is None else agreeing(self._all_sound):
            # Labels are smoothed to learn from, and plain to measure with.
            return self._objective(self.model, inputs, smoothing=self._smoothing if self.training else 0.0)

    def _all_sound(self, sound: bool) -> bool:
        assert self.agree is not None
        return not self.agree(not sound)


def total(found: Found, weights: Mapping[str, float], counts: Mapping[str, float]) -> Tensor:
    """Σ weight · sum / count: the loss of a step, or the part of it that this batch brings."""
    parts = [weights.get(name, 1.0) * loss / max(counts[name], 1.0) for name, loss in found.losses.items()]
    loss: Any = sum(parts)
    return loss
