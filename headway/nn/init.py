"""First values of parameters, drawn in place from the generator given; nothing is seeded globally.

Without a generator the draw comes from torch's own default one, as everywhere in torch.
"""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from headway.nn.layers import NORMS, BatchNorm, LayerScale, normal


@torch.no_grad()
def xavier(weight: Float[Tensor, "O I"], *, gain: float = 1.0, generator: torch.Generator | None = None) -> None:
    """Uniform on ±gain · √(6 / (in + out)), of variance 2 gain² / (in + out) (Glorot & Bengio 2010)."""
    bound = gain * math.sqrt(6 / sum(weight.shape))
    weight.uniform_(-bound, bound, generator=generator)


def residual(
    weight: Tensor, *, std: float, layers: int, branches: int = 2, generator: torch.Generator | None = None
) -> None:
    """N(0, std² / (branches · layers)), for the last map of a residual branch (GPT-2: Radford et al. 2019, 2.3).

    A residual stream adds branches · layers outputs; so scaled, their sum keeps the variance of one.
    """
    if layers < 1 or branches < 1:
        raise ValueError(f"a scaled residual needs at least one layer and one branch, not {layers} and {branches}")
    normal(weight, std=std / math.sqrt(branches * layers), generator=generator)


@torch.no_grad()
def initialise(
    module: nn.Module,
    *,
    std: float = 0.02,
    layers: int | None = None,
    residual_names: tuple[str, ...] = ("down", "out"),
    generator: torch.Generator | None = None,
) -> None:
    """Linear maps and embeddings from N(0, std²), biases 0, norms 1; in the order of `named_modules`.

    With `layers`, linear maps whose own name is in `residual_names` are drawn by `residual`.
    """
    for name, part in module.named_modules():
        if isinstance(part, nn.Linear | nn.Embedding):
            if layers is not None and name.rpartition(".")[2] in residual_names:
                residual(part.weight, std=std, layers=layers, generator=generator)
            else:
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
