"""Bad input: a ValueError that names the sizes and the way out, or a right result; never a silent wrong one."""

from typing import Any

import pytest
import torch
from torch import Tensor

from headway.audit.mechanisms.trials import outcome
from headway.ops.attention import MECHANISMS, attend, attend_call, weights
from headway.ops.bias import Alibi
from headway.ops.mask import (
    Mask,
    allowed,
    causal,
    dilated,
    everything,
    padding,
    segments,
    selected,
    tiles,
    window,
)
from tests.ops.attention.calls import build
from tests.ops.mask.unchecked import outcomes
from tests.processes import Processes


def draw(*shape: int, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64).to(dtype)


Q, K, V = draw(2, 6, 5, 7), draw(2, 3, 5, 7), draw(2, 3, 5, 11)
NAMES = pytest.mark.parametrize("name", MECHANISMS)
OPTIONS: dict[str, dict[str, Any]] = {"local": {"window": 2}, "spatial": {"grid": (5, 1)}}


def arguments(name: str) -> dict[str, Any]:
    return OPTIONS.get(name, {}) | ({"vector": draw(1, 7)} if name == "additive" else {})


@pytest.mark.parametrize(
    ("tensors", "words"),
    [
        ((Q, K[:, :1].expand(-1, 4, -1, -1), V[:, :1].expand(-1, 4, -1, -1)), ["4 key/value heads", "6 query heads"]),
        ((Q, K[:, :0], V[:, :0]), ["0 key/value heads", "6 query heads"]),
        ((Q, K[..., :5], V), ["width 7", "width 5"]),
        ((Q, K[:, :, :3], V), ["(3, 3)", "(3, 5)"]),
        ((Q, K[:, :2], V), ["(2, 5)", "(3, 5)"]),
        ((Q[:1], K, V), ["batch", "1, 2, 2"]),
        ((Q[0], K, V), ["q", "B H L K", "(6, 5, 7)"]),
        ((Q, K, V[None]), ["v", "B G M W", "(1, 2, 3, 5, 11)"]),
        ((Q.float(), K, V), ["torch.float32", "torch.float64", "cast"]),
        ((Q, K.bfloat16(), V), ["torch.bfloat16"]),
        ((Q.long(), K.long(), V.long()), ["torch.int64", "floating-point"]),
        ((Q, K.to("meta"), V), ["cpu", "meta", "move"]),
    ],
)  # fmt: skip
def test_tensors_that_do_not_fit(tensors: tuple[Any, Any, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        build(*tensors, options={})
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"softcap": 0.0}, ["softcap", "positive", "0.0"]),
        ({"softcap": -2.0}, ["-2.0"]),
        ({"softcap": float("inf")}, ["softcap", "inf"]),
        ({"softcap": 1e-320}, ["softcap", "float32", "1e-320"]),  # 0 in float32
        ({"softcap": 1e39}, ["softcap", "float32", "1e+39"]),  # inf in float32
        ({"scale": float("nan")}, ["scale", "nan"]),
        ({"scale": float("inf")}, ["scale", "inf"]),
        ({"bias": torch.ones(4, 5)}, ["(4, 5)", "(2, 6, 5, 5)"]),
        ({"bias": torch.ones(1, 4, 5, 5)}, ["(1, 4, 5, 5)", "(2, 6, 5, 5)"]),
        ({"bias": torch.ones(1, 1, 5, 5, dtype=torch.bool)}, ["torch.bool", "mask="]),
        pytest.param({"bias": Alibi(torch.ones(4))}, ["4", "6"]),
        ({"vector": torch.ones(1, 7, dtype=torch.float64)}, ["vector", "softmax"]),
        ({"query_positions": torch.arange(5.0)}, ["query_positions", "whole numbers"]),
        ({"query_positions": torch.arange(4)}, ["query_positions", "(4,)", "(2, 5)"]),
        ({"key_positions": torch.zeros(3, 5, dtype=torch.long)}, ["key_positions", "(3, 5)", "(2, 5)"]),
        ({"mask": torch.ones(5, 5)}, ["torch.float32", "bias="]),
        ({"mask": torch.ones(5, 5, dtype=torch.int32)}, ["torch.int32"]),
        ({"mask": torch.ones(5, 4, dtype=torch.bool)}, ["1 x 1 x 5 x 4", "(2, 6, 5, 5)"]),
        ({"mask": padding(lengths=[1, 2, 3], total=5)}, ["3 x 5", "batch of 2"]),
    ],
)
def test_modifiers_that_do_not_fit(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        attend(Q, K, V, **given)
    for word in words:
        assert word in str(caught.value)


def test_positions_are_not_guessed() -> None:
    short = Q[:, :, :3]
    with pytest.raises(ValueError, match="3 queries against 5 keys"):
        attend(short, K, V, mask=causal())
    with pytest.raises(ValueError, match="pass both"):
        attend(short, K, V, mask=causal(), query_positions=torch.arange(3))
    with pytest.raises(ValueError, match="3 queries against 5 keys"):
        attend(short, K, V, mechanism="local", window=2)
    assert attend(short, K, V).shape == (2, 6, 3, 11)
    assert attend(short, K, V, mask=padding(lengths=[3, 5])).shape == (2, 6, 3, 11)


def test_a_bias_over_positions_does_not_guess_either() -> None:
    bias = Alibi(torch.ones(6, dtype=torch.float64))
    for call in (attend, weights):
        with pytest.raises(ValueError, match="positions"):
            call(Q[:, :, :3], K, V, bias=bias)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"mechanism": "sofmax"}, ["'sofmax'", "did you mean softmax?", "linear", "additive"]),
        ({"mechanism": "Local"}, ["'Local'", "did you mean local?"]),
        ({"mechanism": "zzz"}, ["'zzz'", "softmax, linear, local, spatial, channel, additive"]),
        ({"mechanism": "local", "windw": 3}, ["'windw'", "did you mean window?"]),
        ({"mechanism": "local", "window": 3, "dilatation": 2}, ["'dilatation'", "did you mean dilation?"]),
        ({"mechanism": "local"}, ["local needs the option 'window'"]),
        ({"mechanism": "local", "window": 0}, ["window=0", "greater than or equal to 1"]),
        ({"mechanism": "linear", "chunk": "many"}, ["chunk='many'"]),
        ({"mechanism": "softmax", "window": 3}, ["softmax has no option 'window'", "none"]),
        ({"mechanism": "linear", "feature": "ell"}, ["'ell'", "did you mean elu?", "relu"]),
        ({"mechanism": "spatial", "grid": (2, 3)}, ["2 x 3", "6 positions", "5 queries", "5 keys"]),
        ({"mechanism": "local", "window": 2, "grid": (2, 2)}, ["2 x 2", "4 positions", "5 queries"]),
        ({"mechanism": "local", "window": (9, 2)}, ["(9, 2)", "grid"]),
        ({"mechanism": "additive"}, ["vector="]),
        ({"mechanism": "channel"}, ["K = 7", "W = 11"]),
        ({"mechanism": "additive", "vector": torch.ones(2, 7)}, ["(2, 7)", "(6, 7)"]),
    ],
)
def test_mechanisms_and_options_that_do_not_exist(given: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ValueError) as caught:
        attend(Q, K, V, **given)
    for word in words:
        assert word in str(caught.value)


