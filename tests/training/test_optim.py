"""The optimiser: what it moves and how, clipping, and state that is loaded in place."""

import copy

import pytest
import torch
from torch import Tensor, nn

from headway.config.train import OptimConfig
from headway.presets.gpt2 import gpt2
from headway.training.muon import Muon, orthogonal
from headway.training.optim import Optimizer
from tests.fresh import fresh


def small() -> nn.Module:
    config = gpt2(width=12, layers=2, heads=3).model_copy(update={"vocabulary": 17, "length": 11})
    return fresh(config)


def draw_gradients(model: nn.Module, seed: int) -> None:
    draw = torch.Generator().manual_seed(seed)
    for parameter in model.parameters():
        parameter.grad = torch.randn(parameter.shape, generator=draw).to(parameter.dtype)


def train(model: nn.Module, optimizer: Optimizer, steps: range) -> None:
    for step in steps:
        optimizer.zero()
        draw_gradients(model, step)
        optimizer.clip(1.0)
        optimizer.step(1 / (1 + step))


def adam(weight: Tensor, gradients: list[Tensor], config: OptimConfig, *, decay: float) -> Tensor:
    """The equations of arXiv:1711.05101, algorithm 2."""
    (first, second), m, v = config.betas, torch.zeros_like(weight), torch.zeros_like(weight)
    for step, gradient in enumerate(gradients, 1):
        m, v = first * m + (1 - first) * gradient, second * v + (1 - second) * gradient**2
        move = (m / (1 - first**step)) / ((v / (1 - second**step)).sqrt() + config.eps)
        weight = weight - config.rate * (move + decay * weight)
    return weight


def test_it_is_adamw_and_decays_matrices_alone() -> None:
    config = OptimConfig(rate=0.01, decay=0.3, betas=(0.8, 0.95))
    draw = torch.Generator().manual_seed(3)
    shapes = {"matrix": (5, 7), "vector": (7,), "token": (1, 1, 7), "kernel": (3, 1, 2, 2), "bias": (1, 11)}
    weights = {
        name: nn.Parameter(torch.randn(shape, generator=draw, dtype=torch.float64)) for name, shape in shapes.items()
    }
    gradients = {
        name: [torch.randn(shape, generator=draw, dtype=torch.float64) for _ in range(3)]
        for name, shape in shapes.items()
    }
    expected = {
        name: adam(weight.detach(), gradients[name], config, decay=0.3 if name in ("matrix", "kernel") else 0.0)
        for name, weight in weights.items()
    }
    optimizer = Optimizer(weights.items(), config)
    for step in range(3):
        for name, weight in weights.items():
            weight.grad = gradients[name][step].clone()
        optimizer.step(1.0)
    for name, weight in weights.items():
        torch.testing.assert_close(weight.detach(), expected[name], rtol=1e-7, atol=0)


def test_a_factor_scales_the_rate_and_zero_stands_still() -> None:
    model = small()
    before = copy.deepcopy(model.state_dict())
    optimizer = Optimizer(model.named_parameters(), OptimConfig())
    draw_gradients(model, 1)
    optimizer.step(0.0)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())


def test_tied_weights_count_once_and_frozen_ones_not_at_all() -> None:
    shared, frozen = nn.Parameter(torch.ones(2, 3)), nn.Parameter(torch.ones(2), requires_grad=False)
    optimizer = Optimizer([("tokens", shared), ("head", shared), ("frozen", frozen)], OptimConfig(rate=0.1, decay=0.0))
    shared.grad = torch.ones(2, 3)
    optimizer.step(1.0)
    assert shared.detach().allclose(torch.tensor(0.9)) and {n.split("/")[0] for n in optimizer.tensors()} == {"tokens"}
    with pytest.raises(ValueError, match="nothing to train"):
        Optimizer([("frozen", frozen)], OptimConfig())


