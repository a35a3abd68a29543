"""One call of a model, by the names of its adapter."""

from typing import Any

import torch
from torch import Tensor, nn

from headway.audit.subject.adapter import Adapter
from headway.audit.subject.reading import Reading, counted


def keywords_of(adapter: Adapter, reading: Reading) -> dict[str, Any]:
    """What `forward` is given besides the inputs."""
    found = dict(adapter.always)
    if adapter.mask is not None and reading.keep is not None:
        found[adapter.mask] = mask_of(adapter, reading.keep)
    positions = reading.positions
    if positions is None and reading.keep is not None:
        positions = counted(reading.keep)
    if adapter.positions is not None and positions is not None:
        found[adapter.positions] = positions
    if adapter.segments is not None and reading.segments is not None:
        found |= adapter.segments(reading)
    if adapter.source is not None and reading.source is not None:
        found[adapter.source] = reading.source
        if adapter.source_mask is not None and reading.source_keep is not None:
            found[adapter.source_mask] = mask_of(adapter, reading.source_keep)
    return found


def mask_of(adapter: Adapter, keep: Tensor) -> Tensor:
    """Which inputs are real, in the model's own way of saying it."""
    said = ~keep if adapter.hides else keep
    return said.to({"long": torch.long, "bool": torch.bool, "float": torch.float32}[adapter.mask_type])


def call(module: nn.Module, adapter: Adapter, reading: Reading) -> Any:
    """Whatever the model returns for a reading."""
    if adapter.call is not None:
        return adapter.call(module, reading)
    keywords = keywords_of(adapter, reading)
    if adapter.argument is None:
        return module(reading.inputs, **keywords)
    return module(**{adapter.argument: reading.inputs}, **keywords)
