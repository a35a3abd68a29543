"""Editing a configuration: one way, which validates, and derived sizes that follow."""

from typing import Any

import pytest

import headway as hw
from headway.config import AttentionConfig


def test_derived_sizes_follow() -> None:
    layer = AttentionConfig(width=24, heads=4)
    for other in (layer.replace(width=36), layer.model_copy(update={"width": 36})):
        assert (other.head_width, other.value_width, other.source_width, other.output_width) == (9, 9, 36, 36)
    assert layer.replace(heads=8).kv_heads == 8
    assert AttentionConfig(**layer.model_dump() | {"heads": 8}).kv_heads == 8
    assert layer.replace(kv_heads=2).replace(heads=8).kv_heads == 2


def test_paths_and_words() -> None:
    config: Any = hw.preset("gpt2").replace("stack.block.attention", mechanism="linear")
    assert config.stack.block.attention.mechanism.kind == "linear" and config.stack.layers == 12
    assert config == hw.preset("gpt2").replace("stack.block", attention={
        **config.stack.block.attention.model_dump(), "mechanism": {"kind": "linear"},
    })  # fmt: skip


@pytest.mark.parametrize(
    ("path", "change", "sentence"),
    [
        ("", {"layesr": 3}, "layesr"),
        ("stack.blok", {"norm": "rms"}, "blok"),
        ("stack.block.attention", {"heads": 5}, "5"),
        ("stack.block.attention", {"mechanism": "liner"}, "did you mean linear"),
        ("stack", {"layers": -1}, "layers"),
    ],
)
def test_what_cannot_be_is_refused(path: str, change: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        hw.preset("gpt2").replace(path, **change)
    if not path:
        with pytest.raises(ValueError, match=sentence):
            hw.preset("gpt2").model_copy(update=change)


def test_residual_branches_of_a_gpt2_start_smaller() -> None:
    """Radford et al. 2019, 2.3: the last map of each branch by 1/√(2 · layers)."""
    model: Any = hw.build("gpt2", layers=8, width=96, heads=4, vocabulary=31, length=17)
    block = model.stack.blocks[3]
    for last, first in ((block.attention.out, block.attention.qkv), (block.feedforward.down, block.feedforward.up)):
        assert float(last.weight.std() / first.weight.std()) == pytest.approx(0.25, rel=0.05)
    assert not hw.preset("llama3.2-1b").stack.scaled_init  # type: ignore[attr-defined]
