"""How far each module drifts from float64 in fewer digits, in units of their epsilon; which module loses more digits
than its type of numbers explains."""

from dataclasses import dataclass, field
from math import inf, sqrt
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from headway.adapt.adapter import Reading
from headway.adapt.model import AdaptedModel
from headway.audit.report import ModuleDeviation
from headway.audit.search.localise import Key, first_tensor, keyed
from headway.observe.hooks import hooked

LOWER = (torch.float32, torch.float16, torch.bfloat16)
NUMBERS = 256  # of one place, at most
FEWEST = 64  # numbers in a part of the text: a mean over fewer says little
WINDOWS = 8  # parts of the text: what goes wrong far from its beginning is not to drown in the rest


class ForceFloat64(TorchDispatchMode):
    """Whatever would be computed in fewer digits is computed in float64: a softmax "in float32" too."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if kwargs.get("dtype") in LOWER:
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


@dataclass(eq=False)
class ModuleCall:
    """One call of a module: the numbers of its result, of what it was given, and its type of numbers."""

    output: Tensor | None
    given: dict[str, Tensor]
    coarse: bool  # the result has fewer digits than the module's weights


@dataclass(eq=False)
class CallWatch:
    """Keeps, or compares with what was kept, the calls of all modules."""

    reading: Reading
    calls: dict[Key, ModuleCall] = field(default_factory=dict)
    counts: dict[str, int] = field(default_factory=dict)

    def hook(self, name: str) -> Any:
        def keep(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            count = self.counts[name] = self.counts.get(name, -1) + 1
            tensors = {str(key): one for key, one in (dict(enumerate(args)) | kwargs).items()}
            given = {key: rows for key, one in tensors.items() if (rows := self.rows(one, name)) is not None}
            self.calls[name, count] = ModuleCall(self.rows(output, name), given, _coarse(module, first_tensor(output)))

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


def watch_calls(subject: AdaptedModel, reading: Reading) -> dict[Key, ModuleCall]:
    """All calls of all modules while this is read."""
    watch = CallWatch(reading)
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


# How much more one type may amplify rounding than the other; `dtype` says what was measured.
LIMITS = {torch.float32: 64.0, torch.bfloat16: 4.0}
ALONE = 64.0  # of a type that has no other beside it

Spot = tuple[Key, str]  # a call of a module, and its argument; "" is its result
Amplified = dict[Spot, Tensor]


@dataclass(frozen=True)
class Excess:
    """How often over the limit, the drift, and the limit."""

    over: float
    drift: float
    limit: float


def amplification(exact: dict[Key, ModuleCall], calls: dict[Key, ModuleCall], dtype: torch.dtype) -> Amplified:
    """The drift of each result and argument in each part of the text, in units of epsilon."""
    found: Amplified = {}
    for key, call in exact.items():
        if key not in calls:
            continue
        pairs = {"": (call.output, calls[key].output)}
        pairs |= {name: (one, calls[key].given.get(name)) for name, one in call.given.items()}
        for name, pair in pairs.items():
            drift = drifts(*pair)
            if drift is not None:
                found[key, name] = drift / torch.finfo(dtype).eps
    return found


def excesses(mine: Amplified, theirs: Amplified | None, dtype: torch.dtype) -> dict[Spot, Excess]:
    """Every spot of one type beside the same of the other; nothing is held to less than one epsilon."""
    epsilon, found = torch.finfo(dtype).eps, {}
    for spot, amounts in mine.items():
        beside = None if theirs is None else theirs.get(spot)
        if beside is None:
            allowed = torch.full_like(amounts, ALONE)
        else:
            allowed = LIMITS[dtype] * beside.nan_to_num(posinf=1.0).clamp(min=1.0)
        place = int((amounts / allowed).argmax())
        drift, limit = float(amounts[place]) * epsilon, float(allowed[place]) * epsilon
        found[spot] = Excess(inf if drift == inf else drift / limit, drift, limit)
    return found


def threshold_inside(worst: float, dtype: torch.dtype) -> float:
    """What counts inside, once something is over: half-way, in powers, between equal amplification and the worst."""
    return min(1.0, sqrt(worst / LIMITS[dtype]))


def layers(
    exact: dict[Key, ModuleCall], found: dict[Spot, Excess], kinds: dict[str, str], threshold: float
) -> list[ModuleDeviation]:
    """Every module in the order of finishing, with its drift, and whether what it was given was below."""
    rows = []
    for key, call in exact.items():
        own = found.get((key, ""))
        if own is not None:
            agreed = all(found[key, name].over <= threshold for name in call.given if (key, name) in found)
            rows.append(ModuleDeviation(key[0], kinds.get(key[0], ""), own.drift, agreed))
    return rows


def first_over_limit(
    found: dict[Spot, Excess], rows: list[ModuleDeviation], calls: dict[Key, ModuleCall], threshold: float
) -> str:
    """The first module whose own doing it is. A layer that gives fewer digits than its weights have was told so from
    around it (autocast): then it is the module that holds it."""
    spots = [(key, one) for (key, name), one in found.items() if not name]
    for (key, one), row in zip(spots, rows, strict=True):
        if one.over > threshold and row.agreed:
            return _above(key, calls)
    return ""


def _above(key: Key, calls: dict[Key, ModuleCall]) -> str:
    name = key[0]
    if not calls[key].coarse:
        return name
    while name:
        name = name.rpartition(".")[0]
        if (name, 0) in calls and not calls[name, 0].coarse:
            break
    return name


def table(kinds: dict[str, str], runs: dict[torch.dtype, Amplified], wrong: str | None) -> list[dict[str, Any]]:
    """A row for each module's first call: its drift in each type, and in units of that type's epsilon."""
    rows: dict[str, dict[str, Any]] = {}
    for dtype, spots in runs.items():
        word = str(dtype).removeprefix("torch.")
        for ((module, call), name), amounts in spots.items():
            if call == 0 and not name:
                worst = float(amounts.max())
                row = rows.setdefault(module, {"module": module or "the model", "kind": kinds.get(module, "")})
                row |= {word: worst * torch.finfo(dtype).eps, f"{word} epsilons": worst}
    if wrong is not None and wrong in rows:
        rows[wrong]["first"] = "jumps here"
    return list(rows.values())
