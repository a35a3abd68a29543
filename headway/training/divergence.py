"""A look at every loss: numbers that are none, and losses that climb, stop a run while it can still be saved."""

import math
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

WINDOW = 20  # losses whose mean is compared


@dataclass
class DivergenceMonitor:
    """The mean of the last losses beside the first and the lowest such mean; a checkpoint keeps all three."""

    recent: list[float] = field(default_factory=list)
    first: float = math.inf
    lowest: float = math.inf

    def climbs(self, loss: float) -> bool:
        """Whether the loss has left for good: far above its lowest mean, and above where it began."""
        self.recent = [*self.recent, loss][-WINDOW:]
        if len(self.recent) < WINDOW:
            return False
        mean = sum(self.recent) / WINDOW
        self.first = mean if math.isinf(self.first) else self.first
        self.lowest = min(self.lowest, mean)
        return mean > max(1.25 * self.first, 2 * self.lowest)

    def facts(self) -> dict[str, Any]:
        bounds = {name: None if math.isinf(value) else value for name, value in self._bounds()}
        return {"recent": self.recent, **bounds}

    def _bounds(self) -> list[tuple[str, float]]:
        return [("first", self.first), ("lowest", self.lowest)]

    @classmethod
    def of(cls, facts: dict[str, Any]) -> "DivergenceMonitor":
        first, lowest = (math.inf if facts[name] is None else facts[name] for name in ("first", "lowest"))
        recent = list(facts["recent"])
        if wrong := [x for x in (first, lowest, *recent) if isinstance(x, bool) or not isinstance(x, int | float)]:
            raise ValueError(f"{wrong[0]!r} is no loss")
        return cls(recent, first, lowest)


def explain_nonfinite(losses: dict[str, float], norm: float, model: nn.Module) -> str:
    """Why a step whose gradients are no numbers was not taken, as far as one can see."""
    bad = [name for name, value in losses.items() if not math.isfinite(value)]
    what = f"the loss {' and '.join(bad)} is not a finite number" if bad else f"the gradients' norm is {norm}"
    weights = _first_broken((name, p.detach()) for name, p in model.named_parameters())
    gradients = _first_broken((name, p.grad) for name, p in model.named_parameters() if p.grad is not None)
    if weights:
        return f"{what}: the weights {weights} already hold values that are no numbers"
    where = f"; the first gradient that is none belongs to {gradients}" if gradients else ""
    return f"{what}{where}"


def _first_broken(named: Any) -> str | None:
    return next((name for name, tensor in named if not bool(torch.isfinite(tensor).all())), None)
