"""The optimiser: AdamW (arXiv:1711.05101), or Muon for the matrices of blocks and AdamW for the rest.

All of its state exists from the start, under names, and is loaded in place: a run that goes on is a run never stopped.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite

import torch
from torch import Tensor, nn

from headway.config.train import OptimConfig
from headway.training.adamw import AdamW
from headway.training.local import total_norm
from headway.training.muon import Muon


class Optimizer:
    """Parameters by name, each once, and what is remembered of their gradients.

    With `master`, parameters may be of half precision: steps are taken on copies in float32. `rows` says of which maps
    a matrix is made, one below the other: Muon moves each for itself.

    >>> weight = nn.Parameter(torch.ones(2))
    >>> optimizer = Optimizer([("weight", weight)], OptimConfig(rate=0.1))
    >>> weight.grad = torch.tensor([3.0, 4.0])
    >>> optimizer.clip(1.0)
    5.0
    >>> optimizer.step(1.0)
    >>> [round(value, 4) for value in weight.tolist()]
    [0.9, 0.9]
    >>> list(optimizer.tensors())
    ['weight/step', 'weight/mean', 'weight/square']
    """

    def __init__(
        self,
        named: Iterable[tuple[str, nn.Parameter]],
        config: OptimConfig,
        *,
        master: bool = False,
        rows: Mapping[str, Sequence[int]] | None = None,
    ) -> None:
        self.config = config
        self._parameters = _once(named)
        if not self._parameters:
            raise ValueError("there is nothing to train: no parameter wants a gradient")
        self._masters = {name: _copy(p) for name, p in self._parameters.items()} if master else {}
        self._taken = False  # whether the masters have this step's gradients
        found = self._masters or self._parameters
        muon = [name for name, p in found.items() if config.kind == "muon" and _of_block(name, p)]
        if config.kind == "muon" and not muon:
            raise ValueError("muon moves the matrices of blocks, and this model has none: use adamw")
        parts = [(rows or {}).get(name, ()) for name in muon]
        self._muon = Muon([found[name] for name in muon], decay=config.decay, rows=parts) if muon else None
        self._muon_names = muon
        rest = [name for name in found if name not in set(muon)]
        decayed, others = ([name for name in rest if _matrix(found[name]) is matrix] for matrix in (True, False))
        self._adams = {
            tuple(names): AdamW([found[name] for name in names], config, decay=decay)
            for names, decay in ((decayed, config.decay), (others, 0.0))
            if names
        }

    def step(self, factor: float) -> None:
        """One step along the gradients, at `factor` times the rates of the configuration."""
        self._take()
        for adam in self._adams.values():
            adam.step(self.config.rate * factor)
        if self._muon is not None:
            self._muon.step(self.config.muon_rate * factor)
        if self._masters:
            with torch.no_grad():
                for parameter, master in zip(self._parameters.values(), self._masters.values(), strict=True):
                    parameter.copy_(master)

    def zero(self) -> None:
        """Forget the gradients."""
        self._taken = False
        for tensor in (*self._parameters.values(), *self._masters.values()):
            tensor.grad = None

    @torch.no_grad()
    def clip(self, limit: float) -> float:
        """Shorten all gradients together to norm `limit` at most (0: leave them), and tell the norm that they had.

        Where it is not finite nothing is changed.
        """
        self._take()
        gradients = [p.grad for p in (self._masters or self._parameters).values() if p.grad is not None]
        norm = total_norm(gradients)
        if limit and isfinite(norm) and norm > limit:
            for gradient in gradients:
                gradient.mul_(limit / norm)
        return norm

    def tensors(self) -> dict[str, Tensor]:
        """All state, live: "<parameter>/<state>"."""
        found = {f"{name}/master": tensor.detach() for name, tensor in self._masters.items()}
        for names, adam in self._adams.items():
            for name, count, mean, square in zip(names, adam.counts, adam.means, adam.squares, strict=True):
                found |= {f"{name}/step": count, f"{name}/mean": mean, f"{name}/square": square}
        if self._muon is not None:
            found |= {f"{n}/momentum": tensor for n, tensor in zip(self._muon_names, self._muon.momenta, strict=True)}
        return found

    @torch.no_grad()
    def _take(self) -> None:
        """Gradients of parameters as gradients of their masters, once a step."""
        if self._taken or not self._masters:
            return
        for parameter, master in zip(self._parameters.values(), self._masters.values(), strict=True):
            master.grad = None if parameter.grad is None else parameter.grad.to(master.dtype)
        self._taken = True


def _once(named: Iterable[tuple[str, nn.Parameter]]) -> dict[str, nn.Parameter]:
    """Those that want gradients; of tied ones the first name."""
    seen: set[int] = set()
    found: dict[str, nn.Parameter] = {}
    for name, parameter in named:
        if parameter.requires_grad and id(parameter) not in seen:
            seen.add(id(parameter))
            found[name] = parameter
    return found


def _copy(parameter: nn.Parameter) -> nn.Parameter:
    # A clone even of float32, which a mere cast would share.
    return nn.Parameter(parameter.detach().to(torch.promote_types(parameter.dtype, torch.float32), copy=True))


def _matrix(parameter: Tensor) -> bool:
    """Whether it has two axes: a token or a bias with an axis of size 1 before it is a vector still."""
    return sum(size > 1 for size in parameter.shape) >= 2


def _of_block(name: str, parameter: Tensor) -> bool:
    """Whether it is a linear map inside of a block, where Muon serves; embeddings and heads stand outside."""
    return parameter.ndim == 2 and "blocks" in name.split(".") and name.endswith(".weight")
