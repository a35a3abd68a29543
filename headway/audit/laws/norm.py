"""A normalisation keeps to its own row (or column), to its norm, and to itself in training and in use.

Of a row with variance σ² (RMS: mean square): ‖(y − β)/γ‖ = √(dσ²/(σ² + ε)), for scales γ of either sign. A batch norm
depends on its own column only in training, and in use on x_ij alone, while its record stands still.
"""

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.adapter import Reading
from headway.adapt.inputs import fit_length
from headway.adapt.model import AdaptedModel
from headway.audit.laws.variants import seeded
from headway.audit.report import BROKEN, HOLDS, NOT_APPLICABLE, Example, Finding
from headway.audit.search.case import Case
from headway.audit.search.compare import distances, largest
from headway.audit.search.noise import MARGIN
from headway.audit.search.search_context import SearchContext

ROW, RMS, EITHER, BATCH, ITEM, OTHER = "layer", "rms", "layer or rms", "batch", "item", "unknown"
SCALES, SHIFTS = ("weight", "gamma", "scale", "g"), ("bias", "beta", "b")
EPSILONS = ("eps", "variance_epsilon", "epsilon", "layer_norm_eps")


@dataclass(frozen=True, eq=False)
class Norm:
    """A normalisation as the model called it. `module` is a copy with scales of both signs and shifts of its own."""

    name: str
    module: nn.Module
    kind: str
    x: Tensor
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]

    def __call__(self, x: Tensor, *, training: bool = False) -> Tensor:
        self.module.train(training)
        return self.module(x, *self.args, **self.kwargs)

    @property
    def axis(self) -> int:
        """Where a batch norm has its columns: last, but for torch's own, which has them second."""
        plain = type(self.module).__module__.startswith("torch.")
        return 1 if plain or self.x.shape[-1] != len(scale_of(self)) else self.x.ndim - 1

    @property
    def says_eps(self) -> bool:
        return any(hasattr(part, one) for part in self.module.modules() for one in EPSILONS)

    @property
    def eps(self) -> float:
        # Some wrap a norm of torch's, which then knows it.
        held = ((part, one) for part in self.module.modules() for one in EPSILONS if hasattr(part, one))
        found = next((getattr(part, one) for part, one in held), 0.0)
        return torch.finfo(self.x.dtype).eps if found is None else float(found)

    @property
    def follows_known_law(self) -> bool:
        """Whether it is a layer or RMS norm whose parameters are a scale and a shift of the width, by known names."""
        named = list(self.module.named_parameters())
        known = self.kind in (ROW, RMS, EITHER)
        return known and all(name in (*SCALES, *SHIFTS) and one.ndim > 0 for name, one in named)


def scale_of(norm: Norm) -> Tensor:
    """γ, or ones of the width."""
    if (weight := _held(norm.module, SCALES)) is not None and weight.ndim > 0:
        return weight.detach()
    count = getattr(norm.module, "num_features", norm.x.shape[-1])
    return norm.x.new_ones(count)


def shift_of(norm: Norm) -> Tensor:
    """β, or nothing."""
    bias = _held(norm.module, SHIFTS)
    return torch.zeros_like(scale_of(norm)) if bias is None else bias.detach()


def _held(module: nn.Module, names: tuple[str, ...]) -> Tensor | None:
    return next((one for name in names if isinstance(one := getattr(module, name, None), Tensor)), None)


def find_norms(subject: AdaptedModel, text: Reading) -> list[Norm]:
    """Those that are called while this is read, in the order of their first calls."""
    found: dict[str, Norm] = {}

    def hook(name: str, kind: str) -> Any:
        def keep(module: nn.Module, args: Any, kwargs: Any, output: Any) -> None:
            taken = _taken(args, kwargs)
            fits = taken is not None and isinstance(output, Tensor) and output.shape == taken[0].shape
            if name not in found and taken is not None and fits and taken[0].ndim >= 2:
                found[name] = _alone(name, module, kind, *taken)

        return keep

    parts = {name: (one, kind_of(one)) for name, one in subject.module.named_modules()}
    handles = [
        one.register_forward_hook(hook(name, kind), with_kwargs=True) for name, (one, kind) in parts.items() if kind
    ]
    try:
        subject.run([text])
    finally:
        for handle in handles:
            handle.remove()
    return list(found.values())


