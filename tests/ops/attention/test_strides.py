"""Tensors as users have them: any strides, any backend, a bias in torch's convention."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import headway as hw

KEEP = torch.arange(7) < torch.tensor([[5], [7]])
SHAPES: dict[str, Callable[[], Tensor]] = {
    "transposed": lambda: torch.randn(2, 3, 5, 7).transpose(2, 3),
    "stepped": lambda: torch.randn(2, 3, 7, 10)[..., ::2],
    "expanded rows": lambda: torch.randn(1, 3, 7, 5).expand(2, 3, 7, 5),
    "expanded channels": lambda: torch.randn(2, 3, 7, 1).expand(2, 3, 7, 5),
    "plain": lambda: torch.randn(2, 3, 7, 5),
}


@pytest.mark.parametrize("which", range(3))
@pytest.mark.parametrize("kind", SHAPES)
@pytest.mark.parametrize("flash", [True, False])
def test_every_stride_and_backend(which: int, kind: str, flash: bool) -> None:
    parts = [torch.randn(2, 3, 7, 5, dtype=torch.float64) for _ in range(3)]
    parts[which] = SHAPES[kind]().double()
    mask = hw.causal() & hw.padding(keep=KEEP)
    wanted = hw.attend(*(part.contiguous() for part in parts), mask=mask)
    backends = [SDPBackend.FLASH_ATTENTION, SDPBackend.MATH] if flash else [SDPBackend.MATH]
    with sdpa_kernel(backends):
        torch.testing.assert_close(hw.attend(*parts, mask=mask), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("shape", [(7, 6), (3, 7, 6), (1, 7, 6), (2, 1, 7, 6), (2, 3, 7, 6)])
def test_a_bias_broadcasts_as_in_torch(shape: tuple[int, ...]) -> None:
    q, k, v = (torch.randn(2, 3, length, 5, dtype=torch.float64) for length in (7, 6, 6))
    bias = torch.randn(shape, dtype=torch.float64)
    wanted = ((q @ k.mT) * 5**-0.5 + bias).softmax(-1) @ v
    torch.testing.assert_close(hw.attend(q, k, v, bias=bias), wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("value", [-20.0, -8.0, -1.0, 0.0, 3.0])
def test_the_feature_of_linear_attention_does_not_cancel(value: float) -> None:
    """elu(x) + 1 is exp(x) below 0; one key alone has weight 1."""
    x = torch.full((1, 1, 1, 3), value)
    assert float(hw.attend(x, x, torch.ones(1, 1, 1, 1), mechanism="linear")) == pytest.approx(1.0, abs=1e-6)
