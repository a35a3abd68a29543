"""Sizes and costs are plain arithmetic, on whole numbers and on symbols."""

import dataclasses

import pytest
import sympy

from headway.sizes import Cost, Sizes


def test_scores_are_batch_heads_queries_keys() -> None:
    sizes = Sizes(batch=2, heads=3, kv_heads=1, queries=5, keys=7, key_width=11, value_width=13)
    assert sizes.scores == 2 * 3 * 5 * 7
    assert sizes.whole


def test_symbols_stay_symbols() -> None:
    length = sympy.Symbol("L")
    sizes = Sizes(batch=2, heads=3, kv_heads=1, queries=length, keys=length, key_width=11, value_width=13)
    assert sizes.scores == 6 * length**2
    assert not sizes.whole


def test_costs_add_up() -> None:
    one, other = Cost(dense=11, useful=7, executed=13, other=2), Cost(dense=5, useful=3, executed=5, other=1)
    assert one + other == Cost(dense=16, useful=10, executed=18, other=3)
    assert (one + other).flops == 32
    assert (one + other).useful_flops == 20


def test_what_was_not_executed_has_no_sum() -> None:
    known, unknown = Cost(1, 1, 1, 0), Cost(1, 1, None, 0)
    assert (known + unknown).executed is None
    assert (unknown + known).executed is None


def test_symbolic_costs_add_up_to_a_polynomial() -> None:
    n = sympy.Symbol("N")
    total = Cost(n**2, n, None, 6 * n) + Cost(3 * n, n, None, 0)
    assert (total.dense, total.useful, total.other, total.flops) == (n**2 + 3 * n, 2 * n, 6 * n, 2 * (n**2 + 3 * n))


def test_sizes_do_not_change() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Cost(1, 1, 1, 0).dense = 2  # type: ignore[misc]
