"""Layers: the parameters and the wiring of `headway.ops`."""

from headway.nn.attention import Attention
from headway.nn.block import Block, BlockState, Context
from headway.nn.embedding import (
    AlibiBias,
    ClippedBias,
    LearnedGridPositions,
    LearnedPositions,
    RelativeBias,
    SinusoidalGridPositions,
    SinusoidalPositions,
)
from headway.nn.feedforward import FeedForward
from headway.nn.norm import BatchNorm, LayerNorm, RMSNorm, make_norm
from headway.nn.stack import EncoderDecoder, Stack, new_state
from headway.nn.state import Cross, Growing, Recurrent, Rolling, State

__all__ = [
    "AlibiBias",
    "Attention",
    "BatchNorm",
    "Block",
    "BlockState",
    "ClippedBias",
    "Context",
    "Cross",
    "EncoderDecoder",
    "FeedForward",
    "Growing",
    "LayerNorm",
    "LearnedGridPositions",
    "LearnedPositions",
    "RMSNorm",
    "Recurrent",
    "RelativeBias",
    "Rolling",
    "SinusoidalGridPositions",
    "SinusoidalPositions",
    "Stack",
    "State",
    "make_norm",
    "new_state",
]
