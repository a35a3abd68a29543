"""Reference, fast path and weights of every mechanism against NumPy, on generated calls; gradients by differences."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headway.audit.mechanisms.trials import trial
from headway.ops.attention import MECHANISMS, Call, attend, weights
from headway.ops.bias import Alibi, Relative
from headway.ops.mask import Mask, allowed, causal, padding, window
from headway.ops.mask.pairs import ALL
from tests.ops.attention import by_hand
from tests.ops.attention.calls import build
from tests.ops.attention.paths import force_tiles
from tests.thorough import examples

NAMES = pytest.mark.parametrize("name", MECHANISMS)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def check(name: str, call: Call) -> None:
    output, matrix = by_hand.attend(call)
    mechanism = MECHANISMS[name]
    for found in (mechanism.reference(call), mechanism.attend(call)):
        np.testing.assert_allclose(found.numpy(), output, atol=1e-12, rtol=1e-12)
    found = mechanism.weights(call, ALL, ALL)
    np.testing.assert_allclose(found.numpy(), matrix, atol=1e-12, rtol=1e-12)


@NAMES
@examples(20, 1000)
@given(seed=st.integers(0, 10**6))
def test_generated_calls(name: str, seed: int) -> None:
    check(name, trial(MECHANISMS[name], seed).call)


@NAMES
def test_generated_calls_in_tiles(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = force_tiles(monkeypatch, rows=3)
    for seed in range(12):
        check(name, trial(MECHANISMS[name], 1000 + seed).call)
    assert name in ("linear", "channel") or max(counted) > 1


@given(st.data())
def test_softmax_of_any_size(data: st.DataObject) -> None:
    size = st.integers(1, 7)
    batch, groups, share, queries, keys, key_width, value_width = (data.draw(size) for _ in range(7))
    q, k = draw(batch, groups * share, queries, key_width), draw(batch, groups, keys, key_width, seed=1)
    v = draw(batch, groups, keys, value_width, seed=2)
    mask = allowed(draw(batch, 1, queries, keys, seed=3) > data.draw(st.sampled_from([-9.0, 0.0, 9.0])))
    check("softmax", build(q, k, v, mask=mask, options={}, scale=data.draw(st.sampled_from([None, 1.0, 0.1]))))


@NAMES
def test_weights_of_some_rows_and_heads_are_part_of_all(name: str) -> None:
    for seed in range(6):
        call = trial(MECHANISMS[name], seed).call
        whole = MECHANISMS[name].weights(call, ALL, ALL)
        for rows, heads in ((slice(0, 5), slice(1, 3)), (slice(None, None, 2), slice(1, 2)), (slice(-1, None), ALL)):
            part = MECHANISMS[name].weights(call, rows, heads)
            torch.testing.assert_close(part, whole[:, heads, rows], atol=1e-13, rtol=1e-13)


# Gradients: the analytic ones against differences of the function itself, which knows nothing of any backward pass.

Q, K, V = draw(2, 6, 5, 3), draw(2, 3, 5, 3, seed=1), draw(2, 3, 5, 2, seed=2)
MASKS: dict[str, Mask | None] = {
    "none": None,
    "causal": causal(),
    "causal, padding": causal() & padding(lengths=[5, 3], side="left"),
    "window": window(2) & causal(),
    "table": allowed(draw(2, 6, 5, 5, seed=3) > 0),
}


def gradients(function: Callable[..., Tensor], *tensors: Tensor) -> None:
    leaves = [x.clone().requires_grad_() for x in tensors]
    assert torch.autograd.gradcheck(function, leaves, atol=1e-6, rtol=1e-6, fast_mode=True)


@pytest.mark.parametrize("tiles", [False, True], ids=["small", "tiles"])
@pytest.mark.parametrize("mask", MASKS)
def test_gradients_of_softmax(mask: str, tiles: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if tiles:
        force_tiles(monkeypatch, rows=2)
    common = {"mask": MASKS[mask], "query_positions": torch.arange(5), "key_positions": torch.arange(5)}
    gradients(lambda q, k, v: attend(q, k, v, **common), Q, K, V)
    gradients(lambda q, k, v: attend(q, k, v, softcap=1.5, scale=0.7, **common), Q, K, V)
    gradients(lambda q, k, v, b: attend(q, k, v, bias=b, **common), Q, K, V, draw(1, 6, 5, 5))
    gradients(lambda q, k, v, b: attend(q, k, v, bias=b, **common), Q, K, V, draw(2, 1, 1, 5))
    gradients(lambda q, k, v, s: attend(q, k, v, bias=Alibi(s), **common), Q, K, V, draw(6).abs())
    gradients(lambda q, k, v, w: attend(q, k, v, bias=Relative(w, max_distance=5), **common), Q, K, V, draw(8, 6))


@pytest.mark.parametrize(
    ("name", "options", "mask"),
    [
        ("linear", {"chunk": 2}, None),
        ("linear", {"chunk": 2}, causal()),
        ("linear", {"feature": "exp", "chunk": 3}, causal() & padding(lengths=[5, 3])),
        ("linear", {"feature": torch.exp}, padding(lengths=[2, 0], total=5)),
        ("local", {"window": 2}, causal()),
        ("local", {"window": 2, "dilation": 2, "selected": (1,)}, None),
        ("spatial", {"grid": (1, 5), "window": (1, 2)}, None),
        ("spatial", {"grid": (5, 1)}, causal()),
    ],
)
@pytest.mark.parametrize("tiles", [False, True], ids=["small", "tiles"])
def test_gradients_of_mechanisms(
    name: str, options: dict[str, Any], mask: Mask | None, tiles: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if tiles:
        force_tiles(monkeypatch, rows=2)
    gradients(lambda q, k, v: attend(q, k, v, mask=mask, mechanism=name, **options), Q, K, V)


def test_gradients_between_channels() -> None:
    for mask in (None, padding(lengths=[5, 2])):
        gradients(lambda q, k, v, mask=mask: attend(q, k, v, mask=mask, mechanism="channel"), Q, K, K + 1)


@pytest.mark.parametrize("mask", MASKS)
def test_gradients_of_additive(mask: str) -> None:
    for rows in (1, 6):
        vector = draw(rows, 3)
        gradients(lambda q, k, v, s: attend(q, k, v, mask=MASKS[mask], mechanism="additive", vector=s), Q, K, V, vector)


# Roles


@NAMES
def test_queries_and_keys_are_not_interchangeable(name: str) -> None:
    """Square inputs, as in a bare block: no shape error would tell a transpose."""
    q, k, v = (draw(2, 3, 4, 4, seed=seed) for seed in range(3))
    spec = {"local": {"window": 2}, "spatial": {"grid": (2, 2)}}.get(name, {})
    extra = {"vector": draw(3, 4, seed=9)} if name == "additive" else {}
    for mask in (None, causal()) if name != "channel" else (None,):
        call = build(q, k, v, mask=mask, mechanism=name, options=spec, **extra)
        check(name, call)
        swapped = MECHANISMS[name].attend(replace(call, q=k, k=q))
        if name != "additive" or mask is not None:
            assert (swapped - MECHANISMS[name].attend(call)).abs().max() > 0.01
        assert (MECHANISMS[name].attend(replace(call, k=v, v=k)) - MECHANISMS[name].attend(call)).abs().max() > 0.01


@NAMES
def test_layout_in_memory_changes_nothing(name: str) -> None:
    for seed in range(4):
        call = trial(MECHANISMS[name], seed).call
        moved = {axis: getattr(call, axis).transpose(1, 3).contiguous().transpose(1, 3) for axis in "qkv"}
        strided = {axis: torch.stack([x, x], -2).flatten(2, 3)[:, :, ::2] for axis, x in moved.items()}
        for other in (moved, strided):
            assert not other["q"].is_contiguous()
            found = MECHANISMS[name].attend(replace(call, **other))
            torch.testing.assert_close(found, MECHANISMS[name].attend(call), atol=1e-13, rtol=1e-13)


def test_attend_and_weights_of_the_package_are_the_records() -> None:
    mask = causal() & padding(lengths=[5, 3])
    call = build(Q, K, V, mask=mask, mechanism="local", options={"window": 3})
    assert torch.equal(attend(Q, K, V, mask=mask, mechanism="local", window=3), MECHANISMS["local"].attend(call))
    found = weights(Q, K, V, mask=mask, mechanism="local", window=3, rows=slice(1, 3), heads=slice(2, 4))
    assert torch.equal(found, MECHANISMS["local"].weights(call, slice(1, 3), slice(2, 4)))


def test_hand_worked_numbers() -> None:
    one = torch.tensor([[[[0.0], [1.0]]]], dtype=torch.float64)
    values = torch.tensor([[[[1.0], [3.0]]]], dtype=torch.float64)
    e = float(np.e)
    expected = {"softmax": [2.0, (1 + 3 * e) / (1 + e)], "linear": [(1 + 3 * 2) / 3, (1 + 3 * 2) / 3]}
    for name, rows in expected.items():
        torch.testing.assert_close(attend(one, one, values, mechanism=name).flatten().tolist(), rows)
    # Channels of a single one-channel group: the only weight is 1, so the output is v.
    assert torch.equal(attend(one, one, values, mechanism="channel"), values)
    vector = torch.tensor([[2.0]], dtype=torch.float64)
    scores = 2 * np.tanh([0.0, 1.0])
    found = attend(one, one, values, mechanism="additive", vector=vector)[0, 0, 0, 0]
    assert float(found) == pytest.approx(np.exp(scores) @ [1, 3] / np.exp(scores).sum())


@pytest.mark.parametrize("scale", [0.0, -0.7])
def test_a_scale_may_be_zero_or_negative(scale: float) -> None:
    for mask in MASKS.values():
        check("softmax", build(Q, K, V, mask=mask, scale=scale, options={}))


@pytest.mark.parametrize("scale", [0.0, -0.7])
def test_a_scale_may_be_zero_or_negative_with_gradients(scale: float) -> None:
    call = build(*(x.clone().requires_grad_() for x in (Q, K, V)), mask=causal(), scale=scale, options={})
    torch.testing.assert_close(MECHANISMS["softmax"].attend(call), MECHANISMS["softmax"].reference(call))


def test_a_row_of_bias_that_is_minus_infinity_means_one_thing() -> None:
    bias = torch.zeros(1, 1, 5, 5, dtype=torch.float64)
    bias[:, :, 2] = -torch.inf
    call = build(Q, K, V, bias=bias, options={})
    found, expected = MECHANISMS["softmax"].attend(call), MECHANISMS["softmax"].reference(call)
    torch.testing.assert_close(found, expected, equal_nan=True)
