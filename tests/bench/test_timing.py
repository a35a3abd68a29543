import gc

import pytest

from headway.bench.measure import Timing, compare, orders, quiet


def test_every_round_times_every_contender_once_in_the_order_drawn():
    calls = []
    contenders = {name: (lambda name=name: calls.append(name)) for name in "abc"}
    compare(contenders, budget=0.0, longest=60.0, least=5, warmup=0, seed=3)
    drawn = orders(list("abc"), seed=3)
    assert calls == [name for _ in range(5) for name in next(drawn)]
    assert len({tuple(calls[start : start + 3]) for start in range(0, 15, 3)}) > 1  # not always the same order


def test_orders_are_fixed_by_the_seed():
    first, again, other = (orders(list("abcdefg"), seed=seed) for seed in (5, 5, 7))
    assert next(first) == next(again) != next(other)


def test_warm_up_is_not_in_the_rounds():
    calls = []
    timing = compare({"a": lambda: calls.append(1)}, budget=0.0, longest=60.0, least=3, warmup=0)["a"]
    assert (len(calls), len(timing.rounds)) == (3, 3)
    calls.clear()
    timing = compare({"a": lambda: calls.append(1)}, budget=0.0, longest=60.0, least=3, warmup=2)["a"]
    assert len(timing.rounds) == 3
    assert len(calls) > 5  # two of warm-up, and repeats inside each round since the call is far below a millisecond


def test_budget_zero_stops_at_the_least_and_a_large_one_at_the_most():
    assert len(compare({"a": lambda: None}, budget=0.0, longest=60.0, least=2, most=11, warmup=0)["a"].rounds) == 2
    assert len(compare({"a": lambda: None}, budget=60.0, least=2, most=11, warmup=0)["a"].rounds) == 11


def test_a_giant_is_timed_once_and_not_at_least_times():
    calls = []
    timing = compare({"a": lambda: calls.append(1)}, budget=0.0, longest=0.0, least=7, warmup=0)["a"]
    assert (len(calls), len(timing.rounds)) == (1, 1)


@pytest.mark.parametrize(("contenders", "least", "most"), [({}, 1, 2), ({"a": print}, 0, 2), ({"a": print}, 3, 2)])
def test_senseless_rounds_are_refused(contenders, least, most):
    with pytest.raises(ValueError, match="1 <= least <= most"):
        compare(contenders, least=least, most=most)


def test_spread_is_the_interquartile_range_over_the_median():
    timing = Timing((10.0, 12.0, 11.0, 19.0, 13.0))  # sorted 10 11 12 13 19: quartiles 11 and 13
    assert timing.median == 12.0
    assert timing.spread == pytest.approx(2 / 12)
    assert timing.error == pytest.approx(1.57 * (2 / 12) / 5**0.5)
    assert (Timing((3.0,)).spread, Timing((3.0,)).error) == (None, None)


def test_ratio_is_taken_round_by_round():
    ours, theirs = Timing((1.0, 20.0, 3.0)), Timing((2.0, 10.0, 6.0))
    assert ours.over(theirs).rounds == (0.5, 2.0, 0.5)
    assert ours.over(theirs).median == 0.5  # the ratio of medians would be 3/6 by luck; of means 24/18
    with pytest.raises(ValueError):
        ours.over(Timing((1.0,)))


def test_the_collector_is_off_while_timing_and_back_after():
    seen = []
    assert gc.isenabled()
    compare({"a": lambda: seen.append(gc.isenabled())}, budget=0.0, longest=60.0, least=1, warmup=0)
    assert seen == [False]
    assert gc.isenabled()
    with pytest.raises(KeyError), quiet():
        raise KeyError
    assert gc.isenabled()
