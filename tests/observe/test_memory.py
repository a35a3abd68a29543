"""During a pass queries and keys are kept and nothing else; afterwards only what is asked for is computed."""

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headway.config import Additive, AttentionConfig, Channel, Linear, Rotary
from headway.nn.attention import Attention as Layer
from headway.observe.attention import captured
from headway.observe.weights import CapturedAttention, Selection
from headway.ops.bias import Alibi, Relative, alibi_slopes
from headway.ops.mask import allowed, causal
from tests.observe.counting import Counting
from tests.observe.layers import drawn

HEADS, LENGTH, WIDTH = 6, 211, 42  # L·M = 44,521; the queries of all heads have 8,862 entries
ROWS, SOME = slice(40, 93), [4, 1]
ASKED = 53 * LENGTH * 2


def layer_of(**own: Any) -> Layer:
    torch.manual_seed(0)
    return Layer(AttentionConfig(width=WIDTH, heads=HEADS, **own)).eval()


FAST = {
    "plain": layer_of(),
    "causal": layer_of(causal=True, rotary=Rotary(width=4), kv_heads=2),
    "linear": layer_of(mechanism=Linear(chunk=16), causal=True),
    "channel": layer_of(mechanism=Channel()),
    "capped in tiles": layer_of(causal=True, softcap=7.0),
}


@pytest.mark.parametrize("name", FAST)
def test_the_fast_path_runs_as_it_did_and_nothing_large_is_made(name: str) -> None:
    layer, x = FAST[name], drawn(1, LENGTH, WIDTH)
    with torch.no_grad(), Counting() as off:
        layer(x)
    with torch.no_grad(), captured(layer) as found, Counting() as on:
        layer(x)
    copies = [one for one in on.names if one in ("clone", "detach", "empty_like", "copy_")]
    assert [one for one in on.names if one not in copies] == [one for one in off.names if one not in copies]
    assert sum(on.made) - sum(off.made) <= found[0].nbytes // 4 + 64
    if name in ("plain", "causal"):
        assert "_scaled_dot_product_flash_attention_for_cpu" in on.names
    if "tiles" not in name:
        assert on.largest < LENGTH * LENGTH


ASKING: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "plain": ({}, {}),
    "grouped": ({"kv_heads": 3, "causal": True}, {}),
    "alibi": ({"causal": True}, {"bias": Alibi(alibi_slopes(HEADS))}),
    "t5": ({}, {"bias": Relative(drawn(32, HEADS))}),
    "dense": ({}, {"bias": drawn(1, HEADS, LENGTH, LENGTH)}),
    "table": ({}, {"mask": allowed(drawn(1, HEADS, LENGTH, LENGTH) > 0) & causal()}),
    "linear": ({"mechanism": Linear()}, {}),
    "additive": ({"mechanism": Additive()}, {}),
}


@pytest.mark.parametrize("name", ASKING)
def test_only_the_rows_and_heads_asked_for_are_computed(name: str) -> None:
    own, passed = ASKING[name]
    layer = layer_of(**own)
    with torch.no_grad(), captured(layer) as found:
        layer(drawn(1, LENGTH, WIDTH), **passed)
    with Counting() as counted:
        some = found[0].weights(ROWS, SOME)
    assert some.shape == (1, 2, 53, LENGTH)
    assert counted.largest <= ASKED


def test_queries_and_keys_are_all_that_is_held() -> None:
    layer, x = layer_of(causal=True, kv_heads=3), drawn(1, LENGTH, WIDTH)
    with captured(layer) as found:
        layer(x)
    tensors = _tensors(found[0].calls[0])
    assert all(one.grad_fn is None for one in tensors), "the graph is kept alive"
    held = {one.untyped_storage().data_ptr(): one.untyped_storage().nbytes() for one in tensors}
    assert sum(held.values()) == found[0].nbytes == 4 * LENGTH * 7 * (HEADS + 3)


