"""What is saved is what is loaded; a layout that has no words for a model is refused, with the one that has."""

from pathlib import Path
from typing import Any

import pytest
import torch

import headway as hw

SMALL = {"layers": 2, "width": 24, "heads": 4, "vocabulary": 31, "length": 17}
# What GPT-2's layout cannot say.
UNSAID: dict[str, dict[str, Any]] = {
    "linear": {"attention": "linear"},
    "local": {"attention": "local", "window": 5},
    "softcap": {"softcap": 30.0},
    "scale": {"scale": 0.5},
    "norm": {"norm": "rms"},
    "groups": {"kv_heads": 2},
    "head width": {"head_width": 5},
    "rotary": {"positions": "rotary"},
    "alibi": {"positions": "alibi"},
}


@pytest.mark.parametrize("name", UNSAID)
def test_gpt2_has_no_words_for_it(name: str, tmp_path: Path) -> None:
    model = hw.build("gpt2", **SMALL, **UNSAID[name], family="gpt2").eval()
    with pytest.raises(ValueError, match=r"the layout of gpt2 has no word for .*; save it with layout='headway'"):
        hw.save(model, tmp_path / "m")
    assert not (tmp_path / "m").exists()
    hw.save(model, tmp_path / "m", layout="headway")
    other, tokens = hw.load(tmp_path / "m").model, torch.randint(0, 31, (2, 9))
    torch.testing.assert_close(other(tokens), model(tokens), rtol=0, atol=0)
    assert other.config.replace(family="gpt2") == model.config


@pytest.mark.parametrize("name", UNSAID)
def test_built_with_options_it_is_saved_in_a_layout_that_can_say_it(name: str, tmp_path: Path) -> None:
    model = hw.build("gpt2", **SMALL, **UNSAID[name]).eval()
    hw.save(model, tmp_path / "m")
    assert hw.load(tmp_path / "m").model.config == model.config


def test_a_pattern_of_blocks_is_read_back(tmp_path: Path) -> None:
    config: Any = hw.build("gpt2", **SMALL).config
    near = config.stack.block.replace("attention", mechanism={"kind": "local", "window": 3})
    config = config.replace("stack", block=near, alternates=(near, config.stack.block), layers=5).replace(
        family="headway"
    )
    model, tokens = hw.build(config).eval(), torch.randint(0, 31, (2, 9))
    kinds = [block.attention.config.mechanism.kind for block in model.stack.blocks]
    assert kinds == ["local", "local", "softmax", "local", "local"]
    hw.save(model, tmp_path / "m")
    other = hw.load(tmp_path / "m").model
    assert other.config == config
    torch.testing.assert_close(other(tokens), model(tokens), rtol=0, atol=0)


def test_running_statistics_of_a_batch_norm_come_back(tmp_path: Path) -> None:
    """They are buffers, and part of the model all the same."""
    model = hw.build("gpt2", layers=1, width=10, heads=2, vocabulary=11, length=7, norm="batch").train()
    tokens = torch.randint(0, 11, (3, 5), generator=torch.Generator().manual_seed(0))
    model(tokens)
    model.eval()
    hw.save(model, tmp_path / "model")
    again = hw.load(tmp_path / "model").model
    mean = dict(again.named_buffers())["stack.norm.mean"]
    assert torch.equal(mean, dict(model.named_buffers())["stack.norm.mean"]) and bool(mean.abs().sum() > 0)
    torch.testing.assert_close(again(tokens), model(tokens), rtol=0, atol=0)
