"""How far each module drifts from float64 when a model runs in fewer digits, in units of their epsilon."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from headway.adapt.adapter import Reading
from headway.adapt.model import AdaptedModel
from headway.audit.search.record import Key, first_tensor, keyed
from headway.observe.hooks import hooked

LOWER = (torch.float32, torch.float16, torch.bfloat16)
NUMBERS = 256  # of one place, at most
FEWEST = 64  # numbers in a part of the text: a mean over fewer says little
WINDOWS = 8  # parts of the text: what goes wrong far from its beginning is not to drown in the rest


class Double(TorchDispatchMode):
    """Whatever would be computed in fewer digits is computed in float64: a softmax "in float32" too."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in LOWER:
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


@dataclass(eq=False)
class Call:
    """One call of a module: the numbers of its result, of what it was given, and its type of numbers."""

    output: Tensor | None
    given: dict[str, Tensor]
    coarse: bool  # the result has fewer digits than the module's weights


@dataclass(eq=False)
class Watch:
    """Keeps, or compares with what was kept, the calls of all modules."""

    reading: Reading
    calls: dict[Key, Call] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def hook(self, name: str) -> Any:
        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            count = self.counts[name] = self.counts.get(name, -1) + 1
            tensors = {str(key): one for key, one in (dict(enumerate(args)) | kwargs).items()}
            given = {key: rows for key, one in tensors.items() if (rows := self.rows(one, name)) is not None}
            self.calls[name, count] = Call(self.rows(output, name), given, _coarse(module, first_tensor(output)))

        return keep

    def rows(self, value: Any, name: str) -> Tensor | None:
        """Numbers by place, or None of what is none."""
        tensor = first_tensor(value)
        if tensor is None or not tensor.is_floating_point():
            return None
        found = keyed(_some(tensor), self.reading, name)
        return None if found is None or not found.values.numel() else found.values


def _some(tensor: Tensor) -> Tensor:
    """Some of the numbers of each place, where there are many."""
    return tensor[..., :: -(-tensor.shape[-1] // NUMBERS)] if tensor.ndim > 2 else tensor


def _coarse(module: nn.Module, output: Tensor | None) -> bool:
    own = [one.dtype for one in module.parameters(recurse=False) if one.is_floating_point()]
    if output is None or not own or not output.is_floating_point():
        return False
    return torch.finfo(output.dtype).eps > max(torch.finfo(one).eps for one in own)


def watched(subject: AdaptedModel, reading: Reading) -> dict[Key, Call]:
    """All calls of all modules while this is read."""
    watch = Watch(reading)
    with hooked(subject.module, watch.hook):
        subject.run([reading])
    return watch.calls


def drifts(exact: Tensor | None, found: Tensor | None) -> Tensor | None:
    """The root mean square of the error in each part of the text, relative to that of all numbers; inf where one is
    not a number; None where there is nothing to compare."""
    if exact is None or found is None or exact.shape != found.shape or exact.numel() < FEWEST:
        return None
    scale = exact.pow(2).mean().sqrt()
    if scale == 0 or not scale.isfinite():
        return None
    errors = (found - exact).pow(2).mean(1).nan_to_num(nan=float("inf"))
    parts = errors.tensor_split(min(WINDOWS, exact.numel() // FEWEST, len(errors)))
    return torch.stack([part.mean() for part in parts]).sqrt() / scale
