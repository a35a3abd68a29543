"""Decoders beside GPT-2 and Llama: the published number of parameters, which transformers counts too."""

import json

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from headway.config import Special
from headway.hub.family import family_named
from headway.models import count
from headway.presets import decoders, gemma, preset
from headway.presets.llama import window_of

PUBLISHED = {
    "gemma2-2b": 2_614_341_888,
    "gemma2-9b": 9_241_705_984,
    "gemma2-27b": 27_227_128_320,
    "gemma3-270m": 268_098_176,
    "gemma3-1b": 999_885_952,
    "olmo2-1b": 1_484_916_736,
    "olmo2-7b": 7_298_617_344,
    "olmo2-13b": 13_716_198_400,
    "olmo2-32b": 32_234_279_936,
    "phi3-mini": 3_821_079_552,
    "phi3-medium": 13_960_238_080,
    "gpt-neox-20b": 20_554_567_680,
    "pythia-70m": 70_426_624,
    "pythia-160m": 162_322_944,
    "pythia-410m": 405_334_016,
    "pythia-1b": 1_011_781_632,
    "pythia-1.4b": 1_414_647_808,
    "pythia-2.8b": 2_775_208_960,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "opt-125m": 125_239_296,
    "opt-350m": 331_196_416,
    "opt-1.3b": 1_315_758_080,
    "opt-2.7b": 2_651_596_800,
    "opt-6.7b": 6_658_473_984,
    "opt-13b": 12_853_473_280,
    "opt-30b": 29_974_540_288,
}


def test_every_preset_is_listed() -> None:
    assert [*gemma.PRESETS, *decoders.PRESETS] == list(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_count(name: str) -> None:
    config = preset(name)
    assert count(config) == PUBLISHED[name]
    family = family_named(config.family)
    stated = json.loads(json.dumps(family.write(config)))
    assert family.read(stated, frozenset()) == config
    with torch.device("meta"):
        theirs = AutoModelForCausalLM.from_config(AutoConfig.for_model(**stated))
    assert sum(parameter.numel() for parameter in theirs.parameters()) == PUBLISHED[name]


def test_what_the_count_does_not_show() -> None:
    """Windows, bases, scales and end tokens, as the released config.json files state them."""
    stacks = {name: preset(name).stack for name in PUBLISHED}
    assert [window_of(block.attention) for block in stacks["gemma2-2b"].blocks[:4]] == [4096, None] * 2
    assert [window_of(block.attention) for block in stacks["gemma3-1b"].blocks[:7]] == [512] * 5 + [None, 512]
    assert [block.attention.rotary.base for block in stacks["gemma3-1b"].blocks[4:7]] == [1e4, 1e6, 1e4]
    scales = [stacks[f"gemma2-{size}"].block.attention.scale for size in ("2b", "9b", "27b")]
    assert scales == [None, None, 144**-0.5]
    assert preset("gemma2-9b").embedding_scale == 3584**0.5 and preset("gemma2-9b").logit_softcap == 30
    assert {window_of(stacks[name].block.attention) for name in ("phi3-mini", "phi3-medium")} == {2047}
    assert preset("phi3-mini").special == Special(begin=1, end=(32000,), pad=32000)
    assert stacks["olmo2-7b"].block.attention.rotary.base == 5e5
    assert [stacks[name].block.attention.rotary.width for name in ("gpt-neox-20b", "pythia-70m")] == [24, 16]
    assert stacks["opt-350m"].block.order == "post" and preset("opt-350m").embedding_width == 512
    assert (preset("opt-125m").offset, preset("opt-125m").special.pad) == (2, 1)
