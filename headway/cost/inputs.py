"""Something for a model to read: random tokens, images or vectors of the sizes that were asked for."""

from typing import Any

import torch
from torch import Tensor

from headway.config.base import sides
from headway.cost.setting import Setting


def real_inputs(config: Any, setting: Setting, *, seed: int = 0) -> tuple[Tensor, ...]:
    """What `model(*inputs)` takes: tokens, a source and a target, images, or vectors.

    >>> from headway.presets import preset
    >>> [tuple(one.shape) for one in real_inputs(preset("t5-small"), Setting(batch=2, length=5, source=7))]
    [(2, 7), (2, 5)]
    """
    kind, batch = config.kind_or_name(), setting.batch
    draw = torch.Generator().manual_seed(seed)
    dtype = getattr(torch, setting.dtype)

    def tokens(length: int, vocabulary: int) -> Tensor:
        return torch.randint(vocabulary, (batch, length), generator=draw)

    if kind == "seq2seq":
        return tokens(setting.source_length, config.vocabulary), tokens(setting.length, config.outputs)
    if kind == "recurrent":
        return tokens(setting.source_length, config.source_vocabulary), tokens(setting.length, config.vocabulary)
    if kind in ("vision", "davit"):
        return (torch.randn(batch, config.channels, *sides(config.image), generator=draw).to(dtype),)
    if kind == "vectors":
        return (torch.randn(batch, setting.length, config.width, generator=draw).to(dtype),)
    return (tokens(setting.length, config.encoder.vocabulary if kind == "sentence" else config.vocabulary),)