def kind_of(module: nn.Module) -> str:
    """By the names of its class and of those it is made from; "" is no normalisation."""
    if type(module).__module__.startswith("torch.nn.utils"):  # of weights, not of what passes by
        return ""
    names = [one.__name__ for one in type(module).__mro__]
    if any("BatchNorm" in one for one in names):
        return BATCH
    if any("GroupNorm" in one or "InstanceNorm" in one or one.endswith(("Norm2d", "Norm3d")) for one in names):
        return ITEM
    if not any(one.endswith("Norm") for one in names):
        return ""
    if any("RMS" in one for one in names):
        return RMS
    if "LayerNorm" in names:
        return ROW
    # T5LayerNorm is an RMS norm, others of such a name are not; of any other name nothing is known but that it is one.
    return EITHER if any("LayerNorm" in one for one in names) else OTHER


def _taken(args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Tensor, tuple[Any, ...], dict[str, Any]] | None:
    """The tensor that is normalised, and what else it was given."""
    if args and isinstance(args[0], Tensor):
        return args[0], args[1:], kwargs
    name = next((name for name, one in kwargs.items() if isinstance(one, Tensor)), None)
    # A keyword can be given by place as well: it is the first of them.
    return None if name is None else (kwargs[name], (), {key: one for key, one in kwargs.items() if key != name})


