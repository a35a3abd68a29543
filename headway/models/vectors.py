"""Layers by themselves: a stack that reads vectors, with nothing before it and nothing after it.

out = stack(x)
"""

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from headway.config.vectors import VectorsConfig
from headway.models.language import with_padding
from headway.nn.block import Context
from headway.nn.stack import Stack
from headway.ops.mask import Mask


class Vectors(nn.Module):
    """Vectors in, vectors out.

    >>> import torch
    >>> from headway.presets.seeds import bare_block
    >>> Vectors(bare_block(width=3, hidden=11))(torch.zeros(2, 5, 3)).shape
    torch.Size([2, 5, 3])
    """

    def __init__(self, config: VectorsConfig) -> None:
        super().__init__()
        self.config = config
        self.stack = Stack(config.stack)

    def forward(
        self,
        x: Float[Tensor, "B L D"],
        *,
        keep: Bool[Tensor, "B L"] | None = None,
        positions: Int[Tensor, "b L"] | None = None,
        mask: Mask | None = None,
    ) -> Float[Tensor, "B L O"]:
        """What the last block makes of each vector; `keep` True = a real one, `mask` any further rule."""
        return self.stack(x, Context(with_padding(mask, keep), positions))
