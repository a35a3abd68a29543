"""GELU of many entries, where a compiled kernel may compute it: the same function, slope and slope of the slope."""

import pytest
import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torch.utils.flop_counter import FlopCounterMode

from headway.native import activation as kernels
from headway.native.build import switched_off
from headway.ops.activation import MANY, find_activation

FORMS = {"gelu": "none", "gelu_tanh": "tanh"}
SHAPE = (3, 59, 101)


def entries(*, dtype: torch.dtype = torch.float32) -> Tensor:
    spread = torch.tensor([0.01, 1.0, 9.0])[:, None, None]
    x = torch.randn(SHAPE, dtype=torch.float64) * spread
    assert x.numel() >= MANY
    return x.to(dtype)


@pytest.mark.parametrize("name", FORMS)
@pytest.mark.parametrize("native", [True, False])
def test_values_and_slopes_are_those_of_float64(name: str, native: bool) -> None:
    if native and not kernels.serves(torch.zeros(1)):
        pytest.skip("no compiler")
    x, gradient = entries(), torch.randn(SHAPE)
    exact = x.double().requires_grad_()
    wanted = torch.nn.functional.gelu(exact, approximate=FORMS[name])
    wanted.backward(gradient.double())
    x.requires_grad_()
    if native:
        found = find_activation(name)(x)
        assert "CompiledGelu" in type(found.grad_fn).__name__
    else:
        with switched_off():
            found = find_activation(name)(x)
        assert "CompiledGelu" not in type(found.grad_fn).__name__
    found.backward(gradient)
    assert x.grad is not None and exact.grad is not None
    assert (found - wanted).abs().max() < 2e-6
    assert (x.grad - exact.grad).abs().max() < 4e-6
    with torch.no_grad():
        assert torch.equal(find_activation(name)(x), found) or not native


@pytest.mark.parametrize("name", FORMS)
def test_slopes_of_slopes_are_torchs(name: str) -> None:
    x = entries().requires_grad_()
    (slope,) = torch.autograd.grad(find_activation(name)(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(slope.sum(), x)
    exact = x.detach().double().requires_grad_()
    (slope,) = torch.autograd.grad(
        torch.nn.functional.gelu(exact, approximate=FORMS[name]).sum(), exact, create_graph=True
    )
    (wanted,) = torch.autograd.grad(slope.sum(), exact)
    assert (second - wanted).abs().max() < 1e-5


def test_what_a_kernel_cannot_take_is_torchs() -> None:
    """Other strides, other precisions, functions of functions, forward mode and whoever counts operations."""
    gelu, x = find_activation("gelu_tanh"), entries()
    torch_gelu = torch.nn.functional.gelu
    for other in (x.mT, x.double(), x.bfloat16()):
        assert torch.equal(gelu(other), torch_gelu(other, approximate="tanh"))
    assert torch.equal(torch.vmap(gelu)(x), torch_gelu(x, approximate="tanh"))
    with dual_level():
        assert unpack_dual(gelu(make_dual(x, torch.ones_like(x)))).tangent is not None
    with FlopCounterMode(display=False):
        assert torch.equal(gelu(x), torch_gelu(x, approximate="tanh"))


@pytest.mark.parametrize("name", FORMS)
def test_what_is_not_a_number_stays_where_it_is(name: str) -> None:
    x = entries()
    x[0, 0, 0], x[1, 2, 3] = float("nan"), float("inf")
    found = find_activation(name)(x)
    assert found[0, 0, 0].isnan() and found[1, 2, 3] == float("inf")
    assert int((~found.isfinite()).sum()) == 2
