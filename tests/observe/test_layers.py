"""Our own layers, however configured: not a bit of the output changes, and the weights are those of the equation."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headway.config import Local, Spatial
from headway.observe.attention import captured
from headway.observe.weights import Selection
from headway.ops.attention import MECHANISMS, attend_call, record_of
from headway.ops.attention.local import pattern
from headway.ops.mask import tiles
from tests.observe.layers import BATCH, CASES, HEADS, LENGTH, SOFTMAX, WIDTH, call_in, drawn, layer_of, written_out


@pytest.mark.parametrize("learning", [False, True])
@pytest.mark.parametrize("name", CASES)
def test_not_a_bit_of_the_output_changes(name: str, learning: bool) -> None:
    case = CASES[name]
    layer = layer_of(case)

    def run() -> list[Tensor]:
        x = drawn(BATCH, LENGTH, WIDTH).requires_grad_(learning)
        out = layer(x, **case.passed)
        return [out, *(torch.autograd.grad(out.square().sum(), [x, *layer.parameters()]) if learning else ())]

    with torch.set_grad_enabled(learning):
        off = run()
        with captured(layer) as found:
            on = run()
    assert all(torch.equal(one, other) for one, other in zip(on, off, strict=True))
    assert len(found) == 1 and not found[0].weights().requires_grad


@pytest.mark.parametrize("name", CASES)
def test_weights_are_those_of_the_equation(name: str) -> None:
    case = CASES[name]
    layer, x = layer_of(case), drawn(BATCH, LENGTH, WIDTH)
    call = call_in(layer, case, x)
    with torch.no_grad(), captured(layer) as found:
        layer(x, **case.passed)
    (one,) = found
    wide = replace(call, q=call.q.double(), k=call.k.double(), v=call.v.double())
    wanted = record_of(call.spec).weights(wide, slice(None), slice(None))
    assert one.name == "" and one.mechanism == record_of(call.spec).name and one.shape == tuple(wanted.shape)
    torch.testing.assert_close(one.weights().double(), wanted, rtol=0, atol=1e-6)
    if name in SOFTMAX:
        extra = {Local: pattern, Spatial: lambda s: tiles(s.window, grid=s.grid) if s.window else None}
        own = extra.get(type(call.spec), lambda _: None)(call.spec)
        mask = call.mask if own is None else own if call.mask is None else own & call.mask
        whole = torch.from_numpy(written_out(replace(call, mask=mask)))
        torch.testing.assert_close(one.weights().double(), whole, rtol=0, atol=1e-6)
    rows, heads = slice(2, 6), [5, 0, 1]
    torch.testing.assert_close(one.weights(rows, heads), one.weights()[:, heads, rows], rtol=0, atol=1e-6)
    torch.testing.assert_close(
        one.weights(slice(1, None, 3), slice(1, 4)), one.weights()[:, 1:4, 1::3], atol=1e-6, rtol=0
    )


def test_every_mechanism_is_among_the_cases() -> None:
    assert {type(one.own.get("mechanism")) for one in CASES.values()} >= {
        record.spec for record in MECHANISMS.values() if record.name != "softmax"
    }


def test_half_precision_is_computed_in_float32() -> None:
    layer, x = layer_of(CASES["causal"]).bfloat16(), drawn(BATCH, LENGTH, WIDTH).bfloat16()
    call = call_in(layer, CASES["causal"], x)
    with torch.no_grad(), captured(layer) as found:
        layer(x)
    assert found[0].weights().dtype == torch.float32 and found[0].calls[0].q.dtype == torch.bfloat16  # type: ignore[union-attr]
    torch.testing.assert_close(found[0].weights().double(), torch.from_numpy(written_out(call)), rtol=0, atol=1e-6)


def test_layers_heads_and_rows_that_are_wanted() -> None:
    layers = torch.nn.Sequential(*(layer_of(CASES["causal"]) for _ in range(3)))
    with torch.no_grad(), captured(layers, selection=Selection(layers=(2, 0))) as found:
        layers(drawn(BATCH, LENGTH, WIDTH))
    assert [one.name for one in found] == ["0", "2"]
    with pytest.raises(ValueError, match="no head 6: this attention has heads 0 to 5"):
        found[0].weights(heads=[6])


def test_the_output_is_what_these_weights_gather() -> None:
    layer, x = layer_of(CASES["grouped"]), drawn(BATCH, LENGTH, WIDTH)
    call = call_in(layer, CASES["grouped"], x)
    with torch.no_grad(), captured(layer) as found:
        layer(x)
    v = call.v.repeat_interleave(HEADS // call.v.shape[1], 1)
    torch.testing.assert_close(found[0].weights() @ v, attend_call(call), rtol=1e-5, atol=1e-6)
