"""Normalisation: against its equations, against NumPy in float64, and where floating point is hard on it."""

from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from jaxtyping import config

from headway.ops.norm import (
    batch_norm,
    column_moments,
    layer_norm,
    layer_norm_equation,
    rms_norm,
    rms_norm_equation,
)

SHAPES = st.lists(st.integers(1, 5), min_size=0, max_size=3).flatmap(
    lambda rows: st.integers(2, 23).map(lambda width: (*rows, width))
)
EPS = st.sampled_from([0.0, 1e-12, 1e-5, 0.3])


@pytest.fixture
def unchecked() -> Iterator[None]:
    """A user's call: annotations are not checked, so that the library's own sentence is what one sees."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def numpy_layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray, eps: float) -> np.ndarray:
    out = np.empty_like(x)
    for where in np.ndindex(*x.shape[:-1]):
        row = x[where]
        mean = sum(row) / len(row)
        variance = sum((entry - mean) ** 2 for entry in row) / len(row)
        out[where] = weight * (row - mean) / np.sqrt(variance + eps) + bias
    return out


def numpy_rms_norm(x: np.ndarray, weight: np.ndarray, eps: float) -> np.ndarray:
    out = np.empty_like(x)
    for where in np.ndindex(*x.shape[:-1]):
        out[where] = weight * x[where] / np.sqrt(sum(x[where] ** 2) / x.shape[-1] + eps)
    return out


@given(shape=SHAPES, eps=EPS, seed=st.integers(0, 99))
def test_layer_norm_is_its_equation_and_numpy(shape: tuple[int, ...], eps: float, seed: int) -> None:
    x, weight, bias = draw(*shape, seed=seed), draw(shape[-1], seed=seed + 1), draw(shape[-1], seed=seed + 2)
    want = numpy_layer_norm(x.numpy(), weight.numpy(), bias.numpy(), eps)
    for form in (layer_norm, layer_norm_equation):
        np.testing.assert_allclose(form(x, weight, bias, eps=eps).numpy(), want, rtol=1e-10, atol=1e-10)


@given(shape=SHAPES, eps=EPS, seed=st.integers(0, 99))
def test_rms_norm_is_its_equation_and_numpy(shape: tuple[int, ...], eps: float, seed: int) -> None:
    x, weight = draw(*shape, seed=seed), draw(shape[-1], seed=seed + 1)
    want = numpy_rms_norm(x.numpy(), weight.numpy(), eps)
    for form in (rms_norm, rms_norm_equation):
        np.testing.assert_allclose(form(x, weight, eps=eps).numpy(), want, rtol=1e-10, atol=1e-10)


@given(shape=SHAPES.filter(lambda shape: int(np.prod(shape[:-1])) > 1), eps=st.sampled_from([1e-12, 1e-5, 0.3]))
def test_batch_norm_is_numpy(shape: tuple[int, ...], eps: float) -> None:
    x, weight, bias = draw(*shape), draw(shape[-1], seed=1), draw(shape[-1], seed=2)
    rows = x.numpy().reshape(-1, shape[-1])
    mean, variance = column_moments(x)
    np.testing.assert_allclose(mean.numpy(), rows.mean(0), rtol=0, atol=1e-14)
    np.testing.assert_allclose(variance.numpy(), ((rows - rows.mean(0)) ** 2).mean(0), rtol=0, atol=1e-13)
    want = (weight.numpy() * (x.numpy() - rows.mean(0)) / np.sqrt(rows.var(0) + eps)) + bias.numpy()
    np.testing.assert_allclose(batch_norm(x, mean, variance, weight, bias, eps=eps).numpy(), want, rtol=0, atol=1e-9)


def test_without_weight_and_bias() -> None:
    x, one, zero = draw(3, 7), torch.ones(7, dtype=torch.float64), torch.zeros(7, dtype=torch.float64)
    assert torch.equal(layer_norm(x), layer_norm(x, one, zero))
    assert torch.equal(rms_norm(x), rms_norm(x, one))
    mean, variance = column_moments(x)
    assert torch.equal(batch_norm(x, mean, variance), batch_norm(x, mean, variance, one, zero))


@pytest.mark.parametrize("form", [layer_norm, layer_norm_equation])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("value", [0.0, 0.1, -33.3, 10000.1, 1e6])
def test_a_constant_row_becomes_the_bias(form: Callable[..., torch.Tensor], dtype: torch.dtype, value: float) -> None:
    """A mean that is off by one rounding would be blown up by 1/√eps = 316: at 10,000 to an error of 0.3."""
    x = torch.full((5, 769), value, dtype=dtype)
    weight, bias = draw(769).to(dtype), draw(769, seed=1).to(dtype)
    torch.testing.assert_close(form(x, weight, bias, eps=1e-5), bias.expand(5, -1), rtol=0, atol=1e-6)


def test_a_row_of_zeros_is_zero_by_rms_norm() -> None:
    for form in (rms_norm, rms_norm_equation):
        assert torch.equal(form(torch.zeros(3, 7), torch.ones(7)), torch.zeros(3, 7))


def test_without_variance_and_eps_there_is_no_answer() -> None:
    constant = torch.ones(2, 3, dtype=torch.float64)
    assert layer_norm(constant, eps=0.0).isnan().all()
    assert rms_norm(0 * constant, eps=0.0).isnan().all()
    assert not rms_norm(constant, eps=0.0).isnan().any()


@pytest.mark.parametrize("offset", [0.0, 100.0, 10_000.0])
def test_float32_with_a_large_mean(offset: float) -> None:
    """The exact answer for the float32 inputs, to within what a mean of that size can carry."""
    x = (draw(5, 769) + offset).float()
    error = (layer_norm(x).double() - layer_norm(x.double())).abs().max()
    assert error < 1e-6 + 1e-6 * offset


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_low_precision_rounds_only_the_result(dtype: torch.dtype) -> None:
    """Inputs of 300: their squares overflow float16 and their sum of 769 would lose all digits in bfloat16."""
    x, weight, bias = (300 * draw(5, 769)).to(dtype), draw(769, seed=1).to(dtype), draw(769, seed=2).to(dtype)
    wide = [tensor.double() for tensor in (x, weight, bias)]
    mean, variance = column_moments(x)
    assert mean.dtype == torch.float32
    pairs = [
        (layer_norm(x, weight, bias), layer_norm(*wide)),
        (rms_norm(x, weight), rms_norm(*wide[:2])),
        (batch_norm(x, mean, variance, weight, bias), batch_norm(wide[0], *column_moments(wide[0]), *wide[1:])),
    ]
    for found, want in pairs:
        assert found.dtype == dtype
        assert ((found.double() - want).abs() <= torch.finfo(dtype).eps * want.abs() + 1e-5).all()


@pytest.mark.filterwarnings("error")
def test_dtypes_may_be_mixed_and_the_input_decides() -> None:
    x, weight, bias = draw(3, 7), draw(7, seed=1).float(), draw(7, seed=2).float()
    for given_dtype in (torch.bfloat16, torch.float32, torch.float64):
        rows = x.to(given_dtype)
        want = layer_norm(rows.double(), weight.double(), bias.double())
        found = layer_norm(rows, weight, bias)
        assert found.dtype == given_dtype
        torch.testing.assert_close(found, want.to(given_dtype), rtol=1e-6, atol=1e-6)
        want = rms_norm(rows.double(), weight.double())
        found = rms_norm(rows, weight)
        assert found.dtype == given_dtype
        torch.testing.assert_close(found, want.to(given_dtype), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_gradients(eps: float) -> None:
    x, weight, bias = (draw(*shape, seed=seed).requires_grad_() for seed, shape in enumerate([(2, 3, 5), (5,), (5,)]))
    assert torch.autograd.gradcheck(lambda *given: layer_norm(*given, eps=eps), (x, weight, bias))
    assert torch.autograd.gradcheck(lambda *given: rms_norm(*given, eps=eps), (x, weight))
    train = lambda x, *rest: batch_norm(x, *column_moments(x), *rest, eps=eps)  # noqa: E731
    assert torch.autograd.gradcheck(train, (x, weight, bias))


def test_odd_strides_and_no_rows() -> None:
    x = draw(7, 5, 3).permute(2, 1, 0)
    assert torch.equal(layer_norm(x), layer_norm(x.contiguous()))
    torch.testing.assert_close(rms_norm(x), rms_norm(x.contiguous()), rtol=1e-15, atol=0)
    assert layer_norm(torch.zeros(0, 3)).shape == rms_norm(torch.zeros(0, 3)).shape == (0, 3)


def test_moments_of_too_few_rows_are_refused() -> None:
    for rows in (0, 1):
        with pytest.raises(ValueError, match=rf"at least 2 rows; shape \({rows}, 3\) has {rows}"):
            column_moments(torch.zeros(rows, 3))


def test_refusals(unchecked: None) -> None:
    x, five = draw(2, 7), draw(5)
    for norm in (lambda **k: layer_norm(x, five, **k), lambda **k: rms_norm(x, five, **k)):
        with pytest.raises(ValueError, match=r"width 5 got rows of width 7, shape \(2, 7\)"):
            norm()
    with pytest.raises(ValueError, match="width 5 got rows of width 7"):
        batch_norm(x, five, five)
    for norm in (layer_norm, rms_norm):
        with pytest.raises(ValueError, match=r"must be 0 or more, not -0.1"):
            norm(x, eps=-0.1)
