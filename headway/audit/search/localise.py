"""The first module that went wrong: what went into it agreed, what came out did not."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import torch
from torch import Tensor, nn

from headway.adapt.adapter import Reading
from headway.adapt.model import AdaptedModel
from headway.audit.report import ModuleDeviation
from headway.audit.search.compare import Comparison, Results, apart, largest, sort_results
from headway.observe.hooks import hooked

INSIDE = 100.0


def layers(subject: AdaptedModel, comparison: Comparison, tolerance: float, found: float) -> list[ModuleDeviation]:
    """Every module in the order of finishing, with its deviation, and whether what it was given agreed."""
    before = record_calls(subject, comparison.before)
    after = record_calls(comparison.other or subject, comparison.after, stepwise=comparison.stepwise)
    threshold = _threshold(tolerance, found)
    rows = []
    for key, entry in before.items():
        other = after.get(key)
        deviation = None if other is None else _deviation(entry.output, other.output)
        if other is not None and deviation is not None:
            agreed = all(
                (one := _deviation(entry.inputs[name], other.inputs[name])) is None or one <= threshold
                for name in entry.inputs.keys() & other.inputs.keys()
            )
            rows.append(ModuleDeviation(key[0], entry.kind, deviation, agreed))
    return rows


def first_wrong(rows: list[ModuleDeviation], tolerance: float, found: float) -> str:
    """The first module whose own doing it is; "" for the model itself."""
    threshold = _threshold(tolerance, found)
    return next((one.module for one in rows if one.agreed and one.deviation > threshold), "")


def _threshold(tolerance: float, found: float) -> float:
    """What counts as a deviation inside: above rounding (which may be larger than at the end), below what was found."""
    return min(sqrt(tolerance * max(found, tolerance)), INSIDE * tolerance)


def _deviation(before: list[Results], after: list[Results]) -> float | None:
    one, two = _joined(before), _joined(after)
    if one is None or two is None or one.values.shape[1] != two.values.shape[1]:
        return None
    found = apart(one, two) if _alike(one, two) else None
    return None if found is None or not len(found.labels) else found.largest


def _alike(one: Results, two: Results) -> bool:
    shared = [int(torch.isin(a.labels, b.labels).sum()) for a, b in ((one, two), (two, one))]
    return shared[0] == shared[1]


def _joined(pieces: list[Results]) -> Results | None:
    if not pieces or len({one.values.shape[1] for one in pieces}) > 1:
        return None
    return sort_results(torch.cat([one.labels for one in pieces]), torch.cat([one.values for one in pieces]))


def first_wrong_by_gradient(subject: AdaptedModel, comparison: Comparison, tolerance: float) -> str:
    """The first module through which an input without a label reaches results that have one, by gradients alone."""
    reading = comparison.after[0]
    taken: list[tuple[str, torch.Tensor]] = []

    def hook(name: str) -> Callable[..., Any]:
        def keep(module: object, args: object, kwargs: object, output: object) -> None:
            if isinstance(output, torch.Tensor) and output.requires_grad:
                taken.append((name, output))

        return keep

    with hooked(subject.module, hook):
        _, leaf = subject.run_with_gradients(reading)
    return next((name for name, out in taken if _reaches(out, leaf, subject, comparison, name, tolerance)), "")


def _reaches(
    out: torch.Tensor, leaf: torch.Tensor, subject: AdaptedModel, comparison: Comparison, name: str, tolerance: float
) -> bool:
    reading = comparison.after[0]
    marks = torch.where(reading.labels >= 0, 1.0, 0.0)
    if out.shape[:2] != marks.shape or keyed(out, reading, name) is None:
        return False
    weight = torch.cos(torch.arange(out[0, 0].numel(), device=out.device) * 1.3 + 0.2).reshape(out.shape[2:])
    loss = (out * weight * marks.reshape(*marks.shape, *[1] * (out.ndim - 2)).to(out)).sum()
    (gradient,) = torch.autograd.grad(loss, leaf, retain_graph=True, allow_unused=True)
    if gradient is None:
        return False
    silent = gradient[reading.labels.to(gradient.device) < 0]
    return largest(silent) > tolerance * (largest(gradient) or 1.0) if silent.isfinite().all() else True


SOURCE, ITEM = 1 << 40, 1 << 41  # labels of a source's tokens and of whole items are numbers of their own

Key = tuple[str, int]  # a module, and which of its calls within one reading


@dataclass(eq=False)
class CallRecord:
    """One module's call: what went in (by argument) and what came out, piece by piece."""

    kind: str
    inputs: dict[str, list[Results]] = field(default_factory=dict)
    output: list[Results] = field(default_factory=list)


