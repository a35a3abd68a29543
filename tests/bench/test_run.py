import math

import pytest
import torch

from headway.bench.agree import Disagreement
from headway.bench.machine import NOISY, MachineLimits, warnings
from headway.bench.measure import Timing
from headway.bench.row import Row, Target
from headway.bench.run import Bench

MACHINE = MachineLimits("toy processor", 1, {"float32": 1e9}, 1e8, Timing((1.0, 1.0)))
BLANK = Row("toy", "sum", "L5", "float32")
QUICK = {"budget": 0.0, "longest": 60.0, "least": 2, "warmup": 0}


def never():
    raise AssertionError("timed although it is wrong")


def test_wrong_contenders_are_not_timed_and_the_row_says_so():
    calls = []

    def wrong():
        calls.append(1)
        return torch.zeros(3)

    row = Bench(MACHINE).race(
        BLANK, {"torch": lambda: torch.ones(3), "headway": wrong}, target=Target("at most 1 x", 1.0)
    )
    assert len(calls) == 1  # for the comparison, never for the clock
    assert (row.headway, row.peers, row.verdict) == (None, {}, "not measured")
    assert "headway and torch disagree: largest deviation 1" in row.note


@pytest.mark.parametrize(
    "problem", [Disagreement("a and b disagree"), ValueError("no such mask"), NotImplementedError()]
)
def test_a_check_that_fails_keeps_the_clock_still(problem):
    def check():
        raise problem

    row = Bench(MACHINE).race(BLANK, {"headway": never}, check=check)
    assert row.headway is None
    assert type(problem).__name__ in row.note


def test_a_given_check_replaces_the_comparison():
    contenders = {"torch": lambda: torch.ones(3), "headway": lambda: torch.zeros(3)}
    row = Bench(MACHINE).race(BLANK, contenders, check=lambda: None, **QUICK)
    assert row.headway is not None
    assert row.best_peer == "torch"


def test_the_limit_is_the_larger_of_work_and_traffic():
    contenders = {"headway": lambda: torch.ones(3)}
    race = Bench(MACHINE).race
    assert race(BLANK, contenders, flops=3 * 10**6, bytes=10**5, **QUICK).limit == pytest.approx(3.0)  # ms: 3e6 / 1e9
    assert race(BLANK, contenders, flops=3 * 10**6, bytes=7 * 10**5, **QUICK).limit == pytest.approx(
        7.0
    )  # ms: 7e5 / 1e8
    assert race(BLANK, contenders, **QUICK).limit is None


def test_a_steady_machine_has_no_warning_and_an_unsteady_one_says_how_much():
    steady = Timing((1.0, 1.01, 1.02, 1.0))
    assert warnings(steady, steady) == []
    (drifted,) = warnings(steady, Timing(tuple(2 * value for value in steady.rounds)))
    assert "+100%" in drifted
    (noisy,) = warnings(Timing((0.7, 1.0, 1.0, 1.3, 1.6)), Timing((1.0,)))
    assert "30%" in noisy
    assert warnings(Timing((1.0,)), Timing((1.0 + NOISY / 2,))) == []


def test_the_progress_line():
    row = Row("toy", "sum", "L5", "float32", headway=1.25, best_peer="torch", ratio_to_best=0.5, verdict="met")
    assert row.summary() == "sum, L5, float32: 1.25 ms, 0.5 x torch (met)"
    assert "not measured, why" in Row("toy", "sum", "L5", "float32", note="why").summary()


def test_the_machine_is_measured():
    from headway.bench import machine

    rates = [machine.peak(torch.float32), machine.peak(torch.bfloat16), machine.bandwidth()]
    assert all(rate > 1e6 and math.isfinite(rate) for rate in rates)
    assert len(machine.reference().rounds) >= 15
    assert machine.processor()
