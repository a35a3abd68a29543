"""First values of parameters, drawn in place from the generator given; nothing is seeded globally.

Without a generator the draw comes from torch's own default one, as everywhere in torch.
"""

import torch
from torch import nn

from headway.nn.layers import NORMS, BatchNorm, LayerScale, normal


@torch.no_grad()
def initialise(module: nn.Module, *, std: float = 0.02, generator: torch.Generator | None = None) -> None:
    """Linear maps and embeddings from N(0, std²), biases 0, norms 1; in the order of `modules`."""
    for part in module.modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            normal(part.weight, std=std, generator=generator)
        if isinstance(part, nn.Linear) and part.bias is not None:
            part.bias.zero_()
        if isinstance(part, tuple(NORMS.values())):
            for own, parameter in part.named_parameters(recurse=False):
                parameter.fill_(float(own == "weight"))
        if isinstance(part, LayerScale):
            part.weight.fill_(part.start)
        if isinstance(part, BatchNorm):
            part.mean.zero_()
            part.variance.fill_(1.0)
