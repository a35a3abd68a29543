"""AdamW by torch's fused kernel, without the lists that torch.optim sorts and counts up anew at every step.

m <- β₁ m + (1 - β₁) g        v <- β₂ v + (1 - β₂) g²
w <- w - rate · (m / (1 - β₁ᵗ) / (√(v / (1 - β₂ᵗ)) + ε) + decay · w)        (arXiv:1711.05101)
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from headway.config.train import OptimConfig
from headway.training.local import local


class AdamW:
    """Parameters that share a decay. Each counts its own steps t, since one without a gradient stands still."""

    def __init__(self, parameters: Sequence[Tensor], config: OptimConfig, *, decay: float) -> None:
        self.parameters, self.config, self.decay = list(parameters), config, decay
        self.means = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        self.squares = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        # It acts entry by entry, so each process needs only what it holds; and one call takes no mixture of the kinds.
        self._means, self._squares = [local(one) for one in self.means], [local(one) for one in self.squares]
        device = self.parameters[0].device if self.parameters else None
        self._counts = torch.zeros(len(self.parameters), dtype=torch.float32, device=device)
        self.counts = list(self._counts.unbind())  # views: one addition moves them all

    @torch.no_grad()
    def step(self, rate: float) -> None:
        rows = [row for row, parameter in enumerate(self.parameters) if parameter.grad is not None]
        if len(rows) == len(self.parameters):
            self._counts += 1
        else:
            self._counts[rows] += 1
        first, second = self.config.betas
        torch._fused_adamw_(  # pyright: ignore[reportPrivateImportUsage]
            [local(self.parameters[row]) for row in rows],
            [local(gradient) for parameter in self.parameters if (gradient := parameter.grad) is not None],
            [self._means[row] for row in rows],
            [self._squares[row] for row in rows],
            [],
            [self.counts[row] for row in rows],
            lr=rate,
            beta1=first,
            beta2=second,
            weight_decay=self.decay,
            eps=self.config.eps,
            amsgrad=False,
            maximize=False,
        )
