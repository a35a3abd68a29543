"""Depths worked out by hand, on paper, before they were traced. ⌈lg n⌉ levels for a sum of n terms."""

from itertools import pairwise

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.cost.trace import Trace, trace

B, L, M, D, H, K, N = 2, 5, 7, 12, 3, 4, 13


def shape(*sizes: int) -> Tensor:
    return torch.empty(sizes, device="meta")


def depths(module: nn.Module, *inputs: Tensor, **options: object) -> tuple[int, ...]:
    found = trace(module, *inputs, memory=False, **options)
    assert found.complete
    return tuple(found.depth[name] for name in ("tree", "serial", "sums"))


class Through(nn.Module):
    """Any function of tensors as a module."""

    def __init__(self, function: object) -> None:
        super().__init__()
        self.function = function

    def forward(self, *inputs: Tensor) -> Tensor:
        return self.function(*inputs)  # type: ignore[operator]


def test_a_linear_map_multiplies_sums_and_adds_its_bias() -> None:
    # multiply 1, sum of 12 in ⌈lg 12⌉ = 4 levels or 11 additions, bias 1
    assert depths(nn.Linear(D, N), shape(B, L, D)) == (1 + 4 + 1, 1 + 11 + 1, 4)
    assert depths(nn.Linear(D, N, bias=False), shape(B, L, D)) == (1 + 4, 1 + 11, 4)


def test_a_softmax_takes_maximum_subtract_exp_sum_divide() -> None:
    # over positions: trees under every counting. ⌈lg 7⌉ = 3
    assert depths(nn.Softmax(-1), shape(B, L, M)) == (3 + 2 + 3 + 1, 3 + 2 + 3 + 1, 6)


def test_a_layer_norm_sums_twice() -> None:
    # sum 4, ÷ 1, - 1, square 1, sum 4, ÷ 1, + ε 1, root 1, multiply 1, γ 1, β 1
    assert depths(nn.LayerNorm(D), shape(B, L, D)) == (4 + 3 + 4 + 6, 11 + 3 + 11 + 6, 8)
    # square 1, sum 4, ÷ 1, + ε 1, root 1, multiply 1, γ 1
    assert depths(nn.RMSNorm(D), shape(B, L, D)) == (1 + 4 + 5, 1 + 11 + 5, 4)


class Layer(nn.Module):
    """One attention layer without output projection: what the text of A1 counts."""

    def __init__(self, *, fused: bool = False) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(D, H * K, bias=False) for _ in range(3))
        self.fused = fused

    def forward(self, x: Tensor, source: Tensor) -> Tensor:
        q, k, v = (
            layer(y).unflatten(-1, (H, K)).transpose(1, 2)
            for layer, y in ((self.q, x), (self.k, source), (self.v, source))
        )
        if self.fused:
            return F.scaled_dot_product_attention(q, k, v)
        return (q @ k.transpose(-1, -2)).softmax(-1) @ v


def test_sums_of_an_attention_layer_are_lg_d_and_lg_k_and_three_times_lg_m() -> None:
    # ⌈lg 12⌉ + ⌈lg 4⌉ + 3 ⌈lg 7⌉: queries, scores; maximum, softmax, weighted sum (A1, with the maximum subtracted)
    tree, serial, sums = depths(Layer(), shape(B, L, D), shape(B, M, D))
    assert sums == 4 + 2 + 3 * 3
    assert tree == (1 + 4) + (1 + 2) + (3 + 2 + 3 + 1) + (1 + 3)
    # widths one after the other, positions as trees: O(D + K + lg M), not O(D + K + M)
    assert serial == (1 + 11) + (1 + 3) + (3 + 2 + 3 + 1) + (1 + 3)


@pytest.mark.parametrize("device", ["meta", "fake", "cpu"])
def test_a_fused_kernel_has_the_depth_of_what_it_does(device: str) -> None:
    # as above, and the scale
    tree = (1 + 4) + 1 + (1 + 2) + (3 + 2 + 3 + 1) + (1 + 3)
    assert depths(Layer(fused=True), shape(B, L, D), shape(B, M, D), device=device)[0] == tree


def test_serial_products_grow_with_the_width_and_not_with_the_length() -> None:
    grown = [depths(Layer(), shape(B, 8 * size, D), shape(B, 8 * size, D))[1] for size in (1, 2, 4)]
    assert [late - early for early, late in pairwise(grown)] == [3, 3]  # one level in three sums


