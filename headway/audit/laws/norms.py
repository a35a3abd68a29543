"""The normalisations of a model: which modules they are, of which kind, and how to call one by itself."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.adapter import Reading
from headway.adapt.model import AdaptedModel
from headway.audit.laws.stage import seeded

ROW, RMS, EITHER, BATCH, ITEM = "layer", "rms", "layer or rms", "batch", "item"
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
    def told(self) -> bool:
        """Whether all its parameters are a scale and a shift of the width, by a name that is known."""
        named = list(self.module.named_parameters())
        return all(name in (*SCALES, *SHIFTS) and one.ndim > 0 for name, one in named)


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


def norms_of(subject: AdaptedModel, text: Reading) -> list[Norm]:
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
    return ROW if any(one == "LayerNorm" for one in names) else EITHER


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
