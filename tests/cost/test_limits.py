"""The bottleneck and where it changes: three points of a polynomial find what a search finds."""

from dataclasses import replace

import pytest

from headway.config import Frozen
from headway.cost.compose import price_tree
from headway.cost.limits import Limits, limits, times
from headway.cost.op_tree import lines
from headway.cost.resize import grain, resized
from headway.cost.setting import Setting
from headway.cost.time import FEEDFORWARD, PROJECTIONS, SCORES
from headway.presets import preset
from headway.presets.seeds import eecs_layer
from tests.cost.crossover import crossover
from tests.cost.tiny import MODELS
from tests.cost.toy_machine import toy_machine

FREE = ["gpt2", "llama", "linear", "local", "bert-words", "sentence", "t5", "bare"]


def priced(config: Frozen, length: int) -> Limits:
    setting = Setting(length=length)
    made = limits(tuple(lines(price_tree(config, setting))), config, setting)
    assert made is not None
    return made


@pytest.mark.parametrize("name", FREE)
def test_lengths_and_widths_are_those_that_a_search_finds(name: str) -> None:
    config, at, most = MODELS[name], Setting(length=11), 2**8
    made = priced(config, 11)
    length = crossover(lambda length: lines(price_tree(config, replace(at, length=length))), most=most)
    assert length == (made.overtakes if made.overtakes is None or made.overtakes <= most else None)
    width = crossover(
        lambda width: lines(price_tree(resized(config, "width", width), at)), rising=PROJECTIONS, falling=SCORES,
        step=grain(config), most=most,
    )  # fmt: skip
    assert width == made.width


def test_four_projections_are_overtaken_at_twice_the_width() -> None:
    """MISSION A4: n = 2 d."""
    made = priced(eecs_layer(width=34, heads=2), 128)
    assert (made.overtakes, made.dominates) == (68, 68)
    made = priced(preset("gpt2"), 1000)
    assert (made.overtakes, made.dominates, made.width) == (1536, 3072, 504)  # 500, in steps of 12
    assert (made.now.part, priced(preset("gpt2"), 7).now.part) == (FEEDFORWARD, FEEDFORWARD)


def test_shares_add_up_and_name_the_largest_first() -> None:
    shares = priced(preset("gpt2"), 1000).shares
    assert sum(shares.values()) == pytest.approx(1, abs=1e-12)
    assert list(shares.values()) == sorted(shares.values(), reverse=True)


def test_a_machine_gives_seconds_and_the_bound() -> None:
    config, setting = MODELS["llama"], Setting(batch=2, length=7)
    found, machine = tuple(lines(price_tree(config, setting))), toy_machine()
    made = limits(found, config, setting, machine)
    assert made is not None
    assert (made.now.by, made.now.bound in ("compute", "memory")) == ("seconds", True)
    seconds, why = times(config, found, setting, 7, machine)
    assert why == ""
    assert seconds is not None
    assert set(seconds.seconds) == {"forward", "step", "prefill", "decode"}
    assert len(seconds.operations) == len(found)
    assert times(config, found, setting, 7, None) == (None, "")
    assert "bfloat16" in times(config, found, replace(setting, dtype="bfloat16"), 7, machine)[1]


def test_channels_have_no_scores_that_grow_faster_than_their_projections() -> None:
    made = priced(preset("udl-channels"), 256)
    assert made.overtakes is None