def test_positions_and_widths_are_told_apart_even_where_they_are_of_one_size() -> None:
    """q kᵀ over a width of 7 and A v over 7 positions: 6 additions and 3 levels."""

    def attend(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return F.dropout((q @ k.mT).softmax(-1)) @ v

    same = shape(B, 7, 7)
    assert depths(Through(attend), same, same, same)[1] == (1 + 6) + (3 + 2 + 3 + 1) + 1 + (1 + 3)
    # linear attention sums over positions first: kᵀ v over 7 positions, then q (kᵀ v) over a width of 11
    q, v = shape(B, 7, 11), shape(B, 7, 13)
    assert depths(Through(lambda q, k, v: q @ (k.mT @ v)), q, q, v)[1] == (1 + 3) + (1 + 10)


def test_a_softmax_is_remembered_where_its_length_is_a_width_too() -> None:
    """Seven positions of seven entries, and a map of seven to seven: what A weighs are positions all the same."""

    class Mixed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.value = nn.Linear(7, 7, bias=False)

        def forward(self, x: Tensor) -> Tensor:
            return F.dropout((x @ x.mT).softmax(-1)).to(torch.float64) @ self.value(x).to(torch.float64)

    assert depths(Mixed(), shape(B, 7, 7))[1] == (1 + 6) + (3 + 2 + 3 + 1) + 1 + (1 + 3)


def test_channel_attention_sums_over_positions_and_weighs_widths() -> None:
    # qᵀ k over 5 positions, softmax over 11 channels one after the other, v A over 11 channels
    x = shape(B, L, 11)
    serial = depths(Through(lambda q, k, v: v @ (q.mT @ k).softmax(-1).mT), x, x, x)[1]
    assert serial == (1 + 3) + (10 + 2 + 10 + 1) + (1 + 10)


def test_a_transformer_layer_by_hand() -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    attention = (
        (4 + 1) + 1 + 3 + 9 + 1 + 4 + (4 + 1) + 1 + 1
    )  # project, scale, q·k, softmax, drop, A v, project, drop, +
    feedforward = (4 + 1) + 1 + 1 + (5 + 1) + 1 + 1  # widen, relu, drop, narrow, drop, add
    norm = 3 + 3 + 3 + 6
    assert depths(layer, shape(B, L, 8))[0] == attention + norm + feedforward + norm
    # without dropout: four multiplications fewer
    assert depths(layer.eval(), shape(B, L, 8))[0] == attention + norm + feedforward + norm - 4


@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_recurrence_is_as_deep_as_the_text_is_long(device: str) -> None:
    """First step: gates of the input 1 + 3 + 1, then add, σ, × r, add, tanh, -, × z, add; later ones + 1 + 2 + 1."""
    found = [depths(nn.GRU(8, 3, batch_first=True), shape(B, length, 8), device=device)[0] for length in (1, 2, 3, 8)]
    assert found == [5 + 11, 5 + 11 + 15, 5 + 11 + 30, 5 + 11 + 7 * 15]


@pytest.mark.parametrize("device", ["meta", "fake", "cpu"])
def test_an_lstm_has_one_depth_whether_its_kernel_is_fused_or_not(device: str) -> None:
    found = [depths(nn.LSTM(8, 3, batch_first=True), shape(B, length, 8), device=device)[0] for length in (1, 5)]
    assert found == [5 + 9, 5 + 9 + 4 * (4 + 9)]


def test_what_depends_on_parameters_alone_has_no_depth() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.ones(D))

        def forward(self, x: Tensor) -> Tensor:
            return x * self.weight.square().mean().sqrt().exp()

    assert depths(Scaled(), shape(B, D)) == (1, 1, 0)


def test_what_is_added_at_the_end_does_not_wait_for_the_products() -> None:
    """x cos + y sin: two steps side by side and one more; a product of 12 terms, and a deep vector added to it."""
    assert depths(Through(lambda x: torch.addcmul(x * 2, x, x)), shape(B, D))[0] == 2
    assert depths(Through(lambda x, w: torch.addmm(x.exp().exp(), x, w)), shape(B, D), shape(D, D))[0] == 1 + 4 + 1
    deep = Through(lambda x, w: torch.addmm((x @ w).exp(), x, w))
    assert depths(deep, shape(B, D), shape(D, D))[0] == 1 + 4 + 1 + 1


def test_a_shape_is_no_number() -> None:
    """What is made in the shape of a deep tensor is not deep itself, nor is what is written over."""

    def shaped(x: Tensor) -> Tensor:
        deep = x.exp().exp().exp()
        held = deep.clone()
        held.copy_(x)
        return torch.ones_like(deep).exp() * held

    assert depths(Through(shaped), shape(B, D)) == (1, 1, 0)


def test_moving_numbers_takes_no_step() -> None:
    def moved(x: Tensor) -> Tensor:
        y = torch.cat([x.mT.contiguous(), x.mT], -1).to(torch.float64).flatten(1)
        return torch.where(torch.ones_like(y, dtype=torch.bool), y, -y)

    assert depths(Through(moved), shape(B, L, D)) == (0, 0, 0)


def test_rows_written_apart_do_not_wait_for_one_another() -> None:
    """Each row of a buffer is doubled in place: one step, not one after the other."""

    def doubled(x: Tensor) -> Tensor:
        held = torch.zeros_like(x)
        for position in range(L):
            held[:, position] = x[:, position]
            held[:, position] += x[:, position]
        return held

    def chained(x: Tensor) -> Tensor:
        held = x.clone()
        for position in range(1, L):
            held[:, position] += held[:, position - 1]
        return held

    assert depths(Through(doubled), shape(B, L, D))[0] == 1
    assert depths(Through(chained), shape(B, L, D))[0] == L - 1


def test_a_sum_of_sizes_that_may_mean_either_is_noted() -> None:
    def product(x: Tensor) -> Tensor:
        return x @ x.mT.contiguous()

    found: Trace = trace(Through(product), shape(B, L, L), memory=False)
    assert any("5" in note and "positions" in note for note in found.notes)
