"""Sees every attention of a running model, and computes its weights afterwards, for the rows and heads asked.

The fast kernels stay on and the output does not change by a bit: what is kept of an attention are its queries and
keys. A model that writes its weights out gives those of the rows and heads wanted.

>>> layer = nn.MultiheadAttention(8, 2, batch_first=True)
>>> with captured(layer) as found:
...     _ = layer(x := torch.ones(1, 3, 8), x, x, need_weights=False)
>>> found[0].weights(rows=slice(0, 1), heads=[1]).mul(3).round(decimals=4).tolist()
[[[[1.0, 1.0, 1.0]]]]
"""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn

from headway.look.capture.attention import Attention
from headway.look.capture.parts import Parts
from headway.look.capture.record import Recorder
from headway.look.capture.wanted import Wanted
from headway.look.capture.watch import Watch

__all__ = ["Attention", "Parts", "Wanted", "captured", "torch"]


@contextmanager
def captured(module: nn.Module, *, wanted: Wanted = Wanted()) -> Iterator[list[Attention]]:  # noqa: B008
    """While it is entered, the list fills with the attentions of the module, in order of running."""
    recorder = Recorder(wanted)
    with Watch(module, recorder.see).watching():
        yield recorder.found
