"""Layers as courses write them on the board: one block each, vectors in, vectors out, neither norm nor residual.

Where a text leaves a size open it is chosen here, large enough to be interesting. `docs/problems.md` answers the texts'
questions about these layers.

>>> udl_layer(width=5).stack.block.attention.bias
True
"""

from collections.abc import Callable

from headway.config import (
    AttentionConfig,
    BlockConfig,
    FeedForwardConfig,
    Pair,
    StackConfig,
    VectorsConfig,
    read_spec,
)


def ttic_layer(
    *, width: int = 512, heads: int = 8, key_width: int = 32, length: int = 1024, grid: Pair | None = None
) -> VectorsConfig:
    """TTIC 31230, problem 1: keys of width U, values of width J / K, no scale and no output projection.

    On a grid (problem 2) the softmax runs over its rows and columns.

    >>> ttic_layer(width=6, heads=2, key_width=5, grid=(3, 7)).length
    21
    """
    attention = AttentionConfig(
        width=width, heads=heads, head_width=key_width, value_width=_share(width, heads), scale=1.0, project=False,
        mechanism=read_spec("softmax") if grid is None else read_spec("spatial", grid=grid),
    )  # fmt: skip
    return _alone(attention, length if grid is None else grid[0] * grid[1])


def udl_layer(*, width: int = 512, length: int = 256) -> VectorsConfig:
    """Prince, Understanding Deep Learning, 12.1: one head as wide as the data, with biases, without scale or W_o."""
    return _alone(AttentionConfig(width=width, bias=True, scale=1.0, project=False), length)


def udl_channels(*, width: int = 512, groups: int = 1, length: int = 256) -> VectorsConfig:
    """The same book, 12.9: attention between the channels of the patches (DaViT, arXiv:2204.03645)."""
    return _alone(
        AttentionConfig(width=width, heads=groups, bias=True, project=False, mechanism=read_spec("channel")), length
    )  # fmt: skip


def eecs_layer(*, width: int = 512, heads: int = 8, length: int = 128) -> VectorsConfig:
    """EECS 182, question 2: scaled multi-head attention with its four projections, here without biases."""
    return _alone(AttentionConfig(width=width, heads=heads), length)


def bare_block(*, width: int = 64, hidden: int = 256, length: int = 32) -> VectorsConfig:
    """CS 577, homework 5: one head without scale or biases, then a ReLU layer with them.

    The text averages inputs and multiplies by W_v afterwards; averaging projected values gives the same.
    """
    attention = AttentionConfig(width=width, scale=1.0, project=False)
    return _alone(attention, length, FeedForwardConfig(hidden=hidden, activation="relu"))


def _alone(attention: AttentionConfig, length: int, feedforward: FeedForwardConfig | None = None) -> VectorsConfig:
    block = BlockConfig(attention=attention, feedforward=feedforward, order="none", residual=False)
    return VectorsConfig(stack=StackConfig(block=block, layers=1), length=length)


def _share(width: int, heads: int) -> int:
    if width % heads:
        raise ValueError(f"width {width} is not divisible by heads {heads}: their outputs side by side are that wide")
    return width // heads


def _ttic_grid() -> VectorsConfig:
    return ttic_layer(grid=(32, 32))


PRESETS: dict[str, Callable[[], VectorsConfig]] = {
    "ttic-layer": ttic_layer,
    "ttic-grid": _ttic_grid,
    "udl-layer": udl_layer,
    "udl-channels": udl_channels,
    "eecs-layer": eecs_layer,
    "bare-block": bare_block,
}
