"""A mask counts its pairs exactly, and in memory that grows with L + M."""

from random import Random

import pytest
import sympy
import torch
from hypothesis import given

from headway.bench.measure import peak_memory
from headway.ops.mask import Mask, causal, dilated, everything, padding, segments, selected, tiles, window
from headway.ops.mask.count import count_pairs, formula
from headway.ops.mask.pairs import Pairs
from tests.ops.mask.brute import BATCH, HEADS, LEAVES, case, cases, leaf, positions, tabulate


@given(cases)
def test_count_is_the_sum_of_the_table(drawn: tuple[int, str]) -> None:
    mask, truth, where = case(drawn)
    assert mask.count(*where.given, batch=BATCH, heads=HEADS) == int(tabulate(truth, where).sum())


@pytest.mark.parametrize("name", LEAVES)
def test_every_mask_counts_itself(name: str) -> None:
    for seed, kind in enumerate(("counted", "rising rows", "unsorted")):
        mask, truth = leaf(name, Random(seed))
        where = positions(kind, Random(seed))
        assert mask.count(*where.given, batch=BATCH, heads=HEADS) == int(tabulate(truth, where).sum())


def test_a_mask_that_treats_all_rows_alike_is_counted_for_each() -> None:
    assert causal().count(5) == 15
    assert causal().count(5, batch=3, heads=7) == 15 * 21
    assert padding(lengths=[2, 5], total=5).count(3, 5, batch=2, heads=7) == (2 + 5) * 3 * 7


MILLION = 10**6


@pytest.mark.parametrize(
    ("mask", "expected"),
    [
        (everything(), MILLION**2),
        (causal(), MILLION * (MILLION + 1) // 2),
        (causal() & window(256), 256 * MILLION - 256 * 255 // 2),
        (window(256), 2 * (256 * MILLION - 256 * 255 // 2) - MILLION),
        (tiles(1000), 1000 * MILLION),
        (causal() & padding(lengths=[1000], total=MILLION), 1000 * 1001 // 2 + 1000 * (MILLION - 1000)),
        (padding(lengths=[1000], total=MILLION, side="left"), 1000 * MILLION),
        (segments(torch.arange(MILLION) // 1000) & causal(), 1000 * 1000 * 1001 // 2),
    ],
    ids=["everything", "causal", "causal window", "window", "tiles", "causal padding", "left padding", "segments"],
)  # fmt: skip
def test_closed_forms_at_a_million(mask: Mask, expected: int) -> None:
    # A loop over rows of the table would need 10¹² comparisons: finishing at all is the proof of the closed form.
    assert mask.count(MILLION) == expected


@pytest.mark.parametrize(
    ("mask", "length"),
    [
        (causal() & window(300) & padding(lengths=[15000], total=20000), 20000),
        (causal() & window(100) | selected([7, 4000]), 6000),
        (~dilated(5, dilation=3) & causal() & padding(lengths=[4001], total=6000, side="left"), 6000),
    ],
    ids=["ranges", "selected", "complement"],
)
def test_counting_needs_no_table(mask: Mask, length: int) -> None:
    memory = peak_memory(lambda: mask.count(length))
    # A table of bytes would take length² of them; ranges and a few rows at a time take some hundred bytes a position.
    assert memory.peak < 600 * length < length * length / 9


def test_the_count_that_needed_no_table_is_right() -> None:
    mask = causal() & window(100) | selected([7, 400])
    assert mask.count(600) == int(mask.table(600).sum())
    mask = ~dilated(5, dilation=3) & causal() & padding(lengths=[401], total=600, side="left")
    assert mask.count(600) == int(mask.table(600).sum())


def test_formulas_are_counts() -> None:
    length = sympy.Symbol("L", positive=True, integer=True)
    for mask in (everything(), causal(), window(3), causal() & window(3), causal() & everything()):
        polynomial = sympy.expand(formula(mask, length, length))
        for size in (3, 5, 11, 31):
            assert float(polynomial.subs(length, size)) == mask.count(size), mask


def test_formulas_have_whole_coefficients() -> None:
    length = sympy.Symbol("L", positive=True, integer=True)
    assert sympy.expand(formula(causal() & window(3), length, length)) == 3 * length - 3
    assert sympy.expand(formula(window(3), length, length)) == 5 * length - 6


@pytest.mark.parametrize("mask", [dilated(2, dilation=3), tiles(2), selected([1]), window(2, grid=(2, 3)), ~causal()])
def test_a_mask_without_a_formula_says_so(mask: Mask) -> None:
    length = sympy.Symbol("L")
    with pytest.raises(ValueError, match="give sizes as whole numbers"):
        formula(mask, length, length)


def test_symbols_of_two_lengths_have_no_causal_formula() -> None:
    queries, keys = sympy.symbols("L M")
    assert formula(everything(), queries, keys) == queries * keys
    with pytest.raises(ValueError, match="positions"):
        formula(causal(), queries, keys)


def test_a_batch_that_positions_do_not_fit_is_refused() -> None:
    with pytest.raises(ValueError, match="3"):
        count_pairs(causal(), Pairs.of(torch.arange(5).expand(2, 5)), 3)