def _tensors(x: Any) -> list[Tensor]:
    if isinstance(x, Tensor):
        return [x]
    inner = vars(x).values() if hasattr(x, "__dict__") else x.values() if isinstance(x, dict) else ()
    return [one for part in inner for one in _tensors(part)]


class Written(nn.Module):
    """An attention that writes its weights out, drops some of them in place, and scribbles over q and k afterwards."""

    def __init__(self, fused: bool) -> None:
        super().__init__()
        self.fused = fused

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        q, k = q.clone(), k.clone()
        if self.fused:
            out = F.scaled_dot_product_attention(q, k, k)
        else:
            weights = F.dropout((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1), 0.5, training=True, inplace=True)
            out = weights @ k
        q.zero_()
        k.zero_()
        return out


@pytest.mark.parametrize("fused", [False, True])
def test_what_changes_after_the_call_is_not_seen(fused: bool) -> None:
    q, k = drawn(2, 3, 5, 7), drawn(2, 3, 11, 7, seed=2)
    model = Written(fused)
    with captured(model) as found:
        model(q, k)
    torch.testing.assert_close(found[0].weights(), (q @ k.mT * 7**-0.5).softmax(-1), rtol=0, atol=1e-6)


def test_written_weights_are_held_as_wanted() -> None:
    q, k, model = drawn(2, 5, 13, 7), drawn(2, 5, 11, 7, seed=2), Written(False)
    with captured(model) as found, captured(model, selection=Selection(heads=(3, 1, 9), rows=(4, 20))) as part:
        model(q, k)
    whole, some = found[0], part[0]
    assert some.shape == whole.shape == (2, 5, 13, 11)
    assert some.nbytes == 4 * 2 * 2 * 9 * 11 and whole.nbytes == 4 * 2 * 5 * 13 * 11
    assert torch.equal(some.weights(), whole.weights(slice(4, None), [3, 1]))
    assert torch.equal(some.weights(slice(6, 8), [1]), whole.weights(slice(6, 8), [1]))
    assert some.parts() is None
    with pytest.raises(ValueError, match="row 3 was not kept"):
        some.weights(slice(3, 6))
    with pytest.raises(ValueError, match="head 0 was not kept"):
        some.weights(heads=[0])


def _masked(table: Tensor) -> CapturedAttention:
    layer = layer_of()
    with torch.no_grad(), captured(layer) as found:
        layer(drawn(1, LENGTH, WIDTH), mask=table)
    return found[0]


def test_a_mask_that_is_changed_in_place_is_refused() -> None:
    table = drawn(1, HEADS, LENGTH, LENGTH) > 0
    found = _masked(table)
    found.weights(slice(0, 1))
    table[..., 0] = True
    with pytest.raises(ValueError, match="changed in place after the pass"):
        found.weights(slice(0, 1))


def test_a_small_mask_is_copied() -> None:
    table = drawn(1, 1, 1, LENGTH) > 0
    found = _masked(table)
    before = found.weights(slice(0, 3))
    table.logical_not_()
    assert torch.equal(found.weights(slice(0, 3)), before)


def test_the_weights_of_a_parameter_that_learns_stay() -> None:
    layer, bias = layer_of(), Relative(nn.Parameter(drawn(32, HEADS)))
    with captured(layer) as found:
        layer(drawn(1, LENGTH, WIDTH), bias=bias)
    before = found[0].weights(slice(0, 3))
    with torch.no_grad():
        bias.weight.mul_(3)
    assert torch.equal(found[0].weights(slice(0, 3)), before)


def test_inference_mode() -> None:
    layer, x = layer_of(causal=True), drawn(1, LENGTH, WIDTH)
    with torch.inference_mode(), captured(layer) as found:
        layer(x, bias=drawn(1, HEADS, LENGTH, LENGTH))
    assert found[0].weights(slice(7, 9)).sum().item() == pytest.approx(2 * HEADS)
