"""GELU by way of the logistic function is torch's, with its gradients and theirs."""

import pytest
import torch
import torch.nn.functional as F

from headway.ops.activation import SMALL, gelu_tanh


def points(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    return torch.linspace(-12, 12, SMALL + 7).to(dtype)


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float64, 1e-14), (torch.float32, 3e-6), (torch.bfloat16, 8e-3)]
)
def test_values_and_gradients(dtype: torch.dtype, tolerance: float) -> None:
    x = points(dtype).requires_grad_()
    wide = x.detach().double().requires_grad_()
    expected = F.gelu(wide, approximate="tanh")
    found = gelu_tanh(x)
    assert found.dtype == dtype and type(found.grad_fn).__name__ == "_GeluTanhBackward"
    torch.testing.assert_close(found.double(), expected, rtol=tolerance, atol=tolerance)
    slope = torch.linspace(0.5, 1.5, len(x), dtype=torch.float64)
    (ours,), (theirs,) = torch.autograd.grad(found, x, slope.to(dtype)), torch.autograd.grad(expected, wide, slope)
    torch.testing.assert_close(ours.double(), theirs, rtol=tolerance, atol=tolerance)
    with torch.no_grad():
        assert torch.equal(gelu_tanh(x), found)


def test_gradients_of_gradients() -> None:
    x = points().requires_grad_()

    def second(curve: torch.Tensor) -> torch.Tensor:
        (first,) = torch.autograd.grad(curve.sum(), x, create_graph=True)
        return torch.autograd.grad(first.square().sum(), x)[0]

    torch.testing.assert_close(second(gelu_tanh(x)), second(F.gelu(x, approximate="tanh")), rtol=1e-9, atol=1e-11)


def test_other_ways_to_differentiate_go_to_torch() -> None:
    x = points()
    slope = torch.func.grad(lambda y: gelu_tanh(y).sum())(x)
    _, along = torch.func.jvp(gelu_tanh, (x,), (torch.ones_like(x),))
    torch.testing.assert_close(slope, along, rtol=1e-12, atol=1e-13)


def test_far_away_it_is_x_or_zero() -> None:
    x = torch.full((SMALL,), 3e4, requires_grad=True)
    for sign, value in ((1, 1.0), (-1, 0.0)):
        y = gelu_tanh(sign * x)
        assert bool((y == value * x).all())
        assert bool((torch.autograd.grad(y.sum(), x)[0] == value).all())
