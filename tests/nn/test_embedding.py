"""Position embeddings and biases as layers; and what adding positions does to permutation equivariance."""

from collections.abc import Callable, Iterator

import pytest
import torch
import torch.nn.functional as F
from jaxtyping import config
from torch import Tensor, nn

from headway.nn import (
    AlibiBias,
    ClippedBias,
    LearnedGridPositions,
    LearnedPositions,
    RelativeBias,
    SinusoidalGridPositions,
    SinusoidalPositions,
)
from headway.nn.init import initialise, normal
from headway.nn.layers import BatchNorm, LayerNorm, RMSNorm
from headway.ops.bias import alibi_slopes, relative_bucket
from headway.ops.mask.pairs import Pairs
from headway.ops.position import sinusoidal, sinusoidal_grid
from headway.ops.rotary import apply_rotary, rotary_table

B, L, D, H = 2, 5, 14, 3
POSITIONS = torch.tensor([[0, 3, 1, 1, 10], [7, 6, 5, 4, 3]])

LAYERS: dict[str, Callable[[], nn.Module]] = {
    "sinusoidal": lambda: SinusoidalPositions(D),
    "learned": lambda: LearnedPositions(11, D),
    "sinusoidal grid": lambda: SinusoidalGridPositions(3, 5, D),
    "learned grid": lambda: LearnedGridPositions(3, 5, D),
}


@pytest.fixture
def unchecked() -> Iterator[None]:
    """A user's call: annotations are not checked, so that the library's own sentence is what one sees."""
    config.update("jaxtyping_disable", True)
    yield
    config.update("jaxtyping_disable", False)


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


# Embeddings


def test_sinusoidal_positions_are_added() -> None:
    x = draw(B, L, D)
    want = x + sinusoidal(POSITIONS, width=D, base=50.0, dtype=torch.float64)
    assert torch.equal(SinusoidalPositions(D, base=50.0)(x, POSITIONS), want)


def test_learned_positions_are_looked_up() -> None:
    layer, x = LearnedPositions(11, D).double(), draw(B, L, D)
    out = layer(x, POSITIONS)
    for b in range(B):
        for place in range(L):
            assert torch.equal(out[b, place], x[b, place] + layer.weight[POSITIONS[b, place]])


def test_grid_positions_are_cells_row_by_row() -> None:
    x, cells = draw(B, L, D), torch.tensor([0, 4, 5, 14, 7])
    want = x + sinusoidal_grid(3, 5, width=D, dtype=torch.float64)[cells]
    assert torch.equal(SinusoidalGridPositions(3, 5, D)(x, cells), want)
    learned = LearnedGridPositions(3, 5, D).double()
    out = learned(x, cells)
    for place, (row, column) in enumerate([(0, 0), (0, 4), (1, 0), (2, 4), (1, 2)]):
        want = torch.cat([learned.row[row], learned.column[column]])
        torch.testing.assert_close(out[:, place] - x[:, place], want.expand(B, -1), rtol=0, atol=1e-15)
    assert {name: tuple(p.shape) for name, p in learned.named_parameters()} == {"row": (3, 7), "column": (5, 7)}


@pytest.mark.parametrize("name", list(LAYERS))
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_tokens_decide_the_dtype_and_rows_share_positions(name: str, dtype: torch.dtype) -> None:
    layer, x = LAYERS[name](), draw(B, L, D).to(dtype)
    shared = layer(x, POSITIONS[0])
    assert shared.dtype == dtype
    assert torch.equal(shared, layer(x, POSITIONS[:1].expand(B, -1)))
    assert torch.equal(shared, layer(x, POSITIONS[:1]))
    assert layer(x[:, :0], POSITIONS[:, :0]).shape == (B, 0, D)


@pytest.mark.parametrize("name", list(LAYERS))
@pytest.mark.parametrize(("shape", "positions"), [((B, L, D), [1]), ((B, L, D), [[0] * L] * 3), ((B, L, 1), [0] * L)])
def test_nothing_is_broadcast_by_mistake(name: str, shape: tuple, positions: list, unchecked: None) -> None:
    with pytest.raises(ValueError, match=r"position vectors of shape .* do not fit tokens of shape"):
        LAYERS[name]()(draw(*shape), torch.tensor(positions))


@pytest.mark.parametrize(
    ("name", "position", "sentence"),
    [
        (
            "learned",
            11,
            "position 11 is past the table of 11 learned positions; shorten the input to 11 tokens, or build",
        ),
        ("learned", 1024, "position 1024 is past the table of 11 learned positions; .* at least 1025"),
        ("learned", -1, "position -1 is before the table of 11 learned positions"),
        ("learned grid", 15, "position 15 is past the table of 15 cells of a 3 x 5 grid"),
        ("learned grid", -2, "position -2 is before the table of 15 cells"),
        ("sinusoidal grid", 15, "position 15 is past the table of 15 cells of a 3 x 5 grid"),
    ],
)
def test_positions_outside_the_table_are_refused(name: str, position: int, sentence: str) -> None:
    layer, x = LAYERS[name](), draw(B, L, D)
    layer(x, torch.tensor([0, 1, 2, 3, 10]))
    with pytest.raises(ValueError, match=sentence):
        layer(x, torch.tensor([0, 1, position, 3, 4]))


def test_grids_need_an_even_width() -> None:
    for grid in (LearnedGridPositions, SinusoidalGridPositions):
        with pytest.raises(ValueError, match="width 7 is odd"):
            grid(3, 5, 7)(draw(B, L, 7), torch.arange(L))


