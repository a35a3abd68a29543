"""The chunked cross entropy of a head against the plain one in float64, with its gradients, and what it holds."""

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headway.bench.measure import peak_memory
from headway.ops.loss import IGNORED, cross_entropy_sum, linear_cross_entropy

N, V, D = 23, 13, 7


def case(*, dtype: torch.dtype = torch.float64, seed: int = 0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    hidden = torch.randn(N, D, generator=draw, dtype=torch.float64)
    weight = torch.randn(V, D, generator=draw, dtype=torch.float64)
    bias = torch.randn(V, generator=draw, dtype=torch.float64)
    targets = torch.randint(V, (N,), generator=draw)
    targets[3::5] = IGNORED
    hidden, weight, bias = (x.to(dtype).requires_grad_() for x in (hidden, weight, bias))
    return hidden, weight, bias, targets


def plainly(
    hidden: Tensor, weight: Tensor, targets: Tensor, *, bias: Tensor | None, scale: float, smoothing: float,
    softcap: float | None = None,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    logits = scale * hidden.double() @ weight.double().mT + (0 if bias is None else bias.double())
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    loss = F.cross_entropy(logits, targets, ignore_index=IGNORED, label_smoothing=smoothing, reduction="sum")
    return loss, (logits.argmax(-1) == targets).sum()


@pytest.mark.parametrize(("smoothing", "softcap"), [(0.0, None), (0.1, None), (0.0, 1.5), (0.1, 1.5)])
@pytest.mark.parametrize("with_bias", [False, True])
@pytest.mark.parametrize("chunk", [1, 5, N, None])
def test_it_is_the_plain_cross_entropy(
    smoothing: float, softcap: float | None, with_bias: bool, chunk: int | None
) -> None:
    hidden, weight, bias, targets = case()
    wanted = [hidden, weight, *([bias] if with_bias else [])]
    options = {"bias": bias if with_bias else None, "scale": 0.7, "smoothing": smoothing, "softcap": softcap}
    expected, hits = plainly(hidden, weight, targets, **options)
    found, right = linear_cross_entropy(hidden, weight, targets, chunk=chunk, **options)
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=0)
    assert int(right) == int(hits) > 0
    for ours, theirs in zip(
        torch.autograd.grad(3 * found, wanted), torch.autograd.grad(3 * expected, wanted), strict=True
    ):
        torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-12)


def test_a_weight_alone_or_a_vector_alone_may_want_gradients() -> None:
    hidden, weight, bias, targets = case()
    for wanted in ([hidden], [weight], [bias]):
        inputs = [x.detach().requires_grad_(any(x is one for one in wanted)) for x in (hidden, weight, bias)]
        total, _ = linear_cross_entropy(inputs[0], inputs[1], targets, bias=inputs[2])
        total.backward()
        assert [x.grad is not None for x in inputs] == [any(x is one for one in wanted) for x in (hidden, weight, bias)]


def test_without_gradients_nothing_is_kept_and_the_sum_is_the_same() -> None:
    hidden, weight, _, targets = case()
    with_gradient, _ = linear_cross_entropy(hidden, weight, targets, chunk=4)
    with torch.no_grad():
        without, _ = linear_cross_entropy(hidden, weight, targets, chunk=4)
    assert without.grad_fn is None and torch.equal(with_gradient.detach(), without)


@pytest.mark.parametrize("chunk", [4, None])
def test_half_precision_is_summed_in_float32(chunk: int | None) -> None:
    hidden, weight, bias, targets = case(dtype=torch.bfloat16)
    expected, _ = plainly(hidden, weight, targets, bias=bias, scale=1.0, smoothing=0.1)
    found, _ = linear_cross_entropy(hidden, weight, targets, bias=bias, smoothing=0.1, chunk=chunk)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)
    theirs = torch.autograd.grad(expected, [hidden, weight, bias])
    for ours, exact in zip(torch.autograd.grad(found, [hidden, weight, bias]), theirs, strict=True):
        assert ours.dtype == torch.bfloat16
        torch.testing.assert_close(ours, exact, rtol=2**-7, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("chunk", [4, None])
def test_ignored_rows_may_hold_nan(dtype: torch.dtype, chunk: int | None) -> None:
    hidden, weight, _, targets = case(dtype=dtype)
    broken = hidden.detach().clone()
    broken[targets == IGNORED] = float("nan")
    broken.requires_grad_()
    total, _ = linear_cross_entropy(broken, weight, targets, chunk=chunk)
    total.backward()
    assert broken.grad is not None and weight.grad is not None
    assert total.isfinite() and weight.grad.isfinite().all() and broken.grad.isfinite().all()


@pytest.mark.parametrize("chunk", [4, None])
def test_nothing_asked_is_zero(chunk: int | None) -> None:
    hidden, weight, _, _ = case()
    total, right = linear_cross_entropy(hidden, weight, torch.full((N,), IGNORED), chunk=chunk)
    total.backward()
    assert total.item() == 0 and right.item() == 0
    assert weight.grad is not None and not weight.grad.any()


@pytest.mark.parametrize("chunk", [4, None])
def test_large_logits_do_not_overflow(chunk: int | None) -> None:
    hidden, weight, _, targets = case(dtype=torch.float32)
    expected, _ = plainly(hidden * 1e3, weight, targets, bias=None, scale=1.0, smoothing=0.3)
    found, _ = linear_cross_entropy(hidden * 1e3, weight, targets, smoothing=0.3, chunk=chunk)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=0)


def test_no_tensor_of_all_logits_lives() -> None:
    rows, vocabulary, width = 512, 4099, 16
    draw = torch.Generator().manual_seed(1)
    hidden = torch.randn(rows, width, generator=draw, requires_grad=True)
    weight = torch.randn(vocabulary, width, generator=draw, requires_grad=True)
    targets = torch.randint(vocabulary, (rows,), generator=draw)

    def ours() -> tuple[Tensor, ...]:
        return torch.autograd.grad(linear_cross_entropy(hidden, weight, targets, chunk=32)[0], [hidden, weight])

    def plain() -> tuple[Tensor, ...]:
        return torch.autograd.grad(F.cross_entropy(hidden @ weight.mT, targets, reduction="sum"), [hidden, weight])

    logits = 4 * rows * vocabulary
    assert peak_memory(ours).beyond < 0.25 * logits
    assert peak_memory(plain).beyond > logits  # the measurement would have seen it


def test_logits_that_exist() -> None:
    hidden, weight, _, targets = case()
    logits = (hidden @ weight.mT).detach()
    for smoothing in (0.0, 0.2):
        expected, hits = plainly(hidden, weight, targets, bias=None, scale=1.0, smoothing=smoothing)
        found, right = cross_entropy_sum(logits, targets, smoothing=smoothing)
        torch.testing.assert_close(found, expected.detach(), rtol=1e-12, atol=0)
        assert int(right) == int(hits)


@pytest.mark.parametrize("wrong", [V, -1])
def test_a_target_outside_of_the_vocabulary_is_refused(wrong: int) -> None:
    hidden, weight, _, targets = case()
    targets[1] = wrong
    with pytest.raises(ValueError, match=f"target {wrong} is outside of the vocabulary of {V}"):
        linear_cross_entropy(hidden, weight, targets)
