"""Many rows times packed weights of 8 and 4 bits, against float64, the step program and the readable layer."""

import copy
import io

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headway.config.weights import INT4, INT8, Scheme
from headway.native import build
from headway.native.linear import LinearWeights, PackedLinear, multiplies_rows
from headway.native.program import Caches, Program
from headway.nn.quantized import QuantizedLinear

SCHEMES = [
    INT8,
    Scheme(bits=8, group=32, scale="float16"),
    INT4,
    Scheme(bits=4, group=8),
    Scheme(bits=4, group=32, minimum=True, scale="float16"),
]


def weights_of(layer: QuantizedLinear) -> LinearWeights:
    return LinearWeights(layer.weight, layer.bias, layer.scale, layer.minimum)


def by_program(kernels: object, weights: LinearWeights, x: Tensor) -> Tensor:
    program = Program(kernels)  # pyright: ignore[reportArgumentType]
    buffer = program.buffer(x.shape[1])
    program.linear(weights, buffer, None)
    program.seal()
    buffer[: len(x)] = x
    nothing = torch.zeros(len(x), dtype=torch.long)
    found = program.run(nothing, nothing, Caches([], [], 0))
    assert found is not None
    return found


@given(
    scheme=st.sampled_from(SCHEMES),
    rows=st.sampled_from([1, 3, 5, 67, 255, 259, 521]),
    outputs=st.sampled_from([1, 31, 67, 131]),
    inputs=st.sampled_from([32, 96, 224]),
    bias=st.booleans(),
)
@settings(max_examples=20)
def test_every_row_is_that_of_the_weights(scheme: Scheme, rows: int, outputs: int, inputs: int, bias: bool) -> None:
    layer = QuantizedLinear.of(torch.randn(outputs, inputs), torch.randn(outputs) if bias else None, scheme)
    x = torch.randn(rows, inputs)
    right = x.double() @ layer.dequantized(dtype=torch.float64).T + (0 if layer.bias is None else layer.bias.double())
    for variant in build.variants():
        kernels = build.load(variant)
        if not multiplies_rows(kernels, weights_of(layer)):
            assert variant != "avx512vnni"
            continue
        packed = PackedLinear(kernels, weights_of(layer))
        found = packed(x)
        size = x.abs().double() @ layer.dequantized(dtype=torch.float64).abs().T
        assert ((found - right).abs() <= size * 1e-6 + 1e-6).all()
        assert torch.equal(packed(x[rows // 2 :]), found[rows // 2 :])
        some = x[:: max(1, rows // 7)][:64]
        assert torch.equal(by_program(kernels, weights_of(layer), some), packed(some))


def test_whole_numbers_of_any_width() -> None:
    """Without groups a last quad of inputs may be filled up."""
    for inputs in (1, 2, 5, 131):
        layer = QuantizedLinear.of(torch.randn(37, inputs), None, INT8)
        for kernels in map(build.load, build.variants()):
            if multiplies_rows(kernels, weights_of(layer)):
                x = torch.randn(13, inputs)
                right = x.double() @ layer.dequantized(dtype=torch.float64).T
                assert torch.allclose(PackedLinear(kernels, weights_of(layer))(x).double(), right, rtol=0, atol=1e-4)


class TestTheLayer:
    """The layer takes the kernel where it may, and is then as near to float64 as torch's product."""

    @pytest.fixture(params=[INT8, INT4], ids=["int8", "int4"])
    def layer(self, request: pytest.FixtureRequest) -> QuantizedLinear:
        return QuantizedLinear.of(torch.randn(257, 128) * 0.05, torch.randn(257), request.param)

    def test_is_the_same_within_rounding(self, layer: QuantizedLinear, kernels: str) -> None:
        x = torch.randn(2, 71, 128)
        with torch.inference_mode():
            found = layer(x)
            assert (layer.packed() is not None) == (kernels == "avx512vnni")
            with build.switched_off():
                right = layer(x)
        assert found.shape == right.shape and torch.allclose(found, right, rtol=0, atol=1e-5)
        exact = layer(x.double())
        assert (found - exact).abs().max() < 2 * (right - exact).abs().max() + 1e-7

    def test_new_numbers_are_packed_again(self, layer: QuantizedLinear) -> None:
        x = torch.randn(3, 128)
        with torch.no_grad():
            before = layer(x)
            layer.scale.mul_(2)
            if layer.minimum is not None:
                layer.minimum.mul_(2)
            assert torch.allclose(layer(x) - layer.bias, 2 * (before - layer.bias), rtol=1e-4, atol=1e-4)
            layer.load_state_dict({name: torch.zeros_like(one) for name, one in layer.state_dict().items()})
            assert not layer(x).any()

    def test_copies_and_files_do_not_hold_packed_weights(self, layer: QuantizedLinear) -> None:
        x = torch.randn(3, 128)
        with torch.no_grad():
            before = layer(x)
            other = copy.deepcopy(layer)
            for part in (other.scale, other.minimum):
                if part is not None:
                    part.zero_()
            assert torch.equal(layer(x), before) and torch.equal(other(x), other.bias.expand(3, -1))  # pyright: ignore
            file = io.BytesIO()
            torch.save(layer, file)
            file.seek(0)
            assert torch.equal(torch.load(file, weights_only=False)(x), before)

    def test_rows_that_are_not_finite_stay_apart(self, layer: QuantizedLinear) -> None:
        x = torch.randn(9, 128)
        with torch.no_grad():
            before = layer(x)
            x[4, 3], x[7, 5] = torch.inf, torch.nan
            found = layer(x)
        sound = [0, 1, 2, 3, 5, 6, 8]
        assert torch.equal(found[sound], before[sound]) and not found[[4, 7]].isfinite().any()

    def test_gradients_and_float64_are_torchs(self, layer: QuantizedLinear) -> None:
        x = torch.randn(5, 128, requires_grad=True)
        layer(x).sum().backward()
        assert x.grad is not None and torch.allclose(x.grad[0], layer.dequantized().sum(0), rtol=0, atol=1e-4)
        assert layer(x.detach().double()).dtype == torch.float64


def test_weights_that_lie_the_other_way_round_are_packed_alike(kernels: str) -> None:
    library = build.load(kernels)
    for dtype in (torch.float32, torch.bfloat16):
        weight = torch.randn(53, 37).to(dtype)
        plain, turned = LinearWeights(weight), LinearWeights(weight.t().contiguous().t())
        assert turned.turned and turned.served and not plain.turned
        found = []
        for one in (plain, turned):
            program = Program(library)
            x = program.buffer(37)
            program.embed(weight.new_tensor(torch.eye(37).tolist()), None, x)
            program.linear(one, x, None)
            program.seal()
            found.append(program.run(torch.arange(11), torch.zeros(11), Caches([], [], 0)))
        assert torch.equal(found[0], found[1]) and torch.equal(found[0], weight.float().t()[:11])
