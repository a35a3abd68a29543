"""Multiply-adds: against torch's counter where it is right, against counting by hand where it is not."""

from math import prod

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from headway.cost.trace import trace

B, C, Y, X = 2, 6, 11, 13


def shape(*sizes: int) -> Tensor:
    return torch.empty(sizes, device="meta")


def counted(module: nn.Module, *inputs: Tensor) -> tuple[int, int]:
    """FLOPs forwards, and forwards and backwards, by torch's own counter on the meta device."""
    with torch.device("meta"):
        placed = module.to("meta")
    with FlopCounterMode(display=False) as forward:
        output = placed(*inputs)
    with FlopCounterMode(display=False) as backward:
        output.backward(torch.empty_like(output))
    return forward.get_total_flops(), forward.get_total_flops() + backward.get_total_flops()


@pytest.mark.parametrize(
    ("module", "sizes"),
    [
        (nn.Linear(7, 5), (B, 3, 7)),
        (nn.Bilinear(7, 7, 5), (B, 7)),
        (nn.Conv1d(C, 10, 3, stride=2), (B, C, 17)),
        (nn.Conv2d(C, 10, 3, padding=1), (B, C, Y, X)),
        (nn.ConvTranspose2d(C, 10, 3, stride=2), (B, C, Y, X)),
        (nn.GRU(7, 5, batch_first=True), (B, 3, 7)),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, nn.Module) else "",
)
def test_products_are_those_of_torchs_counter(module: nn.Module, sizes: tuple[int, ...]) -> None:
    x = [shape(*sizes).requires_grad_()] * (2 if isinstance(module, nn.Bilinear) else 1)
    found = trace(module, *x, backward=True, memory=False)
    first = module if not isinstance(module, nn.GRU) else _First(module)
    assert (found.forward.flops, found.forward.flops + found.backward.flops) == counted(first, *x)


class _First(nn.Module):
    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *inputs: Tensor) -> Tensor:
        output, state = self.module(*inputs)
        return torch.cat([output.flatten(), state.flatten()])


@pytest.mark.parametrize("groups", [1, 2, 6])
@pytest.mark.parametrize("transposed", [False, True])
def test_a_grouped_convolution_costs_the_same_for_each_gradient(groups: int, transposed: bool) -> None:
    """Every multiplication of the forward pass has one in each gradient; torch's counter has `groups` times as many."""
    kind = nn.ConvTranspose2d if transposed else nn.Conv2d
    module = kind(C, 12, 3, groups=groups)
    places = (Y, X) if transposed else (Y - 2, X - 2)
    once = B * prod(places) * 9 * C * 12 // groups
    found = trace(module, shape(B, C, Y, X).requires_grad_(), backward=True, memory=False)
    assert (found.forward.dense, found.backward.dense) == (once, 2 * once)
    assert trace(module, shape(B, C, Y, X), backward=True, memory=False).backward.dense == once
    of_torch = counted(module, shape(B, C, Y, X).requires_grad_())[1]
    assert of_torch == 2 * once * (2 + groups)


def test_depthwise_multiplications_by_brute_force() -> None:
    """Ones through a depthwise convolution of ones count themselves."""
    weight, x = torch.ones(C, 1, 3, 3, dtype=torch.float64), torch.ones(B, C, Y, X, dtype=torch.float64)
    module = nn.Conv2d(C, C, 3, groups=C, bias=False)
    terms = F.conv2d(x, weight, groups=C).sum().item()
    assert trace(module, shape(B, C, Y, X), memory=False).forward.dense == terms


class Attend(nn.Module):
    def __init__(self, *, causal: bool = False) -> None:
        super().__init__()
        self.causal = causal

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=self.causal)


@pytest.mark.parametrize("causal", [False, True])
def test_attention_counts_the_same_as_plain_products_and_as_one_kernel(causal: bool) -> None:
    """torch's counter finds nothing in the CPU's kernel (pytorch#195460)."""
    heads, queries, keys, width = 3, 5, 5 if causal else 7, 11
    inputs = [shape(B, heads, size, width).requires_grad_() for size in (queries, keys, keys)]
    macs = B * heads * queries * keys * 2 * width
    plain, fake, real = (
        trace(Attend(causal=causal), *inputs, backward=True, memory=False, device=device)
        for device in ("meta", "fake", "cpu")
    )
    assert [found.forward.dense for found in (plain, fake, real)] == [macs] * 3
    assert [found.backward.dense for found in (plain, fake, real)] == [2 * macs] * 3
    # the kernel makes the scores once more on its way back
    assert real.backward.executed == 2 * macs + macs // 2
    assert any("flash_attention_for_cpu" in line.path for line in real.lines)
    softmax = 5 * B * heads * queries * keys
    assert plain.forward.other >= softmax and real.forward.other == softmax * 6 // 5


@pytest.mark.parametrize("device", ["meta", "fake", "cpu"])
def test_an_lstm_counts_the_same_in_one_kernel_and_in_many(device: str) -> None:
    length, width, hidden = 5, 7, 3
    found = trace(nn.LSTM(width, hidden, batch_first=True), shape(B, length, width), backward=True, device=device,
                  memory=False)  # fmt: skip
    assert found.forward.dense == length * B * 4 * hidden * (width + hidden)
    # the gradient of the first state is not asked for, nor that of the input
    weights = length * B * 4 * hidden * (width + hidden)
    assert found.backward.dense == weights + (length - 1) * B * 4 * hidden * hidden
    assert found.forward.other == length * B * hidden * (3 * 4 + 3 * 4 + 1 + 5)


def test_experts_multiply_every_row_once() -> None:
    """torch's own kernel for shapes refuses float32 here."""

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weights = nn.Parameter(torch.empty(4, 8, 16))

        def forward(self, x: Tensor, ends: Tensor) -> Tensor:
            return torch._grouped_mm(x, self.weights, offs=ends)

    ends = torch.empty(4, dtype=torch.int32, device="meta")
    found = trace(Experts(), shape(24, 8).requires_grad_(), ends, backward=True, memory=False)
    assert found.complete and found.forward.dense == 24 * 8 * 16 and found.backward.dense == 2 * 24 * 8 * 16


def test_a_checkpoint_is_computed_once_more_on_the_way_back() -> None:
    from torch.utils.checkpoint import checkpoint

    class Checked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = nn.Sequential(nn.Linear(7, 11), nn.GELU(), nn.Linear(11, 5))

        def forward(self, x: Tensor) -> Tensor:
            return checkpoint(self.inner, x, use_reentrant=False)  # type: ignore[return-value]

    x = shape(B, 7).requires_grad_()
    plain = trace(Checked().inner, x, backward=True, memory=False)
    found = trace(Checked(), x, backward=True, memory=False)
    assert found.forward == plain.forward
    # torch stops early: what nothing on the way back needs is not computed again
    assert plain.backward.dense + B * 7 * 11 <= found.backward.dense <= plain.backward.dense + plain.forward.dense
