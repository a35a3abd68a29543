"""Configurations: frozen models without torch, read from JSON, written to JSON, refused when they cannot be."""

from headway.config.base import Extent, Frozen, Pair, Size, explain, nearest, sides
from headway.config.images import Images
from headway.config.language import LanguageConfig, Special
from headway.config.layers import (
    Alibi,
    AttentionConfig,
    BlockConfig,
    Clipped,
    FeedForwardConfig,
    LinearScaling,
    Llama3Scaling,
    PositionBias,
    Relative,
    Rotary,
    Scaling,
    StackConfig,
    YarnScaling,
)
from headway.config.masked import MaskedConfig
from headway.config.recurrent import RecurrentConfig
from headway.config.sentence import SentenceConfig
from headway.config.seq2seq import Seq2SeqConfig
from headway.config.spec import SPECS, Additive, Channel, Linear, Local, Softmax, Spatial, Spec, read_spec
from headway.config.vectors import VectorsConfig
from headway.config.vision import DaViTConfig, VisionConfig

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
    "Alibi",
    "AttentionConfig",
    "BlockConfig",
    "Clipped",
    "FeedForwardConfig",
    "PositionBias",
    "Relative",
    "Rotary",
    "StackConfig",
    "LinearScaling",
    "Llama3Scaling",
    "Scaling",
    "YarnScaling",
    "Images",
    "MaskedConfig",
    "RecurrentConfig",
    "SentenceConfig",
    "Seq2SeqConfig",
    "VectorsConfig",
    "VisionConfig",
    "DaViTConfig",
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
