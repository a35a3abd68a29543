"""Figures that others published, each with its source; a price that misses one of them is wrong."""

import pytest

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Frozen, LanguageConfig, Rotary, StackConfig
from headway.cost.input_lengths import PriceRequest
from headway.cost.price import drafted
from headway.models import count
from headway.presets.gpt2 import gpt2
from headway.presets.seeds import bare_block, udl_channels, udl_layer


def without_biases() -> LanguageConfig:
    """GPT-2 with `bias=False` as nanoGPT builds it: no biases in maps or norms (here RMSNorm, as many weights)."""
    config = gpt2(dropout=0.0)
    block = config.stack.block
    assert block.feedforward is not None
    bare = block.model_copy(
        update={
            "attention": block.attention.model_copy(update={"bias": False, "output_bias": False}),
            "feedforward": block.feedforward.model_copy(update={"bias": False}),
            "norm": "rms",
        }
    )
    return config.model_copy(update={"stack": config.stack.model_copy(update={"block": bare})})


def cs336_xl() -> LanguageConfig:
    """CS336 assignment 1: GPT-2 XL's sizes, RMSNorm, rotary positions, three matrices of d x 4d, an untied head."""
    attention = AttentionConfig(width=1600, heads=25, causal=True, rotary=Rotary())
    feedforward = FeedForwardConfig(hidden=6400, activation="silu", gated=True, bias=False)
    block = BlockConfig(attention=attention, feedforward=feedforward, norm="rms")
    stack = StackConfig(block=block, layers=48, final_norm=True)
    return LanguageConfig(vocabulary=50257, length=1024, stack=stack, tied=False)


# name: configuration, length, parameters, forward FLOPs of the matrix products
LANGUAGE: dict[str, tuple[LanguageConfig, int, int]] = {
    # nanoGPT, transformer_sizing.ipynb: 124,337,664 parameters with biases off, and 291,648,307,200 FLOPs at 1,024
    "nanoGPT": (without_biases(), 124_337_664, 291_648_307_200),
    # Stanford CS336 (2025), assignment 1, transformer_accounting: GPT-2 XL
    "CS336": (cs336_xl(), 2_127_057_600, 4_513_336_524_800),
}


@pytest.mark.parametrize("name", LANGUAGE)
def test_language_models_at_1024(name: str) -> None:
    config, parameters, flops = LANGUAGE[name]
    sheet = drafted(config, PriceRequest(length=1024))
    assert (sheet.params, sheet.flops, sheet.macs) == (parameters, flops, flops // 2)
    assert count(config) == parameters


def test_vit_b16_in_multiply_adds() -> None:
    """Matrix products of ViT-B/16 at 224 (torchvision's table says 17.56, and calls it GFLOPS)."""
    sheet = drafted("vit-b16", PriceRequest())
    assert sheet.macs == 17_563_828_224
    assert sheet.params == 86_567_656  # torchvision's vit_b_16


# Released sizes, as their papers or model cards count them.
RELEASED = {
    "gpt2": 124_439_808,
    "gpt2-xl": 1_557_611_200,
    "llama2-7b": 6_738_415_616,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "mistral-7b": 7_241_732_096,
    "bert-base": 109_482_240,
    "t5-small": 60_506_624,
    "davit-tiny": 28_360_168,
}


@pytest.mark.parametrize("name", RELEASED)
def test_released_models(name: str) -> None:
    assert drafted(name, PriceRequest(length=None if name == "davit-tiny" else 5)).params == RELEASED[name]


def core(config: Frozen) -> tuple[int, int]:
    """Multiply-adds of the scores and the weighted sum, and of the projections."""
    found = drafted(config, PriceRequest()).operations
    cores = sum(line.operation.forward.dense for line in found if line.operation.kind == "attention")
    return cores, sum(line.operation.forward.dense for line in found if line.operation.kind == "product")


def test_between_patches_and_between_channels() -> None:
    """Prince 12.9 (M6): 256 patches of width 512; the projections, 201.3 M, are the same in both."""
    assert core(udl_layer()) == (67_108_864, 201_326_592)
    assert core(udl_channels()) == (134_217_728, 201_326_592)


@pytest.mark.parametrize(("n", "d", "h", "c"), [(2, 5, 11, 7), (3, 13, 17, 19)])
def test_the_bare_block(n: int, d: int, h: int, c: int) -> None:
    """CS 577 homework 5 (A5): n (3 C d² + 2 C² d + 2 C d h) multiply-adds, of n texts of C words."""
    sheet = drafted(bare_block(width=d, hidden=h, length=c), PriceRequest(batch=n))
    assert sheet.macs == n * (3 * c * d**2 + 2 * c**2 * d + 2 * c * d * h)
