"""The learning rate over time."""

from itertools import pairwise

import pytest

from headway.config.train import ScheduleConfig
from headway.training.optim import factor_at


def curve(steps: int, **options: object) -> list[float]:
    config = ScheduleConfig.model_validate(options)
    return [factor_at(config, step, steps) for step in range(steps)]


@pytest.mark.parametrize("kind", ["cosine", "wsd"])
def test_it_rises_to_one_and_ends_at_the_floor(kind: str) -> None:
    found = curve(101, kind=kind, warmup=7, floor=0.1, fall=0.3)
    assert found[:7] == pytest.approx([(step + 1) / 7 for step in range(7)])
    assert max(found) == 1.0 and found[-1] == pytest.approx(0.1)
    assert all(later <= earlier for earlier, later in pairwise(found[6:]))


def test_the_cosine_is_half_way_in_the_middle() -> None:
    assert curve(111, warmup=10, floor=0.2)[60] == pytest.approx(0.6)


def test_wsd_stays_and_then_falls_in_a_line() -> None:
    found = curve(100, kind="wsd", warmup=5, floor=0.0, fall=0.2)
    assert found[4:80] == [1.0] * 76
    assert found[80:] == pytest.approx([1 - (step + 1) / 20 for step in range(20)])


def test_constant_stays() -> None:
    assert curve(9, kind="constant", warmup=3) == pytest.approx([1 / 3, 2 / 3] + [1.0] * 7)


@pytest.mark.parametrize("kind", ["cosine", "wsd", "constant"])
@pytest.mark.parametrize(
    ("steps", "warmup", "fall"), [(1, 0, 0.2), (1, 100, 0.2), (3, 3, 0.9), (2, 1, 0.0), (5, 0, 0.99)]
)
def test_short_runs_have_a_rate_too(kind: str, steps: int, warmup: int, fall: float) -> None:
    found = curve(steps, kind=kind, warmup=warmup, fall=fall)
    assert all(0 < factor <= 1 for factor in found)
