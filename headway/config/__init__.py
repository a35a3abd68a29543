"""Configurations: frozen models without torch, read from JSON, written to JSON, refused when they cannot be."""

from headway.config.base import Extent, Frozen, Pair, Size, explain, nearest, sides
from headway.config.language import LanguageConfig, Special
from headway.config.layers import AttentionConfig, BlockConfig, FeedForwardConfig, Rotary, StackConfig
from headway.config.spec import SPECS, Additive, Channel, Linear, Local, Softmax, Spatial, Spec, read_spec

__all__ = [
    "Extent",
    "Frozen",
    "Pair",
    "Size",
    "explain",
    "nearest",
    "sides",
    "LanguageConfig",
    "Special",
    "AttentionConfig",
    "BlockConfig",
    "FeedForwardConfig",
    "Rotary",
    "StackConfig",
    "SPECS",
    "Additive",
    "Channel",
    "Linear",
    "Local",
    "Softmax",
    "Spatial",
    "Spec",
    "read_spec",
]
