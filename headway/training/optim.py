"""The optimiser, AdamW (arXiv:1711.05101), or Muon for the matrices of blocks and AdamW for the rest; and the schedule.

All of its state exists from the start, under names, and is loaded in place: a run that goes on is a run never stopped.
"""

from collections.abc import Iterable, Mapping, Sequence
from math import cos, isfinite, pi

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from headway.config.train import OptimConfig, ScheduleConfig
from headway.training.muon import Muon
from headway.training.slices import local_part


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


@torch.no_grad()
def total_norm(tensors: Iterable[Tensor]) -> float:
    """√Σ x² over all entries of all tensors, each entry once, wherever it is.

    >>> total_norm([torch.tensor([3.0]), torch.tensor([[4.0]])])
    5.0
    """
    kinds: dict[tuple[str, ...], tuple[list[dist.ProcessGroup], list[Tensor]]] = {}
    for tensor in tensors:
        groups = _groups(tensor)
        kinds.setdefault(tuple(group.group_name for group in groups), (groups, []))[1].append(local_part(tensor))
    total = 0.0
    for groups, parts in kinds.values():
        square = torch.stack(torch._foreach_norm(parts)).square().sum()  # pyright: ignore[reportPrivateImportUsage]
        for group in groups:
            dist.all_reduce(square, group=group)
        total += float(square)
    return total**0.5


def _groups(tensor: Tensor) -> list[dist.ProcessGroup]:
    """The processes over which a tensor is cut, axis by axis of their mesh."""
    if not isinstance(tensor, DTensor):
        return []
    cut = [axis for axis, placement in enumerate(tensor.placements) if not placement.is_replicate()]
    return [tensor.device_mesh.get_group(axis) for axis in cut]


class AdamW:
    """AdamW by torch's fused kernel, without the lists that torch.optim sorts and counts up anew at every step.

    m <- β₁ m + (1 - β₁) g        v <- β₂ v + (1 - β₂) g²
    w <- w - rate · (m / (1 - β₁ᵗ) / (√(v / (1 - β₂ᵗ)) + ε) + decay · w)        (arXiv:1711.05101)

    The parameters share a decay. Each counts its own steps t, since one without a gradient stands still.
    """

    def __init__(self, parameters: Sequence[Tensor], config: OptimConfig, *, decay: float) -> None:
        self.parameters, self.config, self.decay = list(parameters), config, decay
        self.means = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        self.squares = [torch.zeros_like(p, requires_grad=False) for p in self.parameters]
        # It acts entry by entry, so each process needs only what it holds; and one call takes no mixture of the kinds.
        self._means, self._squares = [local_part(one) for one in self.means], [local_part(one) for one in self.squares]
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
            [local_part(self.parameters[row]) for row in rows],
            [local_part(gradient) for parameter in self.parameters if (gradient := parameter.grad) is not None],
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


def factor_at(config: ScheduleConfig, step: int, steps: int) -> float:
    """The factor of step 0, 1, … of `steps`: it rises linearly for `warmup` steps, and ends at `floor`.

    cosine: floor + (1 - floor) (1 + cos πt) / 2, t from 0 to 1 (arXiv:1608.03983)
    wsd: 1, and over the last `fall` of all steps linearly down to floor (arXiv:2404.06395)

    >>> [factor_at(ScheduleConfig(warmup=2, floor=0.0), step, 5) for step in range(5)]
    [0.5, 1.0, 1.0, 0.5, 0.0]
    >>> [factor_at(ScheduleConfig(kind="wsd", warmup=1, floor=0.5, fall=0.4), step, 5) for step in range(5)]
    [1.0, 1.0, 1.0, 0.75, 0.5]
    """
    if step < config.warmup:
        return (step + 1) / config.warmup
    if config.kind == "constant":
        return 1.0
    # WSD falls after its last full step, the cosine begins with it.
    first = config.warmup if config.kind == "cosine" else max(config.warmup, steps - round(config.fall * steps)) - 1
    done = min(max((step - first) / max(1, steps - 1 - first), 0.0), 1.0)
    share = (1 + cos(pi * done)) / 2 if config.kind == "cosine" else 1 - done
    return config.floor + (1 - config.floor) * share
