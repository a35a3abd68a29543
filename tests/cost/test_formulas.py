"""Prices as polynomials: symbols in, the textbooks' formulas out; and numbers in, the same value."""

from typing import Any

import jaxtyping
import pytest
import sympy

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig, Linear, Local, StackConfig
from headway.config.layers import VectorsConfig
from headway.cost.compose import price_tree
from headway.cost.compose.layers import attention_part
from headway.cost.op_tree import backward, forward, lines, parameters
from headway.cost.setting import Setting
from headway.cost.sheet import generated, phases
from headway.presets import preset
from headway.sizes import Cost
from tests.cost.tiny import MODELS, language

B, C, D, H, N, h, K, L = sympy.symbols("B C D H N h K L", integer=True, positive=True)


@pytest.fixture(autouse=True)
def _letters(monkeypatch: pytest.MonkeyPatch) -> None:
    """Properties of configurations promise whole numbers: in letters they are used as a user would, unchecked."""
    monkeypatch.setattr(jaxtyping.config, "jaxtyping_disable", True)


def lettered(**more: Any) -> AttentionConfig:
    """One head (or H of D / H each) of the width D, without output projection."""
    plain = AttentionConfig(width=8, heads=1, project=False, scale=1.0)
    sizes = {"width": D, "source_width": D, "head_width": D, "value_width": D, "output_width": D} | more
    return plain.unchecked(**sizes)


def test_the_bare_block() -> None:
    """n (3 C d² + 2 C² d + 2 C d h) multiply-adds for n samples of C vectors of d features and h hidden ones."""
    block = BlockConfig(
        attention=AttentionConfig(width=8, project=False, scale=1.0),
        feedforward=FeedForwardConfig(hidden=9, activation="relu"),
        order="none",
        residual=False,
    )
    wide = block.unchecked(attention=lettered(), feedforward=FeedForwardConfig(hidden=9).unchecked(hidden=h))
    config = VectorsConfig(stack=StackConfig(block=block, layers=1))
    config = config.unchecked(stack=config.stack.unchecked(block=wide))
    found = forward(price_tree(config, Setting(batch=B, length=C))).dense
    assert sympy.expand(found - B * (3 * C * D**2 + 2 * C**2 * D + 2 * C * D * h)) == 0


def test_weights_and_biases_of_one_layer() -> None:
    """3 D² weights and 3 D biases; N² attention weights for each head."""
    part = attention_part(lettered(bias=True), Setting(length=N))
    assert sympy.expand(parameters(part) - 3 * D**2 - 3 * D) == 0
    core = next(line.operation for line in lines(part) if line.path.endswith("core"))
    assert core.shape == (1, N, D, N)


def test_heads_of_a_share_of_the_width_cost_what_one_wide_head_costs() -> None:
    """H heads of D / H: the same 3 D² weights and the same products; only the scores grow, to H N²."""
    heads = lettered(heads=H, kv_heads=H, head_width=D / H, value_width=D / H)
    many, one = (attention_part(config, Setting(length=N)) for config in (heads, lettered()))
    assert sympy.expand(parameters(many) - 3 * D**2) == sympy.expand(parameters(one) - 3 * D**2) == 0
    assert sympy.expand(forward(many).dense - forward(one).dense) == 0
    assert sympy.expand(forward(many).other - H * forward(one).other) == 0


def test_the_bottleneck_of_four_projections_changes_at_twice_the_width() -> None:
    """4 N D² against 2 N² D: equal where N = 2 D."""
    part = attention_part(lettered(project=True), Setting(length=N))
    core = next(line.operation.forward.dense for line in lines(part) if line.path.endswith("core"))
    projections = forward(part).dense - core
    assert sympy.solve(sympy.Eq(projections, core), N) == [2 * D]


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert-words", "linear", "bare"])
def test_a_polynomial_has_the_value_of_the_numbers(name: str) -> None:
    config = MODELS[name]
    symbols = price_tree(config, Setting(batch=B, length=L))
    numbers = price_tree(config, Setting(batch=3, length=11))
    for letters, whole in ((forward(symbols), forward(numbers)), (backward(symbols), backward(numbers))):
        for part in ("dense", "useful", "other"):
            assert getattr(letters, part).subs({B: 3, L: 11}) == getattr(whole, part)
    assert sympy.Poly(forward(symbols).dense, L).degree() == (1 if name == "linear" else 2)


def test_published_lengths() -> None:
    found = sympy.Poly(2 * forward(price_tree(preset("gpt2"), Setting(length=L))).dense, L)
    assert found.eval(1024) == 291_648_307_200
    # 12 layers of 2 · 2 · 768 L² for scores and weighted sums; 2 (12 · 12 · 768² + 768 · 50,257) for each token.
    assert found.all_coeffs() == [36_864, 2 * (12 * 12 * 768**2 + 768 * 50_257), 0]


def test_phases() -> None:
    config, setting = MODELS["gpt2"], Setting(batch=2, length=9)
    found = phases(config, setting, new=4)
    assert found["backward"].dense == 2 * found["forward"].dense
    assert found["step"].dense == 3 * found["forward"].dense
    # The prompt asks the head at its last place alone.
    assert found["forward"].dense - found["prefill"].dense == 2 * (9 - 1) * 15 * 13
    decoded = [phases(config, Setting(batch=2, length=9, past=past))["decode"].dense for past in (9, 10, 11)]
    assert decoded[1] - decoded[0] == 2 * 2 * 3 * (5 + 5)  # two layers, three heads, one key more for each row
    assert found["generate"].dense == found["prefill"].dense + sum(decoded)


def test_a_window_and_a_running_total_stop_growing() -> None:
    for mechanism, rotary in ((Local(window=3), None), (Linear(), None)):
        config = language(mechanism, rotary=rotary)
        costs = [phases(config, Setting(length=20, past=past))["decode"].dense for past in (5, 6, 40)]
        assert costs[0] == costs[1] == costs[2]


def test_a_series_is_the_sum_of_its_steps() -> None:
    def even(past: int) -> Cost:
        return Cost(3 * past + 1, past, past + 5, 7)

    def uneven(past: int) -> Cost:
        return Cost(min(past, 30), past, past, past)

    for decode in (even, uneven):
        steps = [decode(past) for past in range(10, 110)]
        assert generated(decode, 10, 101).dense == sum(step.dense for step in steps)
        assert generated(decode, 10, 101).other == sum(step.other for step in steps)
