"""Llama's relatives: the published number of parameters, which transformers counts too; nothing is allocated."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

from headway.config import Special
from headway.hub.families.llama import read, write
from headway.models import count
from headway.presets import preset
from headway.presets.llama import PRESETS

PUBLISHED = {
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.2-1b": 1_235_814_400,
    "llama3.2-3b": 3_212_749_824,
    "mistral-7b": 7_241_732_096,
    "qwen2-0.5b": 494_032_768,
    "qwen2-1.5b": 1_543_714_304,
    "qwen2-7b": 7_615_616_512,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "granite3.1-2b": 2_533_531_648,
    "granite3.1-8b": 8_170_848_256,
    "smollm2-135m": 134_515_008,
    "smollm2-360m": 361_821_120,
    "smollm2-1.7b": 1_711_376_384,
    "smollm3-3b": 3_075_098_624,
    "tinyllama": 1_100_048_384,
}


def test_every_preset_is_listed() -> None:
    assert list(PRESETS) == list(PUBLISHED)


@pytest.mark.parametrize("name", PUBLISHED)
def test_the_published_count(name: str) -> None:
    config = preset(name)
    assert count(config) == PUBLISHED[name]
    stated = write(config)
    assert read(stated, frozenset()) == config
    with torch.device("meta"):
        theirs = AutoModelForCausalLM.from_config(AutoConfig.for_model(**stated))
    assert sum(parameter.numel() for parameter in theirs.parameters()) == PUBLISHED[name]


def test_what_the_count_does_not_show() -> None:
    """Bases, lengths, windows and end tokens, as the released config.json files state them."""
    attention = {name: preset(name).stack.block.attention for name in PUBLISHED}
    assert attention["mistral-7b"].mechanism.window == 4096
    assert attention["llama3.2-1b"].rotary.scaling.factor == 32
    assert attention["llama3-8b"].rotary.scaling is None
    bases = {name: attention[name].rotary.base for name in PUBLISHED}
    assert {bases[name] for name in ("llama2-7b", "llama2-70b", "mistral-7b", "tinyllama")} == {1e4}
    assert (bases["llama3-8b"], bases["qwen2-7b"], bases["smollm2-135m"], bases["smollm2-1.7b"]) == (
        5e5,
        1e6,
        1e5,
        1.3e5,
    )
    assert [preset(name).length for name in ("llama2-7b", "llama3-8b", "llama3.2-3b", "tinyllama")] == [
        4096, 8192, 131072, 2048,
    ]  # fmt: skip
    assert preset("llama3-70b").special == Special(begin=128000, end=(128001,))
    assert preset("LLAMA3.2_1B") == preset("llama3.2-1b")
