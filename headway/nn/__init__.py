"""Layers: the parameters and the wiring of `headway.ops`."""

from headway.nn.attention import Attention
from headway.nn.block import Block, FeedForward, Stack
from headway.nn.cache import BlockCache, Cache, CrossCache, KVCache, TotalCache, WindowCache, new_cache
from headway.nn.context import Context
from headway.nn.layers import BatchNorm, LayerNorm, LearnedPositions, Linear, RMSNorm, make_norm
from headway.nn.positions import (
    AlibiBias,
    ClippedBias,
    LearnedGridPositions,
    RelativeBias,
    SinusoidalGridPositions,
    SinusoidalPositions,
)

__all__ = [
    "AlibiBias",
    "Attention",
    "BatchNorm",
    "Block",
    "BlockCache",
    "Cache",
    "ClippedBias",
    "Context",
    "CrossCache",
    "FeedForward",
    "KVCache",
    "LayerNorm",
    "LearnedGridPositions",
    "LearnedPositions",
    "Linear",
    "RMSNorm",
    "RelativeBias",
    "SinusoidalGridPositions",
    "SinusoidalPositions",
    "Stack",
    "TotalCache",
    "WindowCache",
    "make_norm",
    "new_cache",
]