OTHERS: dict[str, Mask] = {
    "window": window(2),
    "dilated": dilated(2, dilation=2),
    "tiles": tiles(2),
    "selected": selected([1]),
    "segments": segments(torch.zeros(5, dtype=torch.long)),
    "table": allowed(torch.ones(5, 5, dtype=torch.bool)),
    "not causal": ~causal(),
    "or": causal() | padding(lengths=[3, 5]),
}


@pytest.mark.parametrize("mask", OTHERS)
def test_masks_that_a_mechanism_cannot_honour(mask: str) -> None:
    with pytest.raises(ValueError, match=r"linear attention sums over keys in order.*no other mask"):
        attend(Q, K, V, mask=OTHERS[mask], mechanism="linear")
    with pytest.raises(ValueError, match=r"channel attention mixes all positions.*padding alone"):
        attend(Q, K, K, mask=OTHERS[mask], mechanism="channel")


def test_causality_out_of_order_is_refused_by_linear() -> None:
    for places in (torch.arange(5).flip(0), torch.tensor([0, 1, 1, 2, 3])):
        with pytest.raises(ValueError, match="rise from token to token"):
            attend(Q, K, V, mask=causal(), mechanism="linear", query_positions=places, key_positions=places)
    with pytest.raises(ValueError, match="channel"):
        attend(Q, K, K, mask=causal(), mechanism="channel")


