"""Products of few rows by parts, and of many by oneDNN, are products."""

import pytest
import torch
import torch.nn.functional as F
from torch.utils.flop_counter import FlopCounterMode

import headway.ops.linear as module
from headway.ops.linear import FEW, MANY, linear, linear_training, parts


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


@pytest.fixture
def onednn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every product is large enough for oneDNN, on every processor: slower on some, and right on all."""
    monkeypatch.setattr(module, "LARGE", 0)
    monkeypatch.setattr(module, "_onednn_is_faster", lambda: True)


def of_rows(rows: int, *, biased: bool = True) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    x, weight = torch.randn(3, rows, 67), torch.randn(397, 67) * 67**-0.5
    return x.requires_grad_(), weight.requires_grad_(), torch.randn(397).requires_grad_() if biased else None


@pytest.mark.usefixtures("onednn")
@pytest.mark.parametrize("biased", [False, True])
def test_many_rows_by_onednn(biased: bool) -> None:
    x, weight, bias = of_rows(59, biased=biased)
    given = [one for one in (x, weight, bias) if one is not None]
    wide = [one.detach().double().requires_grad_() for one in given]
    found, exact = linear_training(x, weight, bias), F.linear(*wide)
    assert "OneDNN" in type(found.grad_fn).__name__
    pull = torch.randn(found.shape)
    assert torch.allclose(found.double(), exact, atol=1e-5, rtol=0)
    for one, other in zip(
        torch.autograd.grad(found, given, pull), torch.autograd.grad(exact, wide, pull.double()), strict=True
    ):
        assert torch.allclose(one.double(), other, atol=1e-4, rtol=0)
    with torch.no_grad():
        assert torch.allclose(linear(x, weight, bias).double(), exact, atol=1e-5, rtol=0)
        turned = x.detach().mT.contiguous().mT  # rows that do not lie side by side
        assert torch.allclose(linear(turned, weight, bias).double(), exact, atol=1e-5, rtol=0)


@pytest.mark.usefixtures("onednn")
def test_gradients_of_gradients_and_of_one_input_alone() -> None:
    x, weight, bias = of_rows(5)
    (first,) = torch.autograd.grad(linear_training(x, weight, bias).square().sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), weight)
    y, w, b = (one.detach().double().requires_grad_() for one in (x, weight, bias) if one is not None)
    (exact,) = torch.autograd.grad(F.linear(y, w, b).square().sum(), y, create_graph=True)
    (wanted,) = torch.autograd.grad(exact.sum(), w)
    assert torch.allclose(second.double(), wanted, atol=1e-3, rtol=1e-4)
    whole = linear_training(x, weight, bias)  # the sum's gradient is one number, seen from every place
    assert torch.allclose(torch.autograd.grad(whole.sum(), x)[0][1, 2], weight.detach().sum(0), atol=1e-4)
    frozen = linear_training(x.detach(), weight, bias)
    assert torch.autograd.grad(frozen.sum(), weight)[0].shape == weight.shape


@pytest.mark.usefixtures("onednn")
def test_whoever_follows_the_operations_meets_torchs_own() -> None:
    x, weight, bias = of_rows(5)
    with FlopCounterMode(display=False) as counter:
        linear_training(x, weight, bias).sum().backward()
    assert counter.get_total_flops() == 3 * 2 * 15 * 67 * 397
    slopes = torch.func.vmap(torch.func.grad(lambda row: linear_training(row, weight, bias).sum()))(x.detach()[0])
    assert torch.allclose(slopes, weight.detach().sum(0).expand(5, -1), atol=1e-4)
    _, moved = torch.func.jvp(lambda one: linear_training(one, weight, bias), (x.detach(),), (x.detach(),))
    assert torch.allclose(moved, F.linear(x, weight), atol=1e-4)
    fake = torch.empty(3, 5, 67, device="meta")
    assert linear_training(fake, weight.to("meta"), None).shape == (3, 5, 397)
