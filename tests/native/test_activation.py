"""Activations and their gradients against torch in float64."""

import pytest
import torch
import torch.nn.functional as F

from headway.native.activation import Kind, activation, gelu_backward, serves

RIGHT = {
    "gelu": F.gelu,
    "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "relu": F.relu,
    "none": lambda x: x,
}


@pytest.mark.parametrize("kind", RIGHT)
@pytest.mark.parametrize("count", [1, 3, 17, 4099, 50_021])
def test_values(kernels: str, kind: Kind, count: int) -> None:
    x = torch.randn(count) * 4
    right = RIGHT[kind](x.double())
    found = activation(x, kind)
    assert ((found - right).abs() <= 2e-7 * (1 + x.abs())).all()
    assert activation(x, kind, out=x) is x
    assert torch.equal(x, found)


@pytest.mark.parametrize("kind", RIGHT)
def test_what_is_not_finite(kernels: str, kind: Kind) -> None:
    x = torch.tensor([float("nan"), float("inf"), 3e38, -3e38, 1e20, -1e20, 0.0])
    found, right = activation(x, kind), RIGHT[kind](x.double())
    assert found[0].isnan() and found[1] == float("inf")
    assert torch.allclose(found[2:].double(), right[2:], rtol=1e-6, atol=0)


@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh"])
@pytest.mark.parametrize("count", [1, 3, 17, 50_021])
def test_gradients_of_gelu(kernels: str, kind: Kind, count: int) -> None:
    x, grad = torch.randn(count) * 4, torch.randn(count)
    exact = x.double().requires_grad_()
    RIGHT[kind](exact).backward(grad.double())
    assert exact.grad is not None
    found = gelu_backward(grad, x, kind)
    assert ((found - exact.grad).abs() <= 1e-6 * (1 + grad.abs()) * (1 + x.abs())).all()
    assert torch.equal(gelu_backward(grad, x, kind, out=grad), found)


@pytest.mark.parametrize("kind", ["gelu", "gelu_tanh"])
def test_slopes_far_from_0(kernels: str, kind: Kind) -> None:
    x = torch.tensor([3e38, -3e38, 1e20, -1e20, 40.0, -40.0])
    assert gelu_backward(torch.ones(6), x, kind).tolist() == [1, 0, 1, 0, 1, 0]
    assert gelu_backward(torch.ones(1), torch.tensor([float("nan")]), kind).isnan().all()


def test_what_is_served() -> None:
    x = torch.zeros(3, 5)
    assert serves(x, torch.nn.Parameter(x))
    assert not serves(x.double())
    assert not serves(x, x.T)
    assert not serves(torch.zeros(3, device="meta"))
