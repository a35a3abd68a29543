"""Each epoch is a permutation, and it does not matter who asks for which part of the order."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headway.data.loader import Order, keys_of


def epochs(order: Order, number: int) -> np.ndarray:
    return order.rows(0, number * order.count)[0].reshape(number, order.count)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 4095, 4096, 4097, 10007])
def test_each_epoch_is_a_permutation(count: int) -> None:
    for epoch in epochs(Order(count, seed=7), 3):
        assert np.array_equal(np.sort(epoch), np.arange(count))


@given(st.integers(1, 97), st.integers(0, 2**70), st.integers(1, 11), st.integers(1, 37), st.booleans())
def test_each_epoch_is_a_permutation_with_sizes_too(count: int, seed: int, batch: int, pool: int, alike: bool) -> None:
    sizes = np.arange(count) % 5 if alike else None
    for epoch in epochs(Order(count, seed=seed, sizes=sizes, batch=batch, pool=pool), 5):
        assert sorted(epoch) == list(range(count))


@given(st.integers(1, 97), st.lists(st.integers(0, 400), min_size=2, max_size=8), st.booleans())
def test_pieces_join_to_the_whole(count: int, cuts: list[int], alike: bool) -> None:
    sizes = np.arange(count) % 7 if alike else None
    cuts = sorted(cuts)
    whole = Order(count, seed=3, sizes=sizes, batch=4, pool=16).rows(cuts[0], cuts[-1])
    parts = [Order(count, seed=3, sizes=sizes, batch=4, pool=16).rows(a, b) for a, b in pairwise(cuts)]
    for one, joined in zip(whole, zip(*parts, strict=True), strict=True):
        assert np.array_equal(one, np.concatenate(joined))


def test_processes_share_the_batch_of_one() -> None:
    order, batch, processes = Order(101, seed=5, batch=12), 12, 3
    for step in range(20):
        first, share = step * batch, batch // processes
        mine = [order.rows(first + share * rank, first + share * (rank + 1)) for rank in range(processes)]
        rows, keys = order.rows(first, first + batch)
        assert np.array_equal(np.concatenate([row for row, _ in mine]), rows)
        assert np.array_equal(np.concatenate([key for _, key in mine]), keys)


def test_epochs_and_seeds_differ() -> None:
    one, two = epochs(Order(1009, seed=1), 2)
    other = epochs(Order(1009, seed=2), 1)[0]
    for first, second in ((one, two), (one, other), (two, other)):
        assert (first == second).sum() < 12  # one is expected to be in its place by chance


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_few_examples_come_in_every_order_about_equally_often(count: int) -> None:
    """χ² below the value that chance exceeds once in a million; a network that only flips a bit would fail."""
    found = epochs(Order(count, seed=11), 24000)
    seen, times = np.unique(found, axis=0, return_counts=True)
    orders = int(np.prod(np.arange(1, count + 1)))
    assert len(seen) == orders
    expected = len(found) / orders
    assert ((times - expected) ** 2 / expected).sum() < orders + 5 * np.sqrt(2 * orders) + 12


def test_an_example_is_at_every_place_equally_often() -> None:
    found = epochs(Order(101, seed=2), 2000)
    times = np.stack([np.bincount(column, minlength=101) for column in found.T])
    expected = 2000 / 101
    freedom = 100 * 100
    assert abs(((times - expected) ** 2 / expected).sum() - freedom) < 6 * np.sqrt(2 * freedom)


def test_keys_are_distinct_and_positive() -> None:
    keys = keys_of(3, np.arange(200003))
    assert keys.dtype == np.int64 and keys.min() >= 0
    assert len(np.unique(keys)) == len(keys)
    assert not np.intersect1d(keys, keys_of(4, np.arange(200003))).size
    assert abs((keys % 2).mean() - 0.5) < 0.01 and abs((keys >> 62).mean() - 0.5) < 0.01


def test_similar_sizes_share_a_batch_and_batches_are_in_no_order() -> None:
    sizes = np.random.default_rng(0).integers(1, 1000, 4099)
    plain, alike = Order(4099, seed=3, batch=16), Order(4099, seed=3, sizes=sizes, batch=16, pool=1024)

    def batches(order: Order) -> np.ndarray:
        return sizes[order.rows(0, 4096)[0]].reshape(-1, 16)

    assert np.ptp(batches(plain), axis=1).mean() > 800
    assert np.ptp(batches(alike), axis=1).mean() < 30
    means = batches(alike).mean(axis=1)
    assert abs(np.corrcoef(means[1:], means[:-1])[0, 1]) < 0.2


def test_far_positions_and_many_examples_cost_no_memory() -> None:
    count = 2**40 + 15
    rows, keys = Order(count, seed=1).rows(7 * count - 3, 7 * count + 4)
    assert len(set(rows.tolist())) == 7 and rows.max() < count and len(keys) == 7


def test_refusals() -> None:
    with pytest.raises(ValueError, match="at least one example, not 0"):
        Order(0, seed=1)
    with pytest.raises(ValueError, match="3 sizes were given for 5 examples"):
        Order(5, seed=1, sizes=np.arange(3))
