"""The work of embedding: real sentences, and operations counted by hand."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.bench import embed
from headway.bench.machine import MachineLimits
from headway.bench.measure import Timing
from headway.bench.row import Row
from headway.bench.run import Bench
from headway.presets.bert import bert
from tests.fresh import fresh

MACHINE = MachineLimits("toy", 1, {"float32": 1e12, "bfloat16": 1e12}, 1e12, Timing((1.0, 1.0)))


def test_sentences_are_real_and_of_mixed_length() -> None:
    found = embed.sentences(101)
    assert len(found) == 101 and len(set(found)) > 90
    lengths = sorted(len(text.split()) for text in found)
    assert lengths[9] < 5 < 30 < lengths[-9]
    assert found == embed.sentences(101)


def test_more_sentences_than_there_are_begin_again() -> None:
    found = embed.sentences(10_000)
    assert len(found) == 10_000 and len(set(found)) > 3000


def test_work_is_that_of_the_products() -> None:
    """torch counts the linear maps, and no attention on a CPU; that part is by hand."""
    config, lengths = bert(width=12, heads=3, layers=2, hidden=20, vocabulary=7, length=7, pooler=False), [5, 7]
    model = fresh(config)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for length in lengths:
            model.hidden_states(torch.zeros(1, length, dtype=torch.long))
    pairs = 25 + 49
    # A product of few rows may be cut up, and is counted by another name.
    assert embed.flops(config, lengths) == counter.get_total_flops() + 2 * 2 * pairs * 2 * 12


def test_a_race_may_count_in_another_unit() -> None:
    blank = replace(Row("toy", "sum", "L5", "float32"), unit="texts/s")
    row = Bench(MACHINE).race(
        blank, {"headway": lambda: torch.ones(3)}, figure=lambda seconds: 7 / seconds, flops=10**12,
        budget=0.0, longest=9.0, least=2, warmup=0,
    )  # fmt: skip
    assert row.limit == pytest.approx(7.0)
    assert row.headway is not None and row.share_of_limit == pytest.approx(row.headway / 7)
