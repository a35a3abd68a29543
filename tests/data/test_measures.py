"""Measures beside scikit-learn's and scipy's, and at their edges."""

import math

import numpy as np
import pytest

from headway.data.measures import accuracy, confusion, f1, macro_f1, precision, recall, spearman

metrics = pytest.importorskip("sklearn.metrics")
stats = pytest.importorskip("scipy.stats")
DRAW = np.random.default_rng(7)


@pytest.mark.parametrize("classes", [2, 5, 13])
def test_they_are_scikit_learns(classes: int) -> None:
    right = DRAW.integers(0, classes, 211)
    found = np.where(DRAW.random(211) < 0.6, right, DRAW.integers(0, classes, 211))
    table = confusion(right, found, classes=classes)
    assert np.array_equal(table, metrics.confusion_matrix(right, found, labels=range(classes)))
    assert accuracy(table) == pytest.approx(metrics.accuracy_score(right, found), abs=1e-12)
    theirs = metrics.precision_recall_fscore_support(right, found, labels=range(classes), zero_division=0)
    for ours, expected in zip((precision(table), recall(table), f1(table)), theirs, strict=False):
        np.testing.assert_allclose(ours, expected, atol=1e-12)
    assert macro_f1(table) == pytest.approx(metrics.f1_score(right, found, average="macro"), abs=1e-12)


def test_a_class_that_nobody_has_or_names_counts_for_nothing() -> None:
    """Class 2 is neither right nor given; class 1 is given once and never right, so it counts as 0."""
    right, found = np.array([0, 0, 0, 3]), np.array([0, 0, 1, 3])
    table = confusion(right, found, classes=4)
    assert f1(table).tolist() == pytest.approx([0.8, 0.0, 0.0, 1.0])
    assert macro_f1(table) == pytest.approx(metrics.f1_score(right, found, average="macro")) == pytest.approx(0.6)


@pytest.mark.parametrize("values", [97, 5])
def test_spearman_with_and_without_ties(values: int) -> None:
    first, second = (DRAW.integers(0, values, 83).astype(float) for _ in range(2))
    second += first
    assert spearman(first, second) == pytest.approx(stats.spearmanr(first, second).statistic, abs=1e-12)
    assert math.isnan(spearman(first, np.ones(83)))
