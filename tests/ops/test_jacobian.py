"""The softmax Jacobian against exact arithmetic, against autograd, and at its edges."""

import math
from decimal import Decimal, getcontext

import pytest
import torch
from torch import Tensor

from headway.ops.jacobian import LARGEST_NORM, jacobian_norm, softmax_jacobian, uniform_norm

SEED = (-3.0, 1.0, 100.0, 5.0, -1.0)
MILD = (0.3, -1.1, 0.0, 2.0, 0.7)
WIDE = (700.0, -700.0, 12.0, 699.5, 0.25, -3.0)
TIED = (50.0, 50.0, -40.0)


def exact(z: tuple[float, ...]) -> list[list[Decimal]]:
    """diag(a) − a aᵀ with 2,000 digits: there the subtraction may cancel."""
    getcontext().prec = 2000
    powers = [Decimal(one).exp() for one in z]
    a = [one / sum(powers) for one in powers]
    return [[(x if i == j else 0) - x * y for j, y in enumerate(a)] for i, x in enumerate(a)]


def exact_norm(z: tuple[float, ...]) -> Decimal:
    return sum((entry * entry for row in exact(z) for entry in row), Decimal(0)).sqrt()


def error(found: float, true: Decimal) -> float:
    return float(abs(Decimal(found) - true) / abs(true))


@pytest.mark.parametrize("z", [SEED, MILD, WIDE, TIED])
def test_every_entry_is_exact_to_its_own_size(z: tuple[float, ...]) -> None:
    found = softmax_jacobian(torch.tensor(z, dtype=torch.float64))
    for i, row in enumerate(exact(z)):
        for j, true in enumerate(row):
            if abs(true) > Decimal("1e-300"):  # below, float64 has few digits or none
                assert error(found[i, j].item(), true) < 1e-12


def test_the_entry_that_the_plain_formula_loses() -> None:
    z = torch.tensor(SEED, dtype=torch.float64)
    a = z.softmax(-1)
    assert (torch.diag(a) - torch.outer(a, a))[2, 2].item() == 0
    assert softmax_jacobian(z)[2, 2].item() == pytest.approx(5.63774e-42, rel=1e-5)


def test_float32_is_computed_wide_and_comes_back_as_asked() -> None:
    z = torch.tensor(SEED)
    narrow, wide = softmax_jacobian(z), softmax_jacobian(z, dtype=torch.float64)
    assert narrow.dtype == torch.float32 and wide.dtype == torch.float64
    assert wide[2, 2].item() == pytest.approx(5.63774e-42, rel=1e-5)
    assert narrow[2, 2].item() == pytest.approx(5.63774e-42, rel=1e-3)  # a subnormal number


def by_autograd(z: Tensor) -> Tensor:
    return torch.autograd.functional.jacobian(lambda x: x.softmax(-1), z)  # type: ignore[return-value]


def test_autograd_agrees_where_it_is_mild() -> None:
    z = torch.randn(7, dtype=torch.float64)
    torch.testing.assert_close(softmax_jacobian(z), by_autograd(z), rtol=1e-12, atol=1e-14)


def test_any_axis_and_batch() -> None:
    z = torch.randn(2, 5, 3, dtype=torch.float64)
    found = softmax_jacobian(z, dim=1)
    assert found.shape == (2, 3, 5, 5)
    torch.testing.assert_close(found[1, 2], by_autograd(z[1, :, 2]))
    torch.testing.assert_close(jacobian_norm(z, dim=1), torch.linalg.matrix_norm(found))


def test_hidden_keys_are_zeros_and_the_rest_is_as_without_them() -> None:
    hidden = torch.tensor([0.5, -torch.inf, 1.5, -torch.inf])
    found = softmax_jacobian(hidden)
    assert (found[1] == 0).all() and (found[:, 3] == 0).all()
    torch.testing.assert_close(found[[0, 2]][:, [0, 2]], softmax_jacobian(hidden[[0, 2]]))
    torch.testing.assert_close(jacobian_norm(hidden), jacobian_norm(hidden[[0, 2]]))


@pytest.mark.parametrize("kind", ["frobenius", "spectral"])
def test_rows_that_see_nothing_or_one_key_are_zero(kind: str) -> None:
    z = torch.full((2, 4), -torch.inf)
    z[1, 2] = 3.0
    assert (softmax_jacobian(z) == 0).all()
    assert (jacobian_norm(z, kind=kind) == 0).all()


def test_what_has_no_softmax_is_nan() -> None:
    assert softmax_jacobian(torch.tensor([0.0, torch.nan])).isnan().all()
    assert softmax_jacobian(torch.tensor([0.0, torch.inf])).isnan().any()


@pytest.mark.parametrize("size", [0, 1])
def test_axes_of_no_or_one_key(size: int) -> None:
    z = torch.zeros(3, size)
    assert softmax_jacobian(z).shape == (3, size, size)
    assert (softmax_jacobian(z) == 0).all()
    assert (jacobian_norm(z, kind="spectral") == 0).all()


@pytest.mark.parametrize("z", [SEED, MILD, WIDE, TIED])
def test_the_frobenius_norm_is_exact(z: tuple[float, ...]) -> None:
    assert error(jacobian_norm(torch.tensor(z, dtype=torch.float64)).item(), exact_norm(z)) < 1e-12


@pytest.mark.parametrize("spread", [0.0, 0.1, 1.0, 10.0])
def test_norms_are_those_of_the_matrix(spread: float) -> None:
    z = torch.randn(11, 7, dtype=torch.float64) * spread
    matrix = softmax_jacobian(z)
    torch.testing.assert_close(jacobian_norm(z), torch.linalg.matrix_norm(matrix), rtol=1e-12, atol=0)
    spectral = torch.linalg.matrix_norm(matrix, ord=2)
    torch.testing.assert_close(jacobian_norm(z, kind="spectral"), spectral, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("gap", [97.0, 600.0])
@pytest.mark.parametrize("kind", ["frobenius", "spectral"])
def test_norms_keep_their_digits_where_they_are_tiny(kind: str, gap: float) -> None:
    """Of two weights the one eigenvalue that is not 0, and so either norm, is 2ab exactly."""
    z = torch.tensor([gap, 0.0], dtype=torch.float64)
    found = jacobian_norm(z, kind=kind).item()
    assert found == pytest.approx(2 * math.exp(-gap), rel=1e-12, abs=0)


def test_no_norm_is_above_a_half_and_the_uniform_one_is_as_stated() -> None:
    z = torch.randn(1000, 5, dtype=torch.float64) * torch.linspace(0, 8, 1000, dtype=torch.float64)[:, None]
    assert jacobian_norm(z).max() <= LARGEST_NORM
    assert jacobian_norm(torch.tensor([9.0, 9.0, -torch.inf])) == LARGEST_NORM
    keys = torch.tensor(7.0)
    torch.testing.assert_close(jacobian_norm(torch.zeros(7)), uniform_norm(keys))


def test_wrong_calls() -> None:
    with pytest.raises(ValueError, match=r"shape \(\)"):
        softmax_jacobian(torch.tensor(1.0))
    with pytest.raises(ValueError, match="'nuclear'"):
        jacobian_norm(torch.zeros(3), kind="nuclear")
