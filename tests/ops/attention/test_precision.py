"""Low precision against float64 on the same rounded inputs: outputs, gradients, and softmax in at least float32."""

from typing import Any

import pytest
import torch
from torch import Tensor

from headway.audit.mechanisms.trials import outcome
from headway.ops.attention import MECHANISMS, attend
from headway.ops.bias import Alibi
from headway.ops.mask import Mask, causal, padding, window
from tests.ops.attention.calls import build

# One rounding of the output and one of the weights: 2⁻²⁴, 2⁻⁹ and 2⁻¹² each, times sums of a few terms.
CLOSE = {torch.float32: 5e-6, torch.bfloat16: 0.03, torch.float16: 0.004}
LENGTH = 23
CASES: dict[str, tuple[str, dict[str, Any], Mask | None]] = {
    "plain": ("softmax", {}, None),
    "causal": ("softmax", {}, causal()),
    "causal, padding": ("softmax", {}, causal() & padding(lengths=[LENGTH, 9], side="left")),
    "window": ("softmax", {}, window(4) & causal()),
    "linear": ("linear", {"chunk": 5}, None),
    "linear, causal": ("linear", {"chunk": 5}, causal()),
    "local": ("local", {"window": 3, "dilation": 2, "selected": (4,)}, None),
    "spatial": ("spatial", {"grid": (LENGTH, 1), "window": (5, 1)}, None),
    "channel": ("channel", {}, None),
    "additive": ("additive", {}, causal()),
}
DTYPES = pytest.mark.parametrize("dtype", list(CLOSE), ids=["float32", "bfloat16", "float16"])


def draw(*shape: int, seed: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


def inputs(dtype: torch.dtype) -> list[Tensor]:
    return [draw(2, heads, LENGTH, 7, seed=seed, dtype=dtype) for seed, heads in enumerate((6, 3, 3))]


@DTYPES
@pytest.mark.parametrize("case", CASES)
def test_low_precision_is_close_to_float64(case: str, dtype: torch.dtype) -> None:
    name, options, mask = CASES[case]
    extra = {"vector": draw(1, 7, seed=9, dtype=dtype)} if name == "additive" else {}
    low = build(*inputs(dtype), mask=mask, mechanism=name, options=options, **extra)
    high = build(
        *(x.double() for x in inputs(dtype)), mask=mask, mechanism=name, options=options,
        **{key: value.double() for key, value in extra.items()},
    )  # fmt: skip
    upstream = draw(2, 6, LENGTH, 7, seed=5, dtype=dtype)
    found = outcome(MECHANISMS[name].attend, low, upstream=upstream)
    expected = outcome(MECHANISMS[name].attend, high, upstream=upstream.double())
    for x, y in zip(found, expected, strict=True):
        assert x.dtype == dtype
        close = CLOSE[dtype] * max(1.0, float(y.abs().max()))
        torch.testing.assert_close(x.double(), y, atol=close, rtol=0)
    with torch.no_grad():
        torch.testing.assert_close(MECHANISMS[name].attend(low).double(), expected[0], atol=CLOSE[dtype] * 3, rtol=0)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=["bfloat16", "float16"])
@pytest.mark.parametrize("cap", [None, 500.0], ids=["fused", "written out"])
def test_scores_and_softmax_are_in_float32(dtype: torch.dtype, cap: float | None) -> None:
    """Scores of 200 and 200.5: bfloat16 has no number between 200 and 201, so it would weigh them alike or 1 : e."""
    q = torch.tensor([16.0, 1.0]).to(dtype).view(1, 1, 1, 2)
    k = torch.tensor([[12.5, 0.0], [12.5, 0.5]]).to(dtype).view(1, 1, 2, 2)
    v = torch.tensor([[0.0], [1.0]]).to(dtype).view(1, 1, 2, 1)
    difference = 0.5 if cap is None else float(cap * (torch.tensor([200.5, 200.0]).double() / cap).tanh().diff().abs())
    expected = 1 / (1 + torch.tensor(-difference).exp())
    with torch.no_grad():
        found = attend(q, k, v, scale=1.0, softcap=cap)
    assert float(found) == pytest.approx(float(expected), abs=0.004)


FAR = 600


@pytest.mark.parametrize("bias", ["alibi", "table"])
def test_a_bias_keeps_its_precision_beside_bfloat16(bias: str) -> None:
    """A bias of 300.5 means the same in every precision of q, k, v; bfloat16 has no number between 300 and 302."""
    q, k, v = (draw(1, 2, FAR, 8, seed=seed, dtype=torch.bfloat16) for seed in range(3))
    table = draw(1, 1, FAR, FAR, seed=4, dtype=torch.float32) + 300
    rule = Alibi(torch.tensor([0.5, 1.0])) if bias == "alibi" else table
    exact = Alibi(rule.slopes.double()) if isinstance(rule, Alibi) else rule.double()
    for mask in (~window(500), causal() & padding(lengths=[FAR]), None):
        with torch.no_grad():
            found = attend(q, k, v, bias=rule, mask=mask)
            expected = attend(q.double(), k.double(), v.double(), bias=exact, mask=mask)
        torch.testing.assert_close(found.double(), expected, atol=0.04, rtol=0)


def test_large_scores_do_not_overflow() -> None:
    """exp(1000) is inf in every precision; softmax subtracts the maximum first."""
    q = torch.tensor([[1000.0], [-1000.0]]).view(1, 1, 2, 1)
    k, v = torch.tensor([[1.0], [-1.0]]).view(1, 1, 2, 1), torch.tensor([[3.0], [5.0]]).view(1, 1, 2, 1)
    for name in ("softmax", "local", "channel"):
        options = {"window": 2} if name == "local" else {}
        found = attend(q, k, v, mechanism=name, **options)
        assert found.isfinite().all()
    assert attend(q, k, v, scale=1.0).flatten().tolist() == [3.0, 5.0]


@pytest.mark.parametrize("cap", [1.0, 5.0, 50.0, 64.0, 65.0, 1e3, 1e6, 1e8])
def test_a_cap_of_any_size_keeps_the_digits_of_the_scores(cap: float) -> None:
    q, k, v = (torch.randn(1, 2, 64, 16) for _ in range(3))
    scores = q.double() @ k.double().mT / 4
    right = (cap * torch.tanh(scores / cap)).softmax(-1) @ v.double()
    assert float((attend(q, k, v, softcap=cap) - right).abs().max()) < 1e-5
