"""Who depends on whom under LayerNorm, RMSNorm and BatchNorm, and how long the rows come out.

Dependence is read off float64 Jacobians: entries that must not matter are exactly 0, entries that must are not.
"""

from collections.abc import Callable

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from torch import Tensor, nn

from headway.nn import BatchNorm, LayerNorm, RMSNorm
from headway.ops.norm import layer_norm, layer_norm_equation, rms_norm, rms_norm_equation

# From 3 columns and 3 rows on: two entries are always normalised to ±1, whatever they are (shown below).
TABLES = st.tuples(st.integers(3, 7), st.integers(3, 7))
SEEDS = st.integers(0, 999)
EPS = st.sampled_from([0.0, 1e-5, 0.5])
MODES = st.booleans()


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def scrambled(module: nn.Module, *, training: bool, seed: int) -> nn.Module:
    """Float64, random vectors for scale and shift with entries of both signs, and a record that is not 0 and 1."""
    for number, (name, tensor) in enumerate(module.double().state_dict(keep_vars=True).items()):
        values = draw(*tensor.shape, seed=seed + 1000 * (number + 1))
        if name == "weight":
            values[0], values[1] = -values[0].abs(), values[1].abs()
        tensor.data = values.abs() + 0.1 if name == "variance" else values
    return module.train(training)


