"""Parallel depth: numbers worked out by hand, and the formula against a trace of the real graph."""

from typing import Any

import jaxtyping
import pytest
import sympy

from headway.config import AttentionConfig
from headway.config.base import sides
from headway.config.vision import DaViTConfig, VisionConfig
from headway.cost.compose import price_tree
from headway.cost.compose.layers import attention_part
from headway.cost.op_tree import depth
from headway.cost.reference_path import reference_path
from headway.cost.setting import Setting
from headway.cost.trace import trace
from headway.cost.verify import real_inputs
from headway.presets import preset
from headway.steps import COUNTINGS, SERIAL, SUMS, TREE, levels
from tests.cost.tiny import MODELS
from tests.fresh import fresh

# Lengths that no width of the small models has, so that an axis tells whether it counts positions. One row: where rows
# of several texts are added up together, a trace cannot tell how many belong to each.
SETTING = Setting(batch=1, length=23, source=29)
SHORT = Setting(batch=1, length=3, source=7)  # for what goes step by step


def test_one_layer_worked_out_by_hand() -> None:
    """D = 512 (9 levels), K = 32 (5), M = 1,024 (10): sums alone 9 + 5 + 2 · 10, and 10 more for the maximum."""
    tree = price_tree(preset("ttic-layer"), Setting(length=1024))
    assert depth(tree, SUMS) == 9 + 5 + 3 * 10
    # Map 1 + 9, score 1 + 5, maximum 10, subtract and exp 2, sum 10, divide 1, weighted sum 1 + 10.
    assert depth(tree, TREE) == 10 + 6 + 10 + 2 + 10 + 1 + 11
    # Map 512, score 32: one multiplication and one addition less than terms; sums over positions stay trees.
    assert depth(tree, SERIAL) == 512 + 32 + 10 + 2 + 10 + 1 + 11


def test_the_depth_is_a_formula_where_sizes_are_symbols(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)  # properties promise whole numbers
    width, length, keys = sympy.symbols("D L K", integer=True, positive=True)
    config = AttentionConfig(width=8, heads=1, project=False, scale=1.0)
    lettered = config.unchecked(width=width, head_width=keys, value_width=keys, source_width=width)
    part = attention_part(lettered, Setting(length=length))
    tree = sympy.ceiling(sympy.log(width, 2)) + sympy.ceiling(sympy.log(keys, 2)) + 3 * levels(length)
    assert sympy.simplify(depth(part, SUMS) - tree) == 0


def test_a_recurrence_is_as_deep_as_it_is_long() -> None:
    config = preset("rnnsearch")
    short, long, longer = (depth(price_tree(config, Setting(length=length, source=7)), TREE) for length in (10, 20, 30))
    assert longer - long == long - short > 10 * 10
    # Twice as long, one level more for each of three sums; the decoder's first attention waits for nobody.
    t5 = [depth(price_tree(preset("t5-small"), Setting(length=length)), TREE) for length in (64, 128)]
    assert t5[1] - t5[0] == 3 * (6 + 6 + 6 - 1)


def positions(config: Any) -> set[int]:
    """The sizes of axes that count positions."""
    if isinstance(config, VisionConfig):
        return {config.length, config.length - config.extra}
    if isinstance(config, DaViTConfig):
        padded = [config.padded(stage) for stage in range(len(config.depths))]
        return {y * x for y, x in (*config.grids, *padded, sides(config.window))}
    return {3, 7, 23, 29}


@pytest.mark.parametrize("name", MODELS)
def test_the_formula_is_the_depth_of_the_traced_graph(name: str) -> None:
    config = MODELS[name]
    model, setting = fresh(config), SHORT if config.kind_or_name() == "recurrent" else SETTING
    with reference_path(model):
        found = trace(model, *real_inputs(config, setting), device="cpu", memory=False, lengths=positions(config))
    tree = price_tree(config, setting)
    assert found.depth == {way: depth(tree, counting) for way, counting in COUNTINGS.items()}