def test_clip() -> None:
    first, second = nn.Parameter(torch.zeros(2)), nn.Parameter(torch.zeros(1, 2))
    optimizer = Optimizer([("first", first), ("second", second)], OptimConfig())

    def gradients() -> list[float]:
        return [value for p in (first, second) if p.grad is not None for value in p.grad.flatten().tolist()]

    def give(*values: float) -> None:
        first.grad, second.grad = torch.tensor(values[:2]), torch.tensor([values[2:]])

    give(1.0, 2.0, 4.0, 10.0)
    assert optimizer.clip(5.5) == pytest.approx(11.0)
    assert gradients() == pytest.approx([0.5, 1.0, 2.0, 5.0], rel=1e-5)
    assert optimizer.clip(100.0) == pytest.approx(5.5)
    assert optimizer.clip(0.0) == pytest.approx(5.5)
    assert gradients() == pytest.approx([0.5, 1.0, 2.0, 5.0], rel=1e-5)
    give(1.0, float("inf"), 2.0, 3.0)
    assert optimizer.clip(1.0) == float("inf") and gradients() == [1.0, float("inf"), 2.0, 3.0]


@pytest.mark.parametrize("kind", ["adamw", "muon"])
@pytest.mark.parametrize("master", [False, True])
def test_state_loaded_in_place_goes_on_bit_for_bit(kind: str, master: bool) -> None:
    config = OptimConfig.model_validate({"kind": kind})
    dtype = torch.bfloat16 if master else torch.float32
    model = small().to(dtype)
    optimizer = Optimizer(model.named_parameters(), config, master=master)
    names = list(optimizer.tensors())
    train(model, optimizer, range(3))
    assert list(optimizer.tensors()) == names  # all of it was there from the start
    kept = {name: tensor.clone() for name, tensor in optimizer.tensors().items()}
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    train(model, optimizer, range(3, 6))

    other = small().to(dtype)
    again = Optimizer(other.named_parameters(), config, master=master)
    other.load_state_dict(weights)
    for name, tensor in again.tensors().items():
        tensor.copy_(kept[name])
    train(other, again, range(3, 6))
    for (name, ours), theirs in zip(other.state_dict().items(), model.state_dict().values(), strict=True):
        assert torch.equal(ours, theirs), name
    assert all(torch.equal(tensor, optimizer.tensors()[name]) for name, tensor in again.tensors().items())


def test_masters_add_up_what_bfloat16_would_lose() -> None:
    weight = nn.Parameter(torch.full((3,), 100.0, dtype=torch.bfloat16))
    optimizer = Optimizer([("weight", weight)], OptimConfig(rate=0.01), master=True)
    for _ in range(100):
        weight.grad = torch.ones(3, dtype=torch.bfloat16)
        optimizer.clip(0.0)
        optimizer.step(1.0)
        optimizer.zero()
    assert optimizer.tensors()["weight/master"].tolist() == pytest.approx([99.0] * 3, rel=1e-4)
    assert weight.tolist() == [99.0] * 3  # each step alone is below half of its last digit


def test_masters_are_clipped_in_float32() -> None:
    weight = nn.Parameter(torch.zeros(257, dtype=torch.bfloat16))
    optimizer = Optimizer([("weight", weight)], OptimConfig(), master=True)
    weight.grad = torch.ones(257, dtype=torch.bfloat16)
    assert optimizer.clip(1.0) == pytest.approx(257**0.5, rel=1e-6)


def test_muon_takes_the_matrices_of_blocks_and_adamw_the_rest() -> None:
    optimizer = Optimizer(small().named_parameters(), OptimConfig(kind="muon"))
    moved = {name.removesuffix("/momentum") for name in optimizer.tensors() if name.endswith("/momentum")}
    parts = ["attention.qkv", "attention.out", "feedforward.up", "feedforward.down"]
    assert moved == {f"stack.blocks.{layer}.{part}.weight" for layer in range(2) for part in parts}
    with pytest.raises(ValueError, match="use adamw"):
        Optimizer([("tokens.weight", nn.Parameter(torch.ones(2, 3)))], OptimConfig(kind="muon"))


