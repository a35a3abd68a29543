"""No L x M tensor is alive: the peak of forward and backward stays far below one table of scores."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from headway.bench.measure import peak_memory
from headway.ops.attention import attend
from headway.ops.bias import Alibi, Relative
from headway.ops.mask import causal, padding, segments, window

LENGTH, WIDTH = 3000, 8
TABLE = LENGTH * LENGTH * 4


def draw(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0))


def backward(function: Callable[..., Tensor], *more: Tensor) -> Callable[[], list[Tensor]]:
    leaves = [draw(1, 1, LENGTH, WIDTH).requires_grad_() for _ in range(3)] + [x.requires_grad_() for x in more]

    def run() -> list[Tensor]:
        out = function(*leaves)
        return list(torch.autograd.grad(out, leaves, torch.ones_like(out)))

    return run


CASES: dict[str, Callable[[], Any]] = {
    "plain": backward(lambda q, k, v: attend(q, k, v)),
    "causal, left padding": backward(
        lambda q, k, v: attend(q, k, v, mask=causal() & padding(lengths=[2000], total=LENGTH, side="left"))
    ),
    "score cap": backward(lambda q, k, v: attend(q, k, v, softcap=5.0)),
    "score cap, causal": backward(lambda q, k, v: attend(q, k, v, softcap=5.0, mask=causal())),
    "learned bias": backward(lambda q, k, v, w: attend(q, k, v, bias=Relative(w)), draw(32, 1)),
    "learned bias, causal": backward(lambda q, k, v, w: attend(q, k, v, bias=Relative(w), mask=causal()), draw(32, 1)),
    "fixed bias": backward(lambda q, k, v: attend(q, k, v, bias=Alibi(torch.ones(1)))),
    "window": backward(lambda q, k, v: attend(q, k, v, mask=causal() & window(100))),
    "segments": backward(lambda q, k, v: attend(q, k, v, mask=causal() & segments(torch.arange(LENGTH) // 100))),
    "other width": backward(lambda q, k, v: attend(q, k, v[..., :5], mask=causal())),
    "local": backward(lambda q, k, v: attend(q, k, v, mechanism="local", window=50, mask=causal())),
    "local, dilated": backward(lambda q, k, v: attend(q, k, v, mechanism="local", window=20, dilation=7)),
    "local, selected": backward(lambda q, k, v: attend(q, k, v, mechanism="local", window=50, selected=(0, 9, 700))),
    "local, grid": backward(lambda q, k, v: attend(q, k, v, mechanism="local", window=4, grid=(50, 60))),
    "spatial, windows": backward(lambda q, k, v: attend(q, k, v, mechanism="spatial", window=5, grid=(50, 60))),
    "linear": backward(lambda q, k, v: attend(q, k, v, mechanism="linear")),
    "linear, causal": backward(lambda q, k, v: attend(q, k, v, mechanism="linear", mask=causal())),
    "channel": backward(lambda q, k, v: attend(q, k, v, mechanism="channel")),
}


@pytest.mark.parametrize("case", CASES)
def test_no_table_is_alive(case: str) -> None:
    assert peak_memory(CASES[case]).peak < TABLE / 4


def test_additive_keeps_few_hidden_units() -> None:
    """K hidden units for every pair would be 8 tables; a tile holds a constant number of them."""
    vector = draw(1, WIDTH)
    run = backward(lambda q, k, v: attend(q, k, v, mechanism="additive", vector=vector, mask=causal()))
    assert peak_memory(run).peak < 8 * TABLE / 3


def test_a_table_would_be_noticed() -> None:
    q, k = draw(1, 1, LENGTH, WIDTH), draw(1, 1, LENGTH, WIDTH)
    assert peak_memory(lambda: (q @ k.mT).softmax(-1)).peak >= TABLE


@pytest.mark.parametrize("case", ["linear, causal", "local"])
def test_memory_grows_with_length(case: str) -> None:
    def peak(length: int) -> int:
        options = {"mechanism": "local", "window": 50} if case == "local" else {"mechanism": "linear"}
        q = draw(1, 1, length, WIDTH)
        return peak_memory(lambda: attend(q, q, q, mask=causal(), **options)).peak

    assert peak(8000) < 2.3 * peak(4000)
