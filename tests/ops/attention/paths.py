"""Small calls that take the paths of large ones."""

from typing import Any

import pytest
from torch import Tensor

from headway.ops.attention import additive, plan, softmax
from headway.ops.attention.kernels import window


def force_tiles(patch: pytest.MonkeyPatch, rows: int = 4) -> list[int]:
    """From here on, no call is small, and a tile has few rows; the list returned grows by the tiles of each call."""
    counted: list[int] = []

    def counting(module: Any) -> None:
        in_tiles = module.in_tiles

        def counted_in_tiles(block: Any, tiles: Any, *tensors: Any, **rest: Any) -> Tensor:
            counted.append(len(tiles))
            return in_tiles(block, tiles, *tensors, **rest)

        patch.setattr(module, "in_tiles", counted_in_tiles)

    for module in (softmax, additive):
        counting(module)
    for module in (plan, additive, window):
        patch.setattr(module, "ROWS", rows)
    patch.setattr(plan, "SMALL", 0)
    patch.setattr(additive, "_HIDDEN", 1)
    return counted