def dependence(function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
    """depends[i, j, a, b]: whether y_ij changes with x_ab."""
    return torch.autograd.functional.jacobian(function, x) != 0


def same(size: int) -> Tensor:
    return torch.eye(size, dtype=torch.bool)


def own_row(rows: int, columns: int) -> Tensor:
    return same(rows)[:, None, :, None].expand(rows, columns, rows, columns)


def own_column(rows: int, columns: int) -> Tensor:
    return same(columns)[None, :, None, :].expand(rows, columns, rows, columns)


@pytest.mark.parametrize("norm", [LayerNorm, RMSNorm])
@given(shape=TABLES, seed=SEEDS, eps=EPS, training=MODES)
def test_layer_and_rms_norm_depend_on_their_own_row_and_all_of_it(
    norm: type, shape: tuple[int, int], seed: int, eps: float, training: bool
) -> None:
    module = scrambled(norm(shape[1], eps=eps), training=training, seed=seed)
    assert torch.equal(dependence(module, draw(*shape, seed=seed)), own_row(*shape))


@given(shape=TABLES, seed=SEEDS, eps=EPS)
def test_batch_norm_depends_on_its_own_column_in_training(shape: tuple[int, int], seed: int, eps: float) -> None:
    module = scrambled(BatchNorm(shape[1], eps=eps), training=True, seed=seed)
    assert torch.equal(dependence(module, draw(*shape, seed=seed)), own_column(*shape))


@given(shape=TABLES, seed=SEEDS, eps=EPS)
def test_batch_norm_depends_on_its_own_entry_in_eval(shape: tuple[int, int], seed: int, eps: float) -> None:
    module = scrambled(BatchNorm(shape[1], eps=eps), training=False, seed=seed)
    assert torch.equal(dependence(module, draw(*shape, seed=seed)), own_row(*shape) & own_column(*shape))


@given(batch=st.integers(2, 3), shape=TABLES, seed=SEEDS)
def test_batch_norm_counts_batch_and_length_alike(batch: int, shape: tuple[int, int], seed: int) -> None:
    """On B L D the column runs through the whole batch: a sequence then depends on its neighbours in the batch."""
    module, x = scrambled(BatchNorm(shape[1]), training=True, seed=seed), draw(batch, *shape, seed=seed)
    depends = dependence(module, x).flatten(3, 4).flatten(0, 1)
    assert torch.equal(depends, own_column(batch * shape[0], shape[1]))
    layer = scrambled(LayerNorm(shape[1]), training=True, seed=seed)
    assert torch.equal(dependence(layer, x).flatten(3, 4).flatten(0, 1), own_row(batch * shape[0], shape[1]))


@given(shape=TABLES, seed=SEEDS, training=MODES)
def test_other_rows_do_not_change_a_bit(shape: tuple[int, int], seed: int, training: bool) -> None:
    """The same law without derivatives: a NaN in another row arrives nowhere, except through a training BatchNorm."""
    x = draw(*shape, seed=seed)
    spoilt = x.clone()
    spoilt[-1] = float("nan")
    for norm in (LayerNorm, RMSNorm, BatchNorm):
        module = scrambled(norm(shape[1]), training=training, seed=seed)
        clean, dirty = module(x)[:-1], module(spoilt)[:-1]
        if norm is BatchNorm and training:
            assert dirty.isnan().all()
        else:
            assert torch.equal(clean, dirty)


def test_two_entries_become_signs() -> None:
    """Why the laws above begin at 3: at eps = 0 two entries become ±1, and depend on nothing."""
    y = layer_norm(draw(5, 2), eps=0.0)
    torch.testing.assert_close(y.abs(), torch.ones_like(y), rtol=0, atol=1e-14)


# Lengths


def vectors(width: int, seed: int) -> tuple[Tensor, Tensor]:
    """A scale with entries of both signs, none near 0, and a shift."""
    scale = draw(width, seed=seed + 1)
    scale = scale.sign() * (scale.abs() + 0.1)
    scale[0], scale[-1] = -scale[0].abs(), scale[-1].abs()
    return scale, draw(width, seed=seed + 2)


@pytest.mark.parametrize("form", [layer_norm, layer_norm_equation])
@given(rows=st.integers(1, 5), width=st.integers(2, 23), seed=SEEDS, eps=EPS)
def test_rows_of_layer_norm_have_one_length(
    form: Callable[..., Tensor], rows: int, width: int, seed: int, eps: float
) -> None:
    """‖(y - β) / γ‖ = √(d σ² / (σ² + ε)), which is √d at ε = 0."""
    x, (scale, shift) = draw(rows, width, seed=seed), vectors(width, seed)
    variance = x.var(dim=-1, correction=0)
    assume(variance.min() > 1e-6)
    lengths = ((form(x, scale, shift, eps=eps) - shift) / scale).norm(dim=-1)
    torch.testing.assert_close(lengths, (width * variance / (variance + eps)).sqrt(), rtol=1e-9, atol=0)
    if eps == 0:
        torch.testing.assert_close(lengths, torch.full_like(lengths, width**0.5), rtol=1e-9, atol=0)
    else:
        assert (lengths < width**0.5).all()


@pytest.mark.parametrize("form", [rms_norm, rms_norm_equation])
@given(rows=st.integers(1, 5), width=st.integers(2, 23), seed=SEEDS, eps=EPS)
def test_rows_of_rms_norm_have_one_length(
    form: Callable[..., Tensor], rows: int, width: int, seed: int, eps: float
) -> None:
    """‖y / γ‖ = √(d m / (m + ε)) with m the mean square, which is √d at ε = 0."""
    x, (scale, _) = draw(rows, width, seed=seed), vectors(width, seed)
    square = x.square().mean(dim=-1)
    lengths = (form(x, scale, eps=eps) / scale).norm(dim=-1)
    torch.testing.assert_close(lengths, (width * square / (square + eps)).sqrt(), rtol=1e-9, atol=0)
    if eps == 0:
        torch.testing.assert_close(lengths, torch.full_like(lengths, width**0.5), rtol=1e-9, atol=0)


def test_one_number_for_the_scale_is_not_enough() -> None:
    """‖y - β‖ = γ √d holds for one γ > 0 alone: (1, 2) is a counter-example for vectors, -1 for negative numbers."""
    x, shift = torch.tensor([[3.0, 5.0]], dtype=torch.float64), torch.tensor([7.0, 11.0], dtype=torch.float64)

    def length(first: float, second: float) -> float:
        scale = torch.tensor([first, second], dtype=torch.float64)
        return (layer_norm(x, scale, shift, eps=0.0) - shift).norm().item()

    assert length(3, 3) == pytest.approx(3 * 2**0.5, rel=1e-14)
    # y - β = (-1, 2): its length is √5, while no entry of γ and not their mean times √2 gives that.
    assert length(1, 2) == pytest.approx(5**0.5, rel=1e-14)
    for scalar in (1.0, 2.0, 1.5):
        assert abs(length(1, 2) - scalar * 2**0.5) > 0.1
    # A length is not negative.
    assert length(-1, -1) == pytest.approx(2**0.5, rel=1e-14)


@given(rows=st.integers(1, 5), width=st.integers(3, 23), seed=SEEDS)
def test_with_a_vector_rows_have_different_lengths(rows: int, width: int, seed: int) -> None:
    """The scalar statement found wrong on random rows as well: ‖y - β‖ differs from row to row, so no number fits."""
    x, (scale, shift) = draw(rows + 1, width, seed=seed), vectors(width, seed)
    scale[0] *= 10
    lengths = (layer_norm(x, scale, shift, eps=0.0) - shift).norm(dim=-1)
    assert lengths.max() - lengths.min() > 1e-6


@given(shape=TABLES, seed=SEEDS, shift=st.floats(-100, 100), stretch=st.floats(0.01, 100))
def test_layer_norm_forgets_shift_and_stretch_and_rms_norm_only_stretch(
    shape: tuple[int, int], seed: int, shift: float, stretch: float
) -> None:
    x = draw(*shape, seed=seed)
    torch.testing.assert_close(layer_norm(stretch * x + shift, eps=0.0), layer_norm(x, eps=0.0), rtol=0, atol=1e-8)
    torch.testing.assert_close(rms_norm(stretch * x, eps=0.0), rms_norm(x, eps=0.0), rtol=0, atol=1e-12)
    assert (rms_norm(x + 1.0, eps=0.0) - rms_norm(x, eps=0.0)).abs().max() > 1e-3
