"""The feed-forward layer, against NumPy in float64."""

import math
from collections.abc import Callable

import numpy as np
import pytest
import torch

from headway.nn import FeedForward
from headway.ops.activation import ACTIVATIONS, find_activation

B, L, D, F, O = 2, 3, 5, 7, 11  # noqa: E741


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def scrambled(layer: FeedForward) -> FeedForward:
    for seed, parameter in enumerate(layer.double().parameters()):
        parameter.data = draw(*parameter.shape, seed=seed + 10)
    return layer


def sigmoid(x: float) -> float:
    return 1 / (1 + math.exp(-x))


# Each curve in plain Python; GELU is x times the standard normal distribution function.
CURVES: dict[str, Callable[[float], float]] = {
    "relu": lambda x: max(x, 0.0),
    "relu_squared": lambda x: max(x, 0.0) ** 2,
    "gelu": lambda x: x * (1 + math.erf(x / math.sqrt(2))) / 2,
    "gelu_tanh": lambda x: x * (1 + math.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))) / 2,
    "gelu_sigmoid": lambda x: x * sigmoid(1.702 * x),
    "silu": lambda x: x * sigmoid(x),
    "sigmoid": sigmoid,
    "tanh": math.tanh,
    "identity": lambda x: x,
}


def test_every_activation_has_a_curve_here() -> None:
    assert set(CURVES) == set(ACTIVATIONS)


@pytest.mark.parametrize("name", list(CURVES))
def test_activations(name: str) -> None:
    x = torch.tensor([-30.0, -3.0, -0.5, 0.0, 0.1, 1.0, 4.0, 30.0], dtype=torch.float64)
    want = [CURVES[name](value) for value in x.tolist()]
    np.testing.assert_allclose(find_activation(name)(x).numpy(), want, rtol=1e-13, atol=1e-15)


def test_an_unknown_activation_suggests_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"no activation 'gleu' \(did you mean gelu\?\); there are relu, "):
        FeedForward(D, hidden=F, activation="gleu")


@pytest.mark.parametrize("activation", list(CURVES))
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("bias", [False, True])
def test_feed_forward_is_numpy(activation: str, gated: bool, bias: bool) -> None:
    layer = scrambled(FeedForward(D, hidden=F, activation=activation, gated=gated, bias=bias, output_width=O))
    x = draw(B, L, D)
    tensors = {name: value.detach().numpy() for name, value in layer.named_parameters()}

    def linear(name: str, rows: np.ndarray) -> np.ndarray:
        return rows @ tensors[f"{name}.weight"].T + tensors.get(f"{name}.bias", 0.0)

    act = np.vectorize(CURVES[activation])
    rows = x.numpy()
    hidden = act(linear("gate", rows)) * linear("up", rows) if gated else act(linear("up", rows))
    np.testing.assert_allclose(layer(x).detach().numpy(), linear("down", hidden), rtol=1e-11, atol=1e-11)


def test_names_and_widths() -> None:
    gated = FeedForward(D, hidden=F, gated=True, bias=False)
    shapes = {name: tuple(value.shape) for name, value in gated.named_parameters()}
    assert shapes == {"gate.weight": (F, D), "up.weight": (F, D), "down.weight": (D, F)}
    plain = FeedForward(D, hidden=F, output_width=O)
    shapes = {name: tuple(value.shape) for name, value in plain.named_parameters()}
    assert shapes == {"up.weight": (F, D), "up.bias": (F,), "down.weight": (O, F), "down.bias": (O,)}
    assert plain(torch.zeros(D)).shape == (O,)


@pytest.mark.parametrize("gated", [False, True])
def test_rows_do_not_see_one_another(gated: bool) -> None:
    layer = scrambled(FeedForward(D, hidden=F, gated=gated))
    jacobian = torch.autograd.functional.jacobian(layer, draw(L, D))
    for row in range(L):
        for other in range(L):
            assert bool((jacobian[row, :, other] != 0).all()) == (row == other)
            assert bool((jacobian[row, :, other] == 0).all()) == (row != other)


def test_gradients() -> None:
    layer = scrambled(FeedForward(D, hidden=F, activation="silu", gated=True))
    assert torch.autograd.gradcheck(layer, (draw(L, D).requires_grad_(),))


def test_another_width_is_refused() -> None:
    with pytest.raises(ValueError, match="feed-forward of width 5 got rows of width 7"):
        FeedForward(D, hidden=F)(torch.zeros(L, F))
