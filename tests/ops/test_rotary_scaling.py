"""Stretched rotary positions: worked out by hand, by what they promise at their ends, and what is refused."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.config import AttentionConfig, Rotary
from headway.config.layers import LinearScaling, Llama3Scaling, Scaling, YarnScaling
from headway.nn.attention import Attention
from headway.ops.rotary import apply_rotary, rotary_amplitude, rotary_frequencies, rotary_table, slowed

LLAMA3 = Llama3Scaling(factor=8, low=1, high=4, length=8192)
YARN = YarnScaling(factor=4, length=4096)
SCALINGS: list[Scaling] = [LinearScaling(factor=3), LLAMA3.model_copy(update={"length": 31}), YARN]


def test_llama3_by_hand() -> None:
    # Head of 128, base 500,000: pair 0 turns 8192 / 2π = 1304 times, pair 63 less than once, pair 29 3.41 times.
    plain, found = rotary_frequencies(128, base=5e5), rotary_frequencies(128, base=5e5, scaling=LLAMA3)
    assert found[0] == plain[0] == 1
    assert found[63].item() == pytest.approx(plain[63].item() / 8, rel=1e-15)
    turns = 8192 * 5e5 ** (-58 / 128) / math.tau
    share = (turns - 1) / 3
    assert 0 < share < 1
    assert found[29].item() == pytest.approx(plain[29].item() * (share + (1 - share) / 8), rel=1e-14)


def test_yarn_by_hand() -> None:
    # Head of 128, base 10,000: 32 turns of 4096 at pair 20.9, one turn at pair 45.03; the ramp goes from 20 to 46.
    plain, found = rotary_frequencies(128), rotary_frequencies(128, scaling=YARN)
    assert torch.equal(found[:21], plain[:21])
    torch.testing.assert_close(found[46:], plain[46:] / 4, rtol=1e-15, atol=0)
    assert found[33].item() == pytest.approx(plain[33].item() * (13 / 26 + 13 / 26 / 4), rel=1e-14)


def test_yarn_between_pairs() -> None:
    (share,) = slowed(YarnScaling(factor=4, length=4096, whole=False), rotary_frequencies(128).tolist(), base=1e4)[
        33:34
    ]
    first, last = (64 * math.log(4096 / math.tau / turns) / math.log(1e4) for turns in (32, 1))
    assert share == pytest.approx((33 - first) / (last - first), rel=1e-12)


def test_a_ramp_of_no_length_is_a_step() -> None:
    scaling = YarnScaling(factor=4, length=1000, fast=3, slow=3, whole=False)
    assert set(slowed(scaling, rotary_frequencies(128).tolist(), base=1e4)) == {0.0, 1.0}


def test_amplitude() -> None:
    assert (
        rotary_amplitude(None) == rotary_amplitude(LLAMA3) == rotary_amplitude(YarnScaling(factor=0.5, length=7)) == 1
    )
    assert rotary_amplitude(YARN) == pytest.approx(0.1 * math.log(4) + 1)
    assert rotary_amplitude(YarnScaling(factor=4, length=7, attention=0.7)) == 0.7
    table, positions = rotary_table(torch.tensor([0, 3]), width=6, scaling=YARN, dtype=torch.float64), [0, 3]
    for row, position in enumerate(positions):
        length = (table.cos[row] ** 2 + table.sin[row] ** 2).sqrt()
        torch.testing.assert_close(length, torch.full_like(length, rotary_amplitude(YARN)), rtol=1e-14, atol=0)
        assert table.sin[row, 0].item() == pytest.approx(rotary_amplitude(YARN) * math.sin(position), abs=1e-15)


@given(
    st.sampled_from(["llama3", "yarn"]), st.floats(1, 64), st.integers(8, 10**6), st.sampled_from([4, 14, 64, 128]),
    st.floats(10, 1e6),
)  # fmt: skip
def test_pairs_are_slowed_between_not_at_all_and_by_the_factor(
    kind: str, factor: float, length: int, width: int, base: float
) -> None:
    made = {"factor": factor, "length": length}
    scaling = Llama3Scaling(**made, low=1, high=4) if kind == "llama3" else YarnScaling(**made)
    ratio = rotary_frequencies(width, base=base, scaling=scaling) / rotary_frequencies(width, base=base)
    assert ((ratio >= 1 / factor - 1e-12) & (ratio <= 1 + 1e-12)).all()
    assert (ratio.diff() <= 1e-12).all()  # slower pairs are slowed more


@pytest.mark.parametrize("scaling", SCALINGS)
def test_scores_depend_on_the_difference_of_positions(scaling: Scaling) -> None:
    draw = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 3, 5, 14, generator=draw, dtype=torch.float64) for _ in range(2))

    def scores(first: int) -> torch.Tensor:
        positions = torch.arange(first, first + 5)
        table = rotary_table(positions, width=14, base=100.0, scaling=scaling, dtype=torch.float64)
        return apply_rotary(q, table) @ apply_rotary(k, table).mT

    torch.testing.assert_close(scores(0), scores(1009), rtol=0, atol=1e-11)


@pytest.mark.parametrize("scaling", SCALINGS)
def test_a_layer_uses_its_scaling(scaling: Scaling) -> None:
    torch.manual_seed(0)
    config = AttentionConfig(width=28, heads=2, causal=True, rotary=Rotary(base=100.0, scaling=scaling))
    layer, x = Attention(config).double(), torch.randn(2, 5, 28, dtype=torch.float64)
    plain = Attention(config.model_copy(update={"rotary": Rotary(base=100.0)})).double()
    plain.load_state_dict(layer.state_dict())
    positions = torch.arange(5)[None] * 7
    assert (layer(x, positions=positions) - plain(x, positions=positions)).abs().max() > 1e-4
    assert AttentionConfig.model_validate_json(config.model_dump_json()) == config


def test_a_call_without_memory_leaves_nothing_behind() -> None:
    with torch.device("meta"):
        assert rotary_table(torch.zeros(5, dtype=torch.long), width=34, scaling=YARN).cos.is_meta
    assert rotary_frequencies(34, scaling=YARN).device.type == "cpu"


def test_refusals() -> None:
    with pytest.raises(ValueError, match=r"low 4.0 is not below high 4.0"):
        Llama3Scaling(factor=8, low=4, high=4, length=7)
    with pytest.raises(ValueError, match="factor"):
        LinearScaling(factor=0)
    with pytest.raises(ValueError, match=r"above 1, not 1.0"):
        rotary_frequencies(14, base=1.0, scaling=YARN)
