"""Layers by themselves: a stack that reads vectors, with nothing before it and nothing after it.

out = stack(x)
"""

from jaxtyping import Float, Int
from torch import Tensor

from headway.config.layers import VectorsConfig
from headway.models.model import Model
from headway.nn.block import Stack
from headway.nn.context import Context, as_keep, with_padding
from headway.ops.mask import Mask


class Vectors(Model):
    """Vectors in, vectors out.

    >>> import torch
    >>> from headway.presets.seeds import bare_block
    >>> Vectors(bare_block(width=3, hidden=11))(torch.zeros(2, 5, 3)).shape
    torch.Size([2, 5, 3])
    """

    config: VectorsConfig

    def __init__(self, config: VectorsConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = Stack(config.stack)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        *,
        keep: Tensor | None = None,
        positions: Int[Tensor, "b L"] | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "B L O"]:
        """What the last block makes of each vector; `keep` True = a real one, `mask` any further rule."""
        return self.stack(x, Context(with_padding(mask, as_keep(keep, x)), positions))
