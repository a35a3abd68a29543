"""The moving average of weights."""

from contextlib import suppress

import pytest
import torch
from torch import nn

from headway.training.ema import WeightAverage


def test_it_follows_the_recursion() -> None:
    weight = nn.Parameter(torch.tensor([5.0], dtype=torch.float64))
    average = WeightAverage([("weight", weight)], 0.5)
    expected = 5.0
    for count in range(1, 30):
        weight.data.fill_(float(count**2 % 7))
        average.update()
        decay = min(0.5, (1 + count) / (10 + count))
        expected = decay * expected + (1 - decay) * weight.item()
    assert average.tensors()["weight/average"].item() == pytest.approx(expected, rel=1e-12)


def test_half_precision_is_averaged_in_float32() -> None:
    weight = nn.Parameter(torch.zeros(3, dtype=torch.bfloat16))
    average = WeightAverage([("weight", weight)], 0.999)
    weight.data.fill_(1.0)
    for _ in range(3):
        average.update()
    assert average.tensors()["weight/average"].dtype == torch.float32
    with average.swapped():
        assert weight.dtype == torch.bfloat16 and 0 < weight[0] < 1


def test_weights_are_exchanged_in_place_and_come_back_whatever_happens() -> None:
    layer = nn.Linear(3, 2)
    average = WeightAverage(layer.named_parameters(), 0.9)
    before, place = layer.weight.detach().clone(), layer.weight.data_ptr()
    layer.weight.data.mul_(2)
    with suppress(KeyError), average.swapped():
        assert torch.equal(layer.weight, before) and layer.weight.data_ptr() == place
        raise KeyError
    assert torch.equal(layer.weight, 2 * before) and layer.weight.data_ptr() == place


def test_state_loaded_in_place_goes_on_bit_for_bit() -> None:
    weight = nn.Parameter(torch.zeros(3))
    average = WeightAverage([("weight", weight)], 0.99)
    other = WeightAverage([("weight", weight)], 0.99)
    draw = torch.Generator().manual_seed(0)
    for step in range(6):
        weight.data.normal_(generator=draw)
        average.update()
        if step == 2:
            for name, tensor in other.tensors().items():
                tensor.copy_(average.tensors()[name])
        if step > 2:
            other.update()
    assert all(torch.equal(tensor, average.tensors()[name]) for name, tensor in other.tensors().items())
