"""Products of few rows by parts are products."""

import pytest
import torch
import torch.nn.functional as F

from headway.ops.linear import FEW, MANY, linear, parts


@pytest.mark.parametrize("shape", [(1,), (5,), (FEW,), (FEW + 1,), (2, 3), (1, 1), (0,), ()])
@pytest.mark.parametrize(("outputs", "inputs"), [(2 * 3 * 193, 7), (29 * 211, 5), (7, 11), (2 * 389, 13)])
@pytest.mark.parametrize("biased", [False, True])
def test_equals_torch(shape: tuple[int, ...], outputs: int, inputs: int, biased: bool) -> None:
    x = torch.randn(*shape, inputs, dtype=torch.float64)
    weight, bias = torch.randn(outputs, inputs, dtype=torch.float64), torch.randn(outputs, dtype=torch.float64)
    given = bias if biased else None
    with torch.no_grad():
        found = linear(x, weight, given)
    assert found.shape == (*shape, outputs)
    assert torch.allclose(found, F.linear(x, weight, given), atol=1e-12, rtol=0)


def test_views_of_a_larger_tensor_are_read_where_they_stand() -> None:
    """Strides are given by hand: an offset, or rows that do not lie side by side, must not be lost."""
    whole = torch.randn(5, 3, 7, dtype=torch.float64)
    weight, bias = torch.randn(9, 2 * 199, 7, dtype=torch.float64)[4], torch.randn(3, 2 * 199, dtype=torch.float64)[1]
    with torch.no_grad():
        for x in (whole[2], whole[:, 1], whole[3, :, :], whole.transpose(0, 1)[1:]):
            assert torch.allclose(linear(x, weight, bias), F.linear(x, weight, bias), atol=1e-12, rtol=0)
        turned = torch.randn(7, 2 * 199, dtype=torch.float64).t()
        assert torch.allclose(linear(whole[0], turned, bias), F.linear(whole[0], turned, bias), atol=1e-12, rtol=0)


def test_gradients_are_torchs() -> None:
    x, weight = torch.randn(1, 7, requires_grad=True), torch.randn(2 * 199, 7, requires_grad=True)
    linear(x, weight).sum().backward()
    assert x.grad is not None and weight.grad is not None
    assert torch.allclose(x.grad, weight.detach().sum(0, keepdim=True))


@pytest.mark.parametrize("rows", [1, 2, 7, 191, 193, 384, 50257, 768, 3072, 32000, 128256])
def test_parts_are_equal(rows: int) -> None:
    assert rows % parts(rows) == 0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("rows", [1, 5, MANY + 1, 211])
def test_half_precision_is_rounded_once_where_it_goes_by_way_of_float32(dtype: torch.dtype, rows: int) -> None:
    x, weight, bias = torch.randn(rows, 67).to(dtype), torch.randn(2 * 199, 67).to(dtype), torch.randn(398).to(dtype)
    with torch.no_grad():
        found = linear(x, weight, bias)
    exact = F.linear(x.double(), weight.double(), bias.double())
    step = torch.finfo(dtype).eps
    assert found.dtype == dtype
    assert bool(((found.double() - exact).abs() <= step * exact.abs() + 4 * step).all())


@torch.no_grad()
def test_odd_biases_and_sizes_are_torchs_affair() -> None:
    x, weight = torch.ones(2, 8), torch.ones(384, 8)
    for bias in (torch.arange(768.0)[::2], torch.ones(1).expand(384)):
        assert torch.equal(linear(x, weight, bias), F.linear(x, weight, bias))
    for wrong in (lambda: linear(torch.ones(1, 9), weight), lambda: linear(x, weight, torch.ones(500))):
        with pytest.raises((RuntimeError, TypeError)):
            wrong()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("biased", [False, True])
def test_gradients_of_half_precision_go_by_way_of_float32_too(dtype: torch.dtype, biased: bool) -> None:
    x = torch.randn(5, 11, 67).to(dtype).requires_grad_()
    weight, bias = torch.randn(31, 67).to(dtype).requires_grad_(), torch.randn(31).to(dtype).requires_grad_()
    wanted = [x, weight, *([bias] if biased else [])]
    slope = torch.randn(5, 11, 31).to(dtype)
    found = torch.autograd.grad(linear(x, weight, bias if biased else None), wanted, slope)
    exact = F.linear(x.double(), weight.double(), bias.double() if biased else None)
    step = torch.finfo(dtype).eps
    for ours, theirs in zip(found, torch.autograd.grad(exact, wanted, slope.double()), strict=True):
        assert ours.dtype == dtype
        assert bool(((ours.double() - theirs.double()).abs() <= step * theirs.double().abs() + 1e-3).all())
