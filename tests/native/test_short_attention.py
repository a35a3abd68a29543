"""Attention of short texts by the compiled kernel: values and gradients of float64, causal or not, any strides."""

from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

import headway as hw
from headway.native import short_attention
from headway.native.build import switched_off

SIZES = [(2, 3, 5, 16), (1, 2, 17, 32), (3, 2, 64, 48), (2, 1, 131, 16), (1, 1, 1, 16), (1, 2, 256, 32)]


def tensors(batch: int, heads: int, length: int, width: int) -> list[Tensor]:
    """q, k and v as a fused projection gives them: parts of one tensor, heads after positions."""
    fused = torch.randn(batch, length, 3, heads, width)
    return [part.transpose(1, 2).detach().requires_grad_() for part in fused.unbind(2)]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("sizes", SIZES)
def test_values_and_gradients(kernels: str, sizes: tuple[int, int, int, int], causal: bool) -> None:
    q, k, v = tensors(*sizes)
    gradient, scale = torch.randn(sizes), 0.3
    exact = [x.detach().double().requires_grad_() for x in (q, k, v)]
    wanted = F.scaled_dot_product_attention(*exact, is_causal=causal, scale=scale)
    grads = torch.autograd.grad(wanted, exact, gradient.double())
    assert short_attention.serves(q, k, v, scale=scale, causal=causal)
    with torch.no_grad():
        out, logs = short_attention.attention(q, k, v, scale=scale, causal=causal)
        found = short_attention.attention_backward(gradient, q, k, v, out, logs, scale=scale, causal=causal)
    assert (out - wanted).abs().max() < 1e-5
    for one, other in zip(found, grads, strict=True):
        assert (one - other).abs().max() < 3e-5


def test_keys_of_another_number_and_scores_that_would_overflow(kernels: str) -> None:
    q, k, v = torch.randn(2, 3, 7, 16) * 90, torch.randn(2, 3, 19, 16) * 90, torch.randn(2, 3, 19, 16)
    out, _ = short_attention.attention(q, k, v, scale=1.0, causal=False)
    wanted = F.scaled_dot_product_attention(q.double(), k.double(), v.double(), scale=1.0)
    assert (out - wanted).abs().max() < 1e-2  # scores of 1e5 in float32


def test_it_is_taken_in_training_alone() -> None:
    """Without gradients, and for whoever follows operations, it is torch's kernel, whose operations are known."""
    q, k, v = tensors(2, 3, 11, 16)
    attend = partial(hw.attend, mask=hw.causal())
    learnt = attend(q, k, v)
    if short_attention.serves(q, k, v, scale=0.25, causal=True):
        assert "Short" in _functions(learnt)
    with switched_off():
        assert "Short" not in _functions(attend(q, k, v))
    with FlopCounterMode(display=False):
        assert "Short" not in _functions(attend(q, k, v))
    with torch.no_grad():
        assert (attend(q, k, v) - learnt).abs().max() < 1e-6


def _functions(x: Tensor) -> str:
    """The names of the operations behind a result."""
    names, waiting = [], [x.grad_fn]
    while waiting:
        node = waiting.pop()
        if node is not None:
            names.append(type(node).__name__)
            waiting += [parent for parent, _ in node.next_functions]
    return " ".join(names)


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda q, k, v: (q.double(), k.double(), v.double()), "precision"),
        (lambda q, k, v: (q[..., :8], k[..., :8], v[..., :8]), "a width that fills no vector"),
        (lambda q, k, v: (q, k[:, :1], v[:, :1]), "shared key heads"),
        (lambda q, k, v: (q.mT.contiguous().mT, k, v), "strides"),
        (lambda q, k, v: (q.repeat(1, 1, 30, 1), k.repeat(1, 1, 30, 1), v.repeat(1, 1, 30, 1)), "length"),
        (lambda q, k, v: (q[:, :, :0], k, v), "nothing"),
    ],
)
def test_what_it_does_not_take(change, why: str) -> None:
    q, k, v = change(*tensors(2, 3, 11, 16))
    assert not short_attention.serves(q, k, v, scale=0.25, causal=False), why
    q, k, v = tensors(2, 3, 11, 16)
    assert not short_attention.serves(q, k, v, scale=-1.0, causal=False)
    assert not short_attention.serves(q[:, :, :7], k, v, scale=1.0, causal=True)