def test_only_positions_that_occur_are_trained() -> None:
    layer = LearnedPositions(11, D).double()
    layer(draw(B, L, D), torch.tensor([0, 2, 2, 5, 7])).sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad[:, 0].tolist() == [2, 0, 4, 0, 0, 2, 0, 2, 0, 0, 0]


# Equivariance: "john loves mary" and "mary loves john"


def attention(x: Tensor, turn: Callable[[Tensor], Tensor] = lambda z: z) -> Tensor:
    heads = x.unflatten(-1, (1, D)).transpose(1, 2)
    return F.scaled_dot_product_attention(turn(heads), turn(heads), heads).squeeze(1)


def broken(layer: Callable[[Tensor], Tensor]) -> float:
    """How far f(P x) is from P f(x) when the first and the last word change places."""
    words, swap = draw(1, 3, D), [2, 1, 0]
    return (layer(words[:, swap]) - layer(words)[:, swap]).abs().max().item()


@pytest.mark.parametrize("name", list(LAYERS))
def test_positions_break_equivariance(name: str) -> None:
    layer = LAYERS[name]().double()
    for parameter in layer.parameters():
        normal(parameter, std=1.0, generator=torch.Generator().manual_seed(0))
    assert broken(attention) < 1e-14
    assert broken(lambda x: attention(layer(x, torch.arange(3)))) > 1e-2
    # The same place for every word says nothing about order.
    assert broken(lambda x: attention(layer(x, torch.full((3,), 2)))) < 1e-14
    # Words that carry their positions along may stand in any order.
    words, swap = draw(1, 3, D), torch.tensor([2, 1, 0])
    moved = attention(layer(words[:, swap], swap))
    torch.testing.assert_close(moved, attention(layer(words, torch.arange(3)))[:, swap], rtol=0, atol=1e-13)


def test_rotary_breaks_equivariance() -> None:
    table = rotary_table(torch.arange(3), width=D, dtype=torch.float64)
    assert broken(lambda x: attention(x, lambda z: apply_rotary(z, table))) > 1e-2


# Biases


def test_relative_bias_holds_the_weight() -> None:
    layer = RelativeBias(H, buckets=14, max_distance=11).double()
    query, key = torch.arange(L)[None], torch.arange(7)[None]
    bias = layer()
    assert bias.parameters[0] is layer.weight
    table = bias.table(bias.parameters, Pairs.of(query, key))
    buckets = relative_bucket(key - query.mT, buckets=14, max_distance=11)
    assert torch.equal(table[0], layer.weight[buckets].permute(2, 0, 1))
    table.sum().backward()
    assert layer.weight.grad is not None
    assert layer.weight.grad[:, 0].tolist() == buckets.flatten().bincount(minlength=14).tolist()


def test_relative_bias_refuses_at_once() -> None:
    with pytest.raises(ValueError, match="7 buckets cannot be shared evenly"):
        RelativeBias(H, buckets=7)
    assert RelativeBias(H, buckets=7, bidirectional=False).weight.shape == (7, H)


def test_clipped_bias_holds_the_weight() -> None:
    layer = ClippedBias(H, reach=2).double()
    pairs = Pairs.of(torch.tensor([[5]]), torch.tensor([[0, 4, 5, 6, 9]]))
    table = layer().table(layer().parameters, pairs)
    assert torch.equal(table[0, :, 0], layer.weight[[0, 1, 2, 3, 4]].T)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_alibi_bias_keeps_its_slopes_in_any_dtype(dtype: torch.dtype) -> None:
    layer = AlibiBias(12).to(dtype)  # 6 heads would have powers of two only, which bfloat16 holds
    wide = torch.promote_types(dtype, torch.float32)
    assert torch.equal(layer().slopes, alibi_slopes(12, dtype=wide))
    assert not list(layer.parameters())
    assert not layer.state_dict()


# First values


def test_draws_come_from_the_generator_and_nothing_else() -> None:
    state = torch.get_rng_state()
    drawn = []
    for seed in (1, 1, 2):
        generator = torch.Generator().manual_seed(seed)
        weight = torch.empty(101, 103)
        normal(weight, std=0.5, generator=generator)
        drawn.append(weight)
    assert torch.equal(state, torch.get_rng_state())
    assert torch.equal(drawn[0], drawn[1])
    assert not torch.equal(drawn[0], drawn[2])
    assert drawn[0].std().item() == pytest.approx(0.5, rel=0.03)


def test_initialise_knows_every_part() -> None:
    def fresh() -> nn.ModuleDict:
        parts = {
            "embed": nn.Embedding(101, 103),
            "norm": LayerNorm(7),
            "rms": RMSNorm(7),
            "batch": BatchNorm(7),
            "plain": nn.Linear(103, 101, bias=False),
            "branch": nn.ModuleDict({"up": nn.Linear(103, 101), "down": nn.Linear(101, 103)}),
        }
        module = nn.ModuleDict(parts)
        for parameter in module.parameters():
            parameter.data.fill_(9.0)
        initialise(module, std=0.1, generator=torch.Generator().manual_seed(3))
        return module

    first, second = fresh(), fresh()
    for (name, one), two in zip(first.named_parameters(), second.parameters(), strict=True):
        assert torch.equal(one, two), name
        if name.endswith("bias"):
            assert one.eq(0).all(), name
        elif one.ndim == 1:
            assert one.eq(1).all(), name
        else:
            assert one.std().item() == pytest.approx(0.1, rel=0.04), name
