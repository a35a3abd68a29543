"""Linear maps with stored whole numbers: against NumPy's arithmetic, and the choice of scales against the usual one."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from headway.config.weights import INT4, INT8, Scheme
from headway.nn import Linear
from headway.nn.quantized import QuantizedLinear, dequantize, pack, quantize, unpack
from headway.ops.nonfinite_rows import careful

PLAIN = Scheme(bits=4, group=32, scale="float16")
SCHEMES = {
    "int8": INT8,
    "int8 groups": Scheme(bits=8, group=32, scale="float16"),
    "int4": PLAIN,
    "int4 of 64": Scheme(bits=4, group=64),
    "int4 minimum": INT4,
}


def weight_of(outputs: int, inputs: int, seed: int = 3) -> torch.Tensor:
    return torch.randn(outputs, inputs, generator=torch.Generator().manual_seed(seed)) * 0.05


def by_hand(layer: QuantizedLinear) -> np.ndarray:
    """The weights that the stored numbers mean, element by element in float64."""
    stored, scale = layer.weight.numpy(), layer.scale.double().numpy().reshape(layer.out_features, -1)
    minimum = None if layer.minimum is None else layer.minimum.double().numpy().reshape(layer.out_features, -1)
    found = np.empty((layer.out_features, layer.in_features))
    for o in range(layer.out_features):
        for i in range(layer.in_features):
            g = 0 if layer.group is None else i // layer.group
            if layer.bits == 8:
                found[o, i] = float(stored[o, i]) * scale[o, g]
            else:
                q = (int(stored[o, i // 2]) >> (4 * (i % 2))) & 15
                found[o, i] = (q - 8) * scale[o, g] if minimum is None else q * scale[o, g] + minimum[o, g]
    return found


@pytest.mark.parametrize("name", SCHEMES)
@pytest.mark.parametrize("bias", [True, False])
def test_the_product_is_that_of_the_weights_by_hand(name: str, bias: bool) -> None:
    plain = Linear(128, 7, bias=bias)
    layer = QuantizedLinear.of(plain.weight, plain.bias, SCHEMES[name])
    x = torch.randn(2, 3, 128, dtype=torch.float64)
    right = x.numpy() @ by_hand(layer).T + (0 if plain.bias is None else plain.bias.detach().double().numpy())
    assert np.allclose(layer(x).detach().numpy(), right, rtol=0, atol=1e-12)
    near = layer(x.float()).detach().numpy()
    assert near.dtype == np.float32 and np.allclose(near, right, rtol=0, atol=1e-5)
    assert np.allclose(layer.dequantized(dtype=torch.float64).numpy(), by_hand(layer), rtol=0, atol=1e-15)


@pytest.mark.parametrize(("name", "most"), {"int8": 0.009, "int4": 0.09, "int4 minimum": 0.08}.items())
def test_the_error_of_normal_weights_is_what_the_bits_allow(name: str, most: float) -> None:
    weight = weight_of(31, 256)
    layer = QuantizedLinear.of(weight, None, SCHEMES[name])
    error = ((layer.dequantized() - weight).norm() / weight.norm()).item()
    assert most / 2 < error < most


def test_the_search_is_better_than_the_largest_weight() -> None:
    groups = weight_of(53, 32 * 5).view(53, 5, 32)
    usual = (groups.abs().amax(-1, keepdim=True) / 7).half().float()
    usual_error = (groups - (groups / usual).round().clamp(-8, 7) * usual).square().sum()
    stored, scale, _ = quantize(groups.view(53, -1), PLAIN)
    error = (dequantize(stored, scale, bits=4) - groups.view(53, -1)).square().sum()
    assert error < 0.9 * usual_error


def test_weights_on_the_grid_come_back_exactly() -> None:
    """Weights that 4 bits and a minimum can say are found by the search, in groups that use the whole range."""
    numbers = torch.randint(0, 16, (11, 2, 32))
    numbers[..., 0], numbers[..., 31] = 0, 15
    first = (numbers * torch.rand(11, 2, 1).half().float() + torch.randn(11, 2, 1).half().float()).view(11, 64)
    again = QuantizedLinear.of(first, None, SCHEMES["int4 minimum"])
    assert torch.equal(unpack(again.weight).view(11, 2, 32).long(), numbers)
    assert torch.allclose(again.dequantized(), first, rtol=1e-3, atol=1e-5)
    zeros = QuantizedLinear.of(torch.zeros(3, 64), None, INT4)
    assert not zeros.dequantized().any()
    constant = QuantizedLinear.of(torch.full((3, 64), 0.5), None, SCHEMES["int4 minimum"])
    assert torch.equal(constant.dequantized(), torch.full((3, 64), 0.5))


@given(st.lists(st.integers(0, 15), min_size=2, max_size=34).filter(lambda found: len(found) % 2 == 0))
def test_two_numbers_in_a_byte_come_back(numbers: list[int]) -> None:
    given_numbers = torch.tensor([numbers])
    assert pack(given_numbers).shape == (1, len(numbers) // 2)
    assert unpack(pack(given_numbers)).tolist() == [numbers]


def test_many_outputs_are_computed_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = QuantizedLinear.of(weight_of(23, 64), None, INT4)
    x = torch.randn(5, 64, dtype=torch.float64)
    whole = layer(x)
    monkeypatch.setattr("headway.nn.quantized.TILE", 64 * 3)
    assert torch.allclose(layer(x), whole, rtol=0, atol=1e-14)
    assert torch.equal(QuantizedLinear.of(weight_of(23, 64), None, INT4).weight, layer.weight)


def test_scales_keep_their_precision_when_the_model_changes_its_own() -> None:
    layer = QuantizedLinear.of(weight_of(7, 32), torch.zeros(7), INT8)
    before = layer.scale.clone()
    layer.bfloat16()
    assert layer.scale.dtype == torch.float32 and torch.equal(layer.scale, before)
    assert layer.bias is not None and layer.bias.dtype == torch.bfloat16
    assert layer(torch.randn(2, 32).bfloat16()).dtype == torch.bfloat16
    layer.double()
    assert layer.weight.dtype == torch.int8 and torch.equal(layer.scale, before)


def test_gradients_reach_the_input_and_rows_stay_apart() -> None:
    layer = QuantizedLinear.of(weight_of(7, 32), None, INT4)
    x = torch.randn(3, 32, dtype=torch.float64, requires_grad=True)
    layer(x).sum().backward()
    assert x.grad is not None
    assert torch.allclose(x.grad, layer.dequantized(dtype=torch.float64).sum(0).expand(3, 32), rtol=0, atol=1e-12)
    spoilt = x.detach().clone()
    spoilt[1] = torch.nan
    with careful():
        found = layer(spoilt)
    assert found[1].isnan().all() and torch.equal(found[::2], layer(x)[::2])


def test_what_cannot_be_stored_is_refused() -> None:
    with pytest.raises(ValueError, match="50 inputs are no whole groups of 32"):
        QuantizedLinear(50, 3, scheme=INT4)
    with pytest.raises(ValueError, match="not finite"):
        QuantizedLinear.of(torch.full((2, 32), torch.inf), None, INT8)
    with pytest.raises(ValueError, match="too large for scales of float16"):
        QuantizedLinear.of(torch.full((2, 32), 1e7), None, PLAIN)
    with pytest.raises(ValueError, match="too large for scales of float16"):
        QuantizedLinear.of(torch.full((2, 32), 1e7), None, INT4)
    with pytest.raises(ValueError, match="even number of inputs"):
        Scheme(bits=4)
    with pytest.raises(ValueError, match="no minimum"):
        Scheme(bits=8, minimum=True)
