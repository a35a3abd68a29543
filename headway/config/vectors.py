"""Layers by themselves: vectors in, vectors out."""

from typing import Literal

from pydantic import model_validator

from headway.config.base import Frozen, Size
from headway.config.layers import StackConfig


class VectorsConfig(Frozen):
    """A stack of blocks and nothing around it: no words, no positions, no head.

    `length` is how many vectors a sequence has where nobody says; others are read as well, unless the attention stands
    on a grid, which fixes it.

    >>> from headway.config import AttentionConfig, BlockConfig
    >>> block = BlockConfig(attention=AttentionConfig(width=12, output_width=5), order="none", residual=False)
    >>> VectorsConfig(stack=StackConfig(block=block, layers=1)).output_width
    5
    """

    kind: Literal["vectors"] = "vectors"
    family: str = "headway"
    stack: StackConfig
    length: Size = 32

    @property
    def width(self) -> int:
        """Of the vectors it reads."""
        return self.stack.block.width

    @property
    def output_width(self) -> int:
        """Of the vectors it gives."""
        return self.stack.block.output_width

    @model_validator(mode="after")
    def _agree(self) -> "VectorsConfig":
        block = self.stack.block
        if block.cross is not None or block.attention.source_width != block.width:
            raise ValueError(
                "layers by themselves read one sequence of vectors: no cross-attention, source_width=width"
            )
        grid = self.stack.grid
        if grid is not None and grid[0] * grid[1] != self.length:
            raise ValueError(f"a grid of {grid} has {grid[0] * grid[1]} positions, not {self.length}")
        return self