@pytest.mark.parametrize("given", [{"scale": 1.0}, {"softcap": 2.0}, {"bias": draw(1, 1, 5, 5)}])
def test_scores_that_do_not_exist_cannot_be_changed(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=f"linear attention has no score.*{next(iter(given))}"):
        attend(Q, K, V, mechanism="linear", **given)
    if "scale" not in given:
        with pytest.raises(ValueError, match="channel"):
            attend(Q, K, K, mechanism="channel", **given)


@NAMES
def test_a_mask_of_everything_is_no_mask(name: str) -> None:
    if name != "channel":
        found = attend(Q, K, K, mask=everything(), mechanism=name, **arguments(name))
        torch.testing.assert_close(found, attend(Q, K, K, mechanism=name, **arguments(name)))


# Sizes of 0 and 1 are no mistakes.


@NAMES
@pytest.mark.parametrize("sizes", [(0, 6, 5, 5), (2, 6, 0, 5), (2, 6, 5, 0), (2, 6, 0, 0), (2, 0, 5, 5)], ids=str)
def test_nothing_in_nothing_out(name: str, sizes: tuple[int, int, int, int]) -> None:
    batch, heads, queries, keys = sizes
    groups = 3 if heads else 1
    q, k = draw(batch, heads, queries, 7), draw(batch, groups, keys, 7)
    call = build(
        q, k, k, mechanism=name, options=OPTIONS.get(name, {}), **({"vector": draw(1, 7)} if name == "additive" else {})
    )
    out, *gradients = outcome(attend_call, call)
    assert out.shape == (batch, heads, queries, 7)
    assert not out.any()
    assert not any(x.any() for x in gradients)


def test_gradients_of_nothing_need_no_permission() -> None:
    leaves = [x[:0].clone().requires_grad_() for x in (Q, K, V)]
    found = torch.autograd.grad(attend(*leaves).sum(), leaves)
    assert [x.shape for x in found] == [x.shape for x in leaves]


def test_a_row_without_keys_is_zero_whatever_it_holds() -> None:
    assert not attend(Q * float("inf"), K[:, :, :0], V[:, :, :0]).any()


def test_heads_without_width_are_refused() -> None:
    with pytest.raises(ValueError, match="width 0"):
        attend(Q[..., :0], K[..., :0], V)


@NAMES
def test_one_token(name: str) -> None:
    q, k = draw(2, 6, 1, 7), draw(2, 3, 1, 7)
    options = {"spatial": {"grid": (1, 1)}}.get(name, arguments(name))
    for mask in (None, padding(lengths=[1, 0])):
        found = attend(q, k, k, mask=mask, mechanism=name, **options)
        kept = k.repeat_interleave(2, 1) * (torch.tensor([1.0, 1.0 if mask is None else 0.0])[:, None, None, None])
        if name != "channel":
            torch.testing.assert_close(found, kept)
    assert attend(q, k, k, mechanism=name, **options).shape == (2, 6, 1, 7)


# Expression -> words, as a user would write it, in a process without checked annotations.
SENTENCES = {
    "attend(q[0], k, v)": ["q", "B H L K", "(3, 5, 7)"],
    "attend(q.numpy(), k, v)": ["q", "ndarray"],
    "attend(q, k, v, mask=1)": ["mask", "int"],
    "attend(q, k, v, mask=causal() & torch.ones(5, 5))": ["allowed(...)"],
    "attend(q.long(), k.long(), v.long())": ["torch.int64"],
    "attend(q, k, v, mechanism='lokal', window=2)": ["did you mean local?"],
    "attend(q, k, v, query_positions=[0, 1, 2, 3, 4])": ["query_positions", "tensor"],
}


@pytest.fixture(scope="module")
def found(processes: Processes) -> dict[str, str]:
    return outcomes(processes, list(SENTENCES))


@pytest.mark.parametrize("expression", SENTENCES)
def test_a_user_reads_a_sentence(expression: str, found: dict[str, str]) -> None:
    assert found[expression].startswith("ValueError")
    for word in SENTENCES[expression]:
        assert word in found[expression]


def test_one_kind_of_positions_alone_is_refused() -> None:
    with pytest.raises(ValueError, match="belong together"):
        attend(Q, K, V, mask=causal(), key_positions=torch.arange(5) + 5)


def test_weights_of_an_empty_batch_are_empty() -> None:
    assert weights(Q[:0], K[:0], V[:0]).shape == (0, 6, 5, 5)
