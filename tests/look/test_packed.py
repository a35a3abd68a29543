"""16 bits a number: how far a row may be from what it was packed from, and every rule that a row knows."""

import numpy as np
import pytest

from headway.look import packed

H, L, M, K = 3, 5, 11, 7
draw = np.random.default_rng(17)
q, k = draw.normal(size=(H, L, K)), draw.normal(size=(H, M, K))
may = draw.random((H, L, M)) > 0.3
may[1, 2] = False


def softmax(scores: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    powers = np.exp(scores) * allowed
    total = powers.sum(-1, keepdims=True)
    return np.divide(powers, total, out=np.zeros_like(powers), where=total > 0)


def rows(made: packed.Factors | packed.Weights, queries: int = L) -> np.ndarray:
    return np.stack([np.stack([made.row(head, row) for row in range(queries)]) for head in range(H)])


def close(found: np.ndarray, right: np.ndarray) -> None:
    assert np.abs(found - right).max() < 1e-4
    assert (found[right == 0] == 0).all()


def test_weights_keep_eleven_bits() -> None:
    right = softmax(q @ k.mT, may)
    found = rows(packed.weights(right))
    assert np.abs(found - right)[right > 1e-4].max() > 0  # something was rounded
    np.testing.assert_allclose(found[right > 1e-4], right[right > 1e-4], rtol=2**-11)


@pytest.mark.parametrize("per_head", [True, False])
def test_a_mask_is_kept_in_bits(per_head: bool) -> None:
    table = may if per_head else may[:1]
    close(rows(packed.factors(q, k, allowed=table)), softmax(q @ k.mT, table))


@pytest.mark.parametrize("first", [0, 2])
def test_causality_counts_from_the_first_of_all_rows(first: int) -> None:
    right = softmax(q @ k.mT, np.arange(M) <= np.arange(L)[:, None] + first)
    close(rows(packed.factors(q, k, causal=True, first=first)), right)


def test_a_bias_is_a_matter_of_distance() -> None:
    table = draw.normal(size=(H, L + M - 1))
    dense = np.stack([[table[h, L - 1 - i : L - 1 - i + M] for i in range(L)] for h in range(H)])
    assert dense[1, 2, 4] == dense[1, 3, 5]
    close(rows(packed.factors(q, k, bias=table)), softmax(q @ k.mT + dense, np.True_))


def test_under_a_cap_the_keys_stay_as_they_are() -> None:
    moved = k + 3.0  # which a softmax alone would not see
    close(rows(packed.factors(q, moved, softcap=2.0)), softmax(2 * np.tanh(q @ moved.mT / 2), np.True_))


def test_large_entries_are_finer_than_in_half_precision() -> None:
    """Queries and keys as large as those of trained models, with one channel that all keys share."""
    large, keys = 4 * draw.normal(size=(1, 29, 64)), 4 * draw.normal(size=(1, 31, 64))
    keys[..., 5] += 60.0
    right = softmax((scores := large @ keys.mT / 8) - scores.max(-1, keepdims=True), np.True_)
    made = packed.factors(large / 8, keys)
    ours = np.abs(np.stack([made.row(0, row) for row in range(29)]) - right[0]).max()
    rough = large.astype(np.float16).astype(float) @ keys.astype(np.float16).astype(float).mT / 8
    halves = np.abs(softmax(rough - rough.max(-1, keepdims=True), np.True_) - right).max()
    assert ours < 1e-3 and ours < halves / 10


def test_nothing_but_zeros_is_no_division() -> None:
    made = packed.factors(np.zeros((1, 2, 3)), np.zeros((1, 5, 3)))
    assert made.row(0, 1).tolist() == [0.2] * 5