class CallRecorder:
    """Entries in the order in which modules finish."""

    def __init__(self) -> None:
        self.entries: dict[Key, CallRecord] = {}
        self._reading: Reading | None = None
        self._calls: dict[str, int] = {}

    def read(self, reading: Reading) -> None:
        """What is about to be read."""
        self._reading, self._calls = reading, {}

    def hook(self, name: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any) -> None:
            reading = self._reading
            if reading is None:
                return
            count = self._calls[name] = self._calls.get(name, -1) + 1
            given = dict(enumerate(args)) | kwargs
            tensors = {str(key): one for key, one in given.items() if isinstance(one, Tensor)}
            # Positions are whole numbers, and a law may move them: the module that makes something of them is sought.
            kept = {key: keyed(one, reading, name) for key, one in tensors.items() if one.is_floating_point()}
            out = keyed(first_tensor(output), reading, name)
            entry = self.entries.setdefault((name, count), CallRecord(type(module).__name__))
            for key, results in kept.items():
                if results is not None:
                    entry.inputs.setdefault(key, []).append(results)
            if out is not None:
                entry.output.append(out)

        return hook


def record_calls(
    subject: AdaptedModel, readings: Sequence[Reading], *, stepwise: bool = False
) -> dict[Key, CallRecord]:
    """All modules' calls while these are read."""
    recorder = CallRecorder()
    with hooked(subject.module, recorder.hook):
        subject.run(readings, stepwise=stepwise, watch=recorder.read)
    return recorder.entries


def first_tensor(output: Any) -> Tensor | None:
    """The first tensor of numbers in whatever a module returns."""
    if isinstance(output, Tensor):
        return output
    parts = output.values() if isinstance(output, dict) else output if isinstance(output, tuple | list) else ()
    return next((one for one in map(first_tensor, parts) if one is not None), None)


def keyed(tensor: Tensor | None, reading: Reading, name: str) -> Results | None:
    """A module's numbers by label; None where they belong to no place and to no item."""
    if tensor is None or tensor.ndim == 0 or tensor.dtype == torch.bool:
        return None
    found = _placed(tensor.detach(), reading, name)
    if not found:
        return None
    labels = torch.cat([one.reshape(-1).cpu() for one, _ in found])
    rows = torch.cat([values.reshape(one.numel(), -1) for one, values in found]).to("cpu", torch.float64)
    return sort_results(labels[labels >= 0], rows[labels >= 0])


def _placed(tensor: Tensor, reading: Reading, name: str) -> list[tuple[Tensor, Tensor]]:
    """Labels, and the numbers that belong to them. Where a text has one place, what belongs to the place may belong to
    the item: then it bears both labels."""
    own, source = reading.labels, reading.source_labels
    sides = [own] if source is None else [own, torch.where(source >= 0, source + SOURCE, source)]
    if "encoder" in name and "decoder" not in name:
        sides.reverse()  # where both are of one length, an encoder's are the source's
    found = [(labels, one) for labels in sides if (one := along(tensor, *labels.shape)) is not None][:1]
    both = own.shape[1] == 1 and bool(found) and found[0][0] is own and found[0][1].numel() == tensor.numel()
    # More axes may hold places that cannot be told apart, of which some have no label.
    of_items = tensor.shape[0] == len(own) and (tensor.ndim == 2 or bool((own >= 0).all()))
    if both or (of_items and not found):
        found.append((torch.where(reading.items >= 0, reading.items + ITEM, reading.items), tensor))
    return found


def along(tensor: Tensor, items: int, length: int) -> Tensor | None:
    """The tensor with its first two axes B and L, wherever it has them."""
    shape = list(tensor.shape)
    if len(shape) > 3 and shape[1] == shape[2] == length:
        return tensor.movedim(2, 1)  # as many heads as places: heads mostly come first
    if len(shape) >= 2 and shape[:2] == [items, length]:
        return tensor
    if len(shape) >= 2 and shape[:2] == [1, length]:
        return tensor.expand(items, *shape[1:])
    if len(shape) == 1 and shape[0] == length:
        return tensor.expand(items, length)
    if len(shape) >= 3 and [shape[0], shape[2]] == [items, length]:
        return tensor.movedim(2, 1)
    if shape[0] == items * length and (length > 1 or len(shape) == 2):
        return tensor.reshape(items, length, -1)
    if len(shape) >= 3 and shape[:2] == [length, items]:
        return tensor.movedim(1, 0)
    if len(shape) == 3 and shape[1] == length and shape[0] % items == 0:
        return tensor.reshape(items, -1, length, shape[2]).movedim(2, 1)
    return None