def test_muon_moves_each_map_of_a_joined_matrix_for_itself() -> None:
    draw = torch.Generator().manual_seed(3)
    joined = nn.Parameter(torch.randn(6 + 4 + 2, 5, generator=draw))
    joined.grad = torch.randn(joined.shape, generator=draw)
    apart = [nn.Parameter(one.detach().clone()) for one in joined.split([6, 4, 2])]
    for one, gradient in zip(apart, joined.grad.split([6, 4, 2]), strict=True):
        one.grad = gradient.clone()
    Muon([joined], decay=0.1, rows=[(6, 4, 2)]).step(0.1)
    Muon(apart, decay=0.1).step(0.1)
    torch.testing.assert_close(joined, torch.cat(apart), rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize(("rows", "columns"), [(7, 13), (13, 7), (11, 11)])
def test_orthogonal_keeps_directions_and_evens_out_their_lengths(rows: int, columns: int) -> None:
    draw = torch.Generator().manual_seed(5)
    x = torch.randn(3, rows, columns, generator=draw, dtype=torch.float64)
    found = orthogonal(x)
    lengths = torch.linalg.svdvals(found)
    assert lengths.min() > 0.3 and lengths.max() < 1.3
    left, _, right = torch.linalg.svd(x, full_matrices=False)
    inner = left.mT @ found @ right.mT
    torch.testing.assert_close(inner, torch.diag_embed(inner.diagonal(dim1=1, dim2=2)), rtol=0, atol=1e-10)


def test_muon_is_torchs_up_to_its_precision() -> None:
    draw = torch.Generator().manual_seed(7)
    weights = [torch.randn(shape, generator=draw) for shape in ((13, 5), (13, 5), (5, 13), (7, 7))]
    ours, theirs = ([nn.Parameter(weight.clone()) for weight in weights] for _ in range(2))
    muon, peer = Muon(ours, decay=0.1), torch.optim.Muon(theirs, lr=0.02, weight_decay=0.1)
    for _ in range(3):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape, generator=draw)
            other.grad = mine.grad.clone()
        muon.step(0.02)
        peer.step()
    for mine, other, first in zip(ours, theirs, weights, strict=True):
        assert (mine - first).abs().max() > 0.02
        torch.testing.assert_close(mine, other, rtol=0, atol=2e-3)


@pytest.mark.parametrize("kind", ["adamw", "muon"])
def test_it_goes_downhill(kind: str) -> None:
    model = small()
    tokens = torch.arange(10).reshape(2, 5)
    optimizer = Optimizer(model.named_parameters(), OptimConfig.model_validate({"kind": kind, "rate": 0.01}))

    def loss() -> Tensor:
        return nn.functional.cross_entropy(model(tokens).flatten(0, 1), (tokens + 1).flatten())

    first = loss().item()
    for _ in range(30):
        optimizer.zero()
        loss().backward()
        optimizer.clip(1.0)
        optimizer.step(1.0)
    assert loss().item() < first / 2


def test_a_parameter_without_a_gradient_stands_still_and_counts_its_own_steps() -> None:
    first, second = (nn.Parameter(torch.ones(3, dtype=torch.float64)) for _ in range(2))
    config = OptimConfig(rate=0.1)
    optimizer = Optimizer([("first", first), ("second", second)], config)
    for step in range(3):
        first.grad, second.grad = torch.ones_like(first), torch.ones_like(second) if step == 2 else None
        optimizer.step(1.0)
    state = optimizer.tensors()
    assert (state["first/step"].item(), state["second/step"].item()) == (3, 1)
    gradients = [torch.ones(3, dtype=torch.float64)]
    torch.testing.assert_close(second.detach(), adam(torch.ones(3, dtype=torch.float64), gradients, config, decay=0.0))
