"""Normalisation layers: parameters, records, and the same numbers as torch's layers."""

import pytest
import torch
from torch import nn

from headway.nn import BatchNorm, LayerNorm, RMSNorm, make_norm
from headway.nn.layers import UnbiasedLayerNorm, ZeroCenteredRMSNorm
from headway.ops.norm import layer_norm, rms_norm

B, L, D = 3, 5, 7


def draw(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def scrambled(module: nn.Module) -> nn.Module:
    """The module in float64 with random parameters, negative ones among them."""
    for seed, parameter in enumerate(module.double().parameters()):
        parameter.data = draw(*parameter.shape, seed=seed + 10)
    return module


@pytest.mark.parametrize("bias", [True, False])
def test_layer_norm_is_torchs(bias: bool) -> None:
    ours, theirs = scrambled(LayerNorm(D, eps=0.1, bias=bias)), nn.LayerNorm(D, eps=0.1, bias=bias).double()
    theirs.load_state_dict(ours.state_dict())
    x = draw(B, L, D)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-14)
    assert [name for name, _ in ours.named_parameters()] == (["weight", "bias"] if bias else ["weight"])


def test_rms_norm_is_torchs() -> None:
    ours, theirs = scrambled(RMSNorm(D, eps=0.1)), nn.RMSNorm(D, eps=0.1).double()
    theirs.load_state_dict(ours.state_dict())
    x = draw(B, L, D)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-14)


def test_a_zero_centered_norm_has_weights_around_one() -> None:
    ours, theirs = scrambled(ZeroCenteredRMSNorm(D, eps=0.1)), nn.RMSNorm(D, eps=0.1).double()
    theirs.load_state_dict({"weight": 1 + ours.offset})
    x = draw(B, L, D)
    torch.testing.assert_close(ours(x), theirs(x), rtol=0, atol=1e-14)
    assert torch.equal(ZeroCenteredRMSNorm(D)(x), rms_norm(x, torch.ones(D), eps=1e-6))


def test_a_zero_centered_norm_adds_in_float32() -> None:
    """1 + 1/300 is no bfloat16, and the nearest one is 1; some of what is multiplied by it changes all the same."""
    norm = ZeroCenteredRMSNorm(D).bfloat16()
    norm.offset.data.fill_(1 / 300)
    x = draw(23, D).bfloat16()
    assert not torch.equal(norm(x), ZeroCenteredRMSNorm(D).bfloat16()(x))
    torch.testing.assert_close(norm(x), norm.float()(x.float()).bfloat16(), rtol=0, atol=0)


def test_defaults() -> None:
    x = draw(B, L, D).float()
    assert torch.equal(LayerNorm(D)(x), layer_norm(x, torch.ones(D), torch.zeros(D), eps=1e-5))
    assert torch.equal(RMSNorm(D)(x), rms_norm(x, torch.ones(D), eps=1e-6))


@pytest.mark.parametrize("shape", [(11, D), (B, L, D)])
def test_batch_norm_is_torchs_over_several_steps(shape: tuple[int, ...]) -> None:
    ours, theirs = scrambled(BatchNorm(D, eps=0.1, momentum=0.3)), nn.BatchNorm1d(D, eps=0.1, momentum=0.3).double()
    theirs.load_state_dict({"weight": ours.weight, "bias": ours.bias}, strict=False)
    for seed in range(3):
        x = (seed + 2) * draw(*shape, seed=seed) + seed
        want = theirs(x.reshape(-1, D)).reshape(shape)
        torch.testing.assert_close(ours(x), want, rtol=0, atol=1e-13)
        torch.testing.assert_close(ours.mean, theirs.running_mean, rtol=0, atol=1e-14)
        torch.testing.assert_close(ours.variance, theirs.running_var, rtol=0, atol=1e-13)
    before = ours.mean.clone(), ours.variance.clone()
    x = draw(*shape, seed=9)
    want = theirs.eval()(x.reshape(-1, D)).reshape(shape)
    torch.testing.assert_close(ours.eval()(x), want, rtol=0, atol=1e-13)
    assert torch.equal(before[0], ours.mean)
    assert torch.equal(before[1], ours.variance)


def test_batch_norm_trains_like_torchs() -> None:
    ours, theirs = scrambled(BatchNorm(D)), nn.BatchNorm1d(D).double()
    theirs.load_state_dict({"weight": ours.weight, "bias": ours.bias}, strict=False)
    x, upstream = draw(11, D).requires_grad_(), draw(11, D, seed=1)
    found = torch.autograd.grad(ours(x), (x, ours.weight, ours.bias), upstream)
    want = torch.autograd.grad(theirs(x), (x, theirs.weight, theirs.bias), upstream)
    for one, two in zip(found, want, strict=True):
        torch.testing.assert_close(one, two, rtol=0, atol=1e-12)


def test_batch_norm_keeps_its_record_in_the_state() -> None:
    layer = BatchNorm(D)
    layer(draw(B, L, D).float())
    again = BatchNorm(D)
    again.load_state_dict(layer.state_dict())
    assert set(layer.state_dict()) == {"weight", "bias", "mean", "variance"}
    x = draw(1, D).float()
    assert torch.equal(layer.eval()(x), again.eval()(x))


def test_one_row_cannot_train_a_batch_norm() -> None:
    with pytest.raises(ValueError, match=r"at least 2 rows; shape \(1, 1, 7\) has 1"):
        BatchNorm(D)(torch.zeros(1, 1, D))
    assert torch.equal(BatchNorm(D).eval()(torch.zeros(1, 1, D)), torch.zeros(1, 1, D))


@pytest.mark.parametrize(
    ("kind", "made"),
    [("layer", LayerNorm), ("layer_unbiased", UnbiasedLayerNorm), ("rms", RMSNorm), ("batch", BatchNorm)],
)
def test_make_norm(kind: str, made: type) -> None:
    norm = make_norm(kind, D)
    assert type(norm) is made
    assert norm.eps == made(D).eps
    assert norm.weight.shape == (D,)
    assert make_norm(kind, D, eps=0.25).eps == 0.25


def test_a_layer_norm_without_bias_is_torchs() -> None:
    x, norm = draw(B, L, D), make_norm("layer_unbiased", D, eps=0.25).double()
    with torch.no_grad():
        norm.weight.copy_(draw(D))
    assert set(norm.state_dict()) == {"weight"}
    torch.testing.assert_close(norm(x), torch.nn.functional.layer_norm(x, (D,), norm.weight, None, 0.25))


def test_make_norm_none_hands_its_input_on() -> None:
    x = draw(B, L, D)
    assert make_norm("none", D, eps=0.1)(x) is x


def test_make_norm_suggests_the_nearest() -> None:
    with pytest.raises(
        ValueError,
        match=r"no norm 'lyaer' \(did you mean layer\?\); there are layer, layer_unbiased, rms, .*, batch, none",
    ):
        make_norm("lyaer", D)


def test_representation() -> None:
    assert repr(LayerNorm(D, bias=False)) == "LayerNorm(7, eps=1e-05, bias=False)"
    assert repr(BatchNorm(D)) == "BatchNorm(7, eps=1e-05, momentum=0.1)"
