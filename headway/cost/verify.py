"""The proof: what was priced, measured on the real model at the same size, one beside the other."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from headway.cost.compose import price_tree
from headway.cost.executed import counter
from headway.cost.inputs import real_inputs
from headway.cost.part import backward, forward
from headway.cost.plain import plain
from headway.cost.sheet import Sheet
from headway.cost.verify_more import cache, memory, reached, seconds
from headway.models import build, parameters


@dataclass(frozen=True)
class Check:
    """One figure before and after. unit: parameters, FLOPs, bytes, positions, seconds."""

    name: str
    predicted: int | float
    measured: int | float
    unit: str

    @property
    def difference(self) -> int | float:
        """Measured less predicted."""
        return self.measured - self.predicted

    @property
    def ratio(self) -> float:
        """Predicted over measured."""
        return self.predicted / self.measured if self.measured else float(self.predicted == 0) or float("inf")

    def as_json(self) -> dict[str, Any]:
        return {**vars(self), "difference": self.difference, "ratio": self.ratio}


def verify(sheet: Sheet, model: nn.Module | None = None) -> Iterator[Check]:
    """Every figure that can be measured, one after the other; the model has random weights where none is given.

    Padding and masks of the setting change what is useful alone, and are left out here.
    """
    if sheet.config is None:
        raise ValueError(f"{sheet.name} was priced by a trace of itself: there is no second count to compare with")
    config = sheet.config
    bare = replace(sheet.setting, past=0, lengths=None, source_lengths=None, mask=None, training=False)
    sheet = replace(sheet, setting=bare)
    real: nn.Module = build(config, dtype=getattr(torch, bare.dtype)).eval() if model is None else model
    inputs = real_inputs(config, bare)
    yield Check("parameters", sheet.params, parameters(real), "parameters")
    yield from _flops(sheet, real, inputs)
    for found in (memory, cache, reached, seconds):
        yield from (Check(*one) for one in found(sheet, real, inputs))


def _flops(sheet: Sheet, model: nn.Module, inputs: tuple[Tensor, ...]) -> Iterator[Check]:
    """Dense products on the plain path, executed ones on the fast path, forwards and backwards."""
    assert sheet.config is not None
    trees = [price_tree(sheet.config, replace(sheet.setting, training=training)) for training in (False, True)]
    still, taught = trees
    with plain(model), torch.enable_grad():
        ahead, back = _counted(model, inputs, lambda: FlopCounterMode(display=False))
    yield Check("dense forward", 2 * forward(still).dense, ahead, "FLOPs")
    yield Check("dense backward", 2 * backward(taught).dense, back, "FLOPs")
    with torch.enable_grad():
        ahead, back = _counted(model, inputs, counter)
    yield Check("executed forward", 2 * (forward(taught).executed or 0), ahead, "FLOPs")
    yield Check("executed backward", 2 * (backward(taught).executed or 0), back, "FLOPs")


def _counted(model: nn.Module, inputs: tuple[Tensor, ...], make: Callable[[], FlopCounterMode]) -> tuple[int, int]:
    """FLOPs of the products of one pass, and of its way back."""
    with make() as ahead:
        out = model(*inputs)
    with make() as back:
        out.float().sum().backward()
    for parameter in model.parameters():
        parameter.grad = None
    return ahead.get_total_flops(), back.get_total_flops()