def _alone(name: str, module: nn.Module, kind: str, x: Tensor, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Norm:
    """A copy with random weights, and a random input of the same shape."""
    twin = copy.deepcopy(module)
    twin._forward_hooks.clear()
    with seeded(len(name)), torch.no_grad():
        for one in twin.parameters():
            sign = torch.randint(0, 2, one.shape, device=one.device) * 2 - 1
            one.copy_(sign * (0.5 + torch.rand_like(one)))
        drawn = torch.randn_like(x)
    weight = _held(twin, SCALES)
    wide = weight is not None and weight.ndim > 0 and weight.shape[-1] != x.shape[-1]
    return Norm(name, twin, ITEM if wide and kind not in (BATCH, ITEM) else kind, drawn, args, kwargs)


SAYINGS = {
    "own row": "a row's result changes with another row",
    "own row's gradient": "a row's gradient reaches another row",
    "own column in training": "in training a column's result changes with another column",
    "own column's gradient": "in training a column's gradient reaches another column",
    "own entry in use": "in use a result changes with another entry",
    "record in use": "its record of the batch changes in use",
    "own item": "an item's result changes with another item",
    "train and eval": "results in training differ from those in use",
    "norm law": "‖(y − β)/γ‖ is not √(dσ²/(σ² + ε))",
}


def norm(context: SearchContext) -> Finding:
    """Every normalisation, called by itself with random inputs of the shape that the model gives it."""
    length = fit_length(context.subject.adapter, 5)
    found = find_norms(
        context.subject, Case(context.seed + 3, length, 2, source=length).reading(context.subject.adapter)
    )
    if not found:
        return Finding("norm", NOT_APPLICABLE, why="no module of it is a normalisation")
    tolerance = MARGIN * max(torch.finfo(context.subject.dtype).eps, context.noise.epsilon)
    measured = {one.name: (one, _measured(one)) for one in found}
    amounts = [(module, name, amount) for module, (_, table) in measured.items() for name, amount in table.items()]
    rows = [
        {"module": module, "kind": f"{type(one.module).__name__} ({one.kind})"} | table
        for module, (one, table) in measured.items()
    ]
    worst = max((amount for _, _, amount in amounts), default=0.0)
    first = next(((module, name, amount) for module, name, amount in amounts if amount > tolerance), None)
    if first is None:
        return Finding("norm", HOLDS, len(amounts), worst, tolerance, why=_untried(found), details=rows)
    module, name, amount = first
    example = Example(f"{module}: {SAYINGS[name]} (off by {amount:.1e})", [], {"check": name})
    return Finding("norm", BROKEN, len(amounts), amount, tolerance, module, example=example, details=rows)


def _untried(norms: list[Norm]) -> str:
    """Which norms were not held to a length, since nobody knows theirs."""
    kinds = dict.fromkeys(type(one.module).__name__ for one in norms if one.kind == OTHER)
    return f"the length that {', '.join(kinds)} gives a row was not tried: its norm is not known" if kinds else ""


def _measured(one: Norm) -> dict[str, float]:
    """What was measured of one, each relative to its largest number."""
    with torch.enable_grad(), seeded(0):
        return dict(_batch(one) if one.kind == BATCH else _item(one) if one.kind == ITEM else _row(one))


def _row(one: Norm) -> Iterator[tuple[str, float]]:
    lines = one.x.shape[: -max(1, scale_of(one).ndim)].numel()
    if lines > 1:
        where = torch.arange(lines, device=one.x.device).reshape(one.x.shape[: -max(1, scale_of(one).ndim)]) % 2 == 0
        where = where.reshape(*where.shape, *[1] * (one.x.ndim - where.ndim))
        yield "own row", _moved(one, where)
        yield "own row's gradient", _reached(one, where)
    yield "train and eval", _apart(one(one.x), one(one.x, training=True))
    if one.follows_known_law:
        sizes = (1.0, max(one.eps, 1e-12) ** 0.5) if one.says_eps else (1.0,)
        yield "norm law", max(_law(one, one.x * size) for size in sizes)


def _item(one: Norm) -> Iterator[tuple[str, float]]:
    where = torch.arange(len(one.x), device=one.x.device).reshape(-1, *[1] * (one.x.ndim - 1)) % 2 == 0
    if len(one.x) > 1:
        yield "own item", max(_moved(one, where), _reached(one, where))
    yield "train and eval", _apart(one(one.x), one(one.x, training=True))


def _batch(one: Norm) -> Iterator[tuple[str, float]]:
    shape = [-1 if axis == one.axis else 1 for axis in range(one.x.ndim)]
    columns = torch.arange(one.x.shape[one.axis], device=one.x.device).reshape(shape) % 2 == 0
    yield "own column in training", _moved(one, columns, training=True)
    yield "own column's gradient", _reached(one, columns, training=True)
    spread = torch.rand_like(one.x) < 0.5
    before = [buffer.clone() for buffer in one.module.buffers()]
    yield "own entry in use", max(_moved(one, spread), _reached(one, spread))
    changed = [_apart(a.double(), b.double()) for a, b in zip(before, one.module.buffers(), strict=True)]
    yield "record in use", max(changed, default=0.0)


def _moved(one: Norm, where: Tensor, *, training: bool = False) -> float:
    """How far results outside move when what is inside becomes something else."""
    other = torch.where(where, one.x.flip(-1) * 1.7 + 0.3, one.x)
    y, moved = one(one.x, training=training).detach(), one(other, training=training).detach()
    outside = (~where).expand_as(y)
    return _apart(y[outside], moved[outside])


def _reached(one: Norm, where: Tensor, *, training: bool = False) -> float:
    """The largest gradient inside, of results outside, beside the largest of all."""
    x = one.x.detach().requires_grad_()
    y = one(x, training=training)
    weight = torch.cos(torch.arange(y.numel(), device=y.device) * 1.3).reshape(y.shape).to(y.dtype)
    (found,) = torch.autograd.grad((y * weight * ~where).sum(), x)
    inside = found[where.expand_as(found)]
    return _size(inside) / (largest(found) or 1.0)


def _law(one: Norm, x: Tensor) -> float:
    """How far the norm is from what the law says; of a norm that does not say which, the nearer of the two."""
    kinds = {ROW: (False,), RMS: (True,)}.get(one.kind, (False, True))
    # Some keep γ − 1 as their weight; torch's own and ours never do.
    plain = type(one.module).__module__.startswith(("torch.", "headway."))
    scales = [scale_of(one)] if plain else [scale_of(one), 1 + scale_of(one)]
    y = one(x).detach()
    # One that keeps its ε to itself has one of the usual.
    added = [one.eps] if one.says_eps else [0.0, 1e-12, 1e-8, 1e-6, 1e-5, 1e-3]
    return min(_off(one, x, y, scale, rms, eps) for scale in scales for rms in kinds for eps in added)


def _off(one: Norm, x: Tensor, y: Tensor, scale: Tensor, rms: bool, eps: float) -> float:
    last = tuple(range(-max(1, scale.ndim), 0))
    centred = x if rms else x - x.mean(last, keepdim=True)
    power = centred.pow(2).mean(last)
    width = scale.numel()
    wanted = (width * power / (power + eps)).sqrt()
    found = ((y - shift_of(one)) / scale).pow(2).sum(last).sqrt()
    return _apart(wanted, found)


def _apart(one: Tensor, other: Tensor) -> float:
    one, other = one.detach().double(), other.detach().double()
    return _size(distances(one, other)) / (largest(one) or 1.0)


def _size(values: Tensor) -> float:
    return float(values.abs().nan_to_num(nan=inf).max()) if values.numel() else 0.0
