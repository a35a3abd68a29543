"""The exponential moving average of the weights: steadier than the last ones, and often better."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn


class WeightAverage:
    """average <- d · average + (1 - d) · weight, in at least float32, with d = min(decay, (1 + n) / (10 + n)).

    n counts the updates: a run's first weights, which are random, are forgotten soon.

    >>> weight = nn.Parameter(torch.zeros(1))
    >>> average = WeightAverage([("weight", weight)], 0.9)
    >>> weight.data.fill_(11.0)
    tensor([11.])
    >>> average.update()
    >>> with average.swapped():
    ...     round(weight.item(), 4)
    9.0
    >>> weight.item()
    11.0
    """

    def __init__(self, named: Iterable[tuple[str, nn.Parameter]], decay: float) -> None:
        self.decay = decay
        self._parameters = dict(named)
        self._averages = {name: _copy(parameter) for name, parameter in self._parameters.items()}
        self._updates = torch.zeros((), dtype=torch.int64)

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights as they are now."""
        self._updates += 1
        count = int(self._updates)
        decay = min(self.decay, (1 + count) / (10 + count))
        for parameter, average in zip(self._parameters.values(), self._averages.values(), strict=True):
            average.lerp_(parameter.to(average.dtype), 1 - decay)

    def tensors(self) -> dict[str, Tensor]:
        """All state, live: "<parameter>/average", and how many updates there were."""
        found = {f"{name}/average": tensor for name, tensor in self._averages.items()}
        return {**found, "updates/average": self._updates}

    @contextmanager
    def swapped(self) -> Iterator[None]:
        """Inside, the weights are the averaged ones; after it they are back, whatever happened."""
        kept = [parameter.detach().clone() for parameter in self._parameters.values()]
        self._write(self._averages.values())
        try:
            yield
        finally:
            self._write(kept)

    @torch.no_grad()
    def _write(self, tensors: Iterable[Tensor]) -> None:
        # In place: maps that lie one behind the other in memory stay so.
        for parameter, tensor in zip(self._parameters.values(), tensors, strict=True):
            parameter.copy_(tensor)


def _copy(parameter: Tensor) -> Tensor:
    return parameter.detach().to(torch.promote_types(parameter.dtype, torch.float32), copy=True)
