import pytest

from headway.bench.measure import Timing
from headway.bench.row import Row, Target, counted, timed, unmeasured

BLANK = Row("toy", "sum", "L5", "float32")
FIELDS = [
    "work", "model", "shape", "precision", "streams", "headway", "peers", "unit", "best_peer", "ratio_to_best", "limit",
    "share_of_limit", "spread",
]  # fmt: skip


def test_the_promised_fields_come_first_and_in_order():
    assert list(BLANK.as_json())[: len(FIELDS)] == FIELDS


def test_times_are_medians_in_milliseconds_and_the_best_peer_is_the_fastest():
    row = timed(
        BLANK,
        {
            "headway": Timing((0.002, 0.003, 0.009)),
            "slow": Timing((0.02, 0.02, 0.02)),
            "fast": Timing((0.004, 0.004, 0.006)),
        },
        limit_seconds=0.0012,
    )
    assert row.headway == pytest.approx(3.0)
    assert row.peers == pytest.approx({"slow": 20.0, "fast": 4.0})
    assert row.best_peer == "fast"
    assert row.ratio_to_best == pytest.approx(0.75)  # rounds 0.5 0.75 1.5
    assert row.limit == pytest.approx(1.2)
    assert row.share_of_limit == pytest.approx(0.4)
    assert row.spread == pytest.approx((1.125 - 0.625) / 0.75)


def test_of_rates_more_is_better():
    row = timed(
        Row("toy", "decode", "L5", "float32", unit="tokens/s"),
        {"headway": Timing((0.5, 0.5)), "slow": Timing((4.0, 4.0)), "fast": Timing((1.0, 1.0))},
        figure=lambda seconds: 7 / seconds,
        limit_seconds=0.25,
        target=Target("at least 1.8 x", at_least=1.8),
    )
    assert (row.headway, row.best_peer, row.ratio_to_best) == (14.0, "fast", 2.0)
    assert (row.limit, row.share_of_limit, row.verdict) == (28.0, 0.5, "met")


def test_a_row_without_peers_has_its_own_spread_and_no_ratio():
    row = timed(BLANK, {"headway": Timing((1.0, 2.0, 3.0))})
    assert (row.best_peer, row.ratio_to_best, row.share_of_limit, row.verdict) == (None, None, None, None)
    assert row.spread == pytest.approx(0.5)


def test_a_growth_row_has_itself_at_half_the_size_as_its_peer():
    target = Target("at most 2.3 x", at_most=2.3)
    row = timed(BLANK, {"headway": Timing((5.0, 5.0)), "half the length": Timing((2.0, 2.0))}, target=target)
    assert (row.ratio_to_best, row.verdict, row.target) == (2.5, "missed", "at most 2.3 x")


@pytest.mark.parametrize(
    ("value", "error", "verdict"),
    [(1.0, 0.02, "met"), (1.04, 0.02, "unclear"), (1.06, 0.02, "unclear"), (1.2, 0.02, "missed"), (1.04, None, "met")],
)
def test_a_target_within_the_error_is_unclear(value, error, verdict):
    assert Target("at most 1.05 x", at_most=1.05).verdict(value, error) == verdict


@pytest.mark.parametrize(("value", "verdict"), [(1.9, "missed"), (2.0, "met"), (7.0, "met")])
def test_a_lower_bound(value, verdict):
    assert Target("at least 2", at_least=2.0).verdict(value, 0.0) == verdict


def test_a_target_may_bound_the_figure_instead_of_the_ratio():
    row = counted(
        Row("toy", "sum", "L5", "float32", unit="MiB"),
        3.0,
        {"dense": 100.0},
        target=Target("at most 2 MiB", at_most=2.0, ratio=False),
    )
    assert (row.headway, row.ratio_to_best, row.spread, row.verdict) == (3.0, 0.03, None, "missed")


def test_nothing_over_nothing_has_no_ratio():
    assert counted(BLANK, 0.0, {"dense": 0.0}).ratio_to_best is None


def test_an_unmeasured_row_says_why_and_has_no_figures():
    row = unmeasured(
        Row("toy", "sum", "L5", "float32", note="first"), "a and b disagree", target=Target("at most 1 x", 1.0)
    )
    assert (row.headway, row.verdict, row.target) == (None, "not measured", "at most 1 x")
    assert row.note == "first; a and b disagree"
