"""DaViT: its two kinds of attention by hand, their price (M6), windows that stand apart, and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.config.vision import DaViTConfig
from headway.hub.parts import parts_of
from headway.models import count, make, on_meta
from headway.models.davit import DaViT
from headway.ops.attention import Call, record_of
from headway.ops.attention.cost import Workload
from tests.fresh import fresh

# Grids of 7 x 11 and 4 x 6 in windows of 3 x 5, so that all of them are filled up.
SIZES: dict[str, Any] = dict(depths=(1, 2), widths=(6, 14), heads=(3, 2), image=(26, 43), window=(3, 5), ratio=2.5)


def model_of(**changes: Any) -> DaViT:
    model = fresh(DaViTConfig(**{**SIZES, "classes": 13, **changes}), dtype=torch.float64, std=0.3)
    for parameter in model.parameters():  # no norm is 1 and no bias is 0
        parameter.data.add_(0.1 * torch.randn_like(parameter))
    return model


def images_for(model: DaViT, count: int = 2) -> Tensor:
    size = model.config.image
    rows, columns = (size, size) if isinstance(size, int) else size
    return torch.randn(count, model.config.channels, rows, columns, dtype=torch.float64)


# The equations


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def projected(attention: Any, x: np.ndarray) -> tuple[np.ndarray, ...]:
    parts = {name: part.numpy() for name, part in parts_of(attention).items()}
    return tuple(x @ parts[f"{name}.weight"].T + parts[f"{name}.bias"] for name in ("query", "key", "value"))


def out(attention: Any, x: np.ndarray) -> np.ndarray:
    return x @ attention.out.weight.detach().numpy().T + attention.out.bias.detach().numpy()


def windows_by_hand(attention: Any, x: np.ndarray, heads: int) -> np.ndarray:
    """x Y X D with zeros added below and to the right; every window of 3 x 5 for itself, zeros included."""
    rows, columns, width = x.shape
    x = np.pad(x, ((0, -rows % 3), (0, -columns % 5), (0, 0)))
    found = np.zeros_like(x)
    for top in range(0, x.shape[0], 3):
        for left in range(0, x.shape[1], 5):
            q, k, v = projected(attention, x[top : top + 3, left : left + 5].reshape(15, width))
            parts = [slice(h * width // heads, (h + 1) * width // heads) for h in range(heads)]
            joined = [softmax(q[:, p] @ k[:, p].T / np.sqrt(width / heads)) @ v[:, p] for p in parts]
            found[top : top + 3, left : left + 5] = out(attention, np.concatenate(joined, -1)).reshape(3, 5, width)
    return found[:rows, :columns]


def channels_by_hand(attention: Any, x: np.ndarray, heads: int, scale: float) -> np.ndarray:
    """x Y X D; in each group a channel gathers channels: A_cd = softmax_d Σ_l q_lc k_ld · scale."""
    rows, columns, width = x.shape
    q, k, v = projected(attention, x.reshape(-1, width))
    parts = [slice(h * width // heads, (h + 1) * width // heads) for h in range(heads)]
    joined = [v[:, p] @ softmax(q[:, p].T @ k[:, p] * scale).T for p in parts]
    return out(attention, np.concatenate(joined, -1)).reshape(rows, columns, width)


@pytest.mark.parametrize("scaled", ["width", "positions"])
def test_both_kinds_of_attention_are_the_equations(scaled: str) -> None:
    model = model_of(scaled=scaled)
    for stage, (rows, columns) in enumerate(model.config.grids):
        width, heads = SIZES["widths"][stage], SIZES["heads"][stage]
        block, x = model.stages[stage].blocks[0], torch.randn(1, width, rows, columns, dtype=torch.float64)
        grid = x[0].permute(1, 2, 0).numpy()
        scale = (width / heads if scaled == "width" else rows * columns) ** -0.5
        right = [windows_by_hand(block.spatial.attention, grid, heads)]
        right += [channels_by_hand(block.channel.attention, grid, heads, scale)]
        for half, expected in zip((block.spatial, block.channel), right, strict=True):
            found = half._attend(x)[0].permute(1, 2, 0).detach().numpy()
            np.testing.assert_allclose(found, expected, atol=1e-11)


def test_a_block_is_two_branches_each_after_a_convolution() -> None:
    model = model_of()
    half, x = model.stages[1].blocks[1].spatial, torch.randn(2, 14, 4, 6, dtype=torch.float64)
    last = (0, 2, 3, 1)
    y = x + half.attention_positions(x)
    y = y + half._attend(half.attention_norm(y.permute(last)).permute(0, 3, 1, 2))
    y = y + half.feedforward_positions(y)
    y = y + half.feedforward(half.feedforward_norm(y.permute(last))).permute(0, 3, 1, 2)
    torch.testing.assert_close(half(x), y, rtol=0, atol=1e-13)
    # The convolution keeps channels apart: what enters channel 3 leaves in channel 3.
    x.requires_grad_()
    half.attention_positions(x)[:, 3].sum().backward()
    assert x.grad is not None and x.grad.abs().amax((0, 2, 3)).nonzero().flatten().tolist() == [3]


def test_windows_stand_apart_and_channels_join_them() -> None:
    """A position hears its own window in the first attention, and the whole grid in the second."""
    model = model_of()
    block, x = model.stages[0].blocks[0], torch.randn(1, 6, 7, 11, dtype=torch.float64, requires_grad=True)
    (heard,) = torch.autograd.grad(block.spatial._attend(x)[0, :, 4, 6].sum(), x)
    rows, columns = heard[0].abs().amax(0).nonzero(as_tuple=True)
    assert (int(rows.min()), int(rows.max()), int(columns.min()), int(columns.max())) == (3, 5, 5, 9)
    (heard,) = torch.autograd.grad(block.channel._attend(x)[0, :, 4, 6].sum(), x)
    assert bool((heard[0].abs().amax(0) > 0).all())


def test_the_price_of_both_kinds() -> None:
    """M6: 256 patches of width 512, one group: twice as many multiply-adds between channels as between patches."""
    model, found = fresh(DaViTConfig(depths=(1,), widths=(512,), heads=(1,), image=64, window=16)), []
    for half in (model.stages[0].blocks[0].spatial, model.stages[0].blocks[0].channel):
        half.attention.core.register_forward_pre_hook(lambda core, inputs: found.append(inputs[0]))
    with torch.no_grad():
        model(torch.zeros(1, 3, 64, 64))
    spatial, channel = (_price(call) for call in found)
    assert (spatial, channel) == (67_108_864, 134_217_728)
    projections = 3 * 256 * 512 * 512
    assert (channel + projections) / (spatial + projections) == 1.25


def _price(call: Call) -> int:
    return record_of(call.spec).operation(call.spec, Workload(call.sizes, call.mask, call.pairs)).forward.useful


# Images of any size


def test_the_grids_are_those_of_the_stages() -> None:
    model = model_of()
    shapes: list[tuple[int, ...]] = []
    for stage in model.stages:
        stage.register_forward_hook(lambda stage, inputs, x: shapes.append(tuple(x.shape[2:])))
    model(images_for(model))
    assert tuple(shapes) == model.config.grids == ((7, 11), (4, 6))


@pytest.mark.parametrize(("stem", "stride", "image"), [(3, 1, (8, 5)), (3, 2, (28, 27)), (5, 3, (17, 13)), (1, 1, 3)])
def test_a_stem_for_small_images(stem: int, stride: int, image: Any) -> None:
    """The first grid is the convolution's: one position every `stride` pixels, in the middle of stem x stem pixels."""
    model = model_of(stem=stem, stride=stride, image=image)
    x = images_for(model).requires_grad_()
    grid = model.stem.conv(x)
    assert tuple(grid.shape[2:]) == model.config.grids[0]
    (heard,) = torch.autograd.grad(grid[0, 0, 1, 1], x)
    rows = heard[0].abs().amax((0, 2)).nonzero().flatten()
    assert (int(rows.min()), int(rows.max())) == (max(0, stride - stem // 2), stride + stem // 2)
    assert model(x).shape == (2, 13)


def test_dropout_is_heard_in_training_alone() -> None:
    model, plain = model_of(dropout=0.5), model_of()
    plain.load_state_dict(model.state_dict())
    images = images_for(model)
    assert torch.equal(model.eval()(images), plain.eval()(images))
    assert not torch.equal(model.train()(images), model(images))
    assert torch.equal(plain.train()(images), plain.eval()(images))


@pytest.mark.parametrize("kernel", [2, 3])
def test_weights_serve_images_of_any_size(kernel: int) -> None:
    model = model_of(kernel=kernel, widths=(6, 6))
    other = model.resized((37, 10))
    assert all(one is two for one, two in zip(model.parameters(), other.parameters(), strict=True))
    assert other.config.grids == ((10, 3), (5, 2))
    assert other(images_for(other)).shape == (2, 13)
    assert torch.equal(other.resized((26, 43))(images := images_for(model)), model(images))
    with pytest.raises(ValueError, match=r"B C Y X = \(B, 3, 26, 43\), not \(2, 3, 37, 10\).*resized"):
        model(images_for(other))


def test_an_image_is_the_same_alone_and_in_a_batch() -> None:
    model = model_of()
    images = images_for(model, 3)
    whole = model(images)
    for row in range(3):
        torch.testing.assert_close(model(images[row : row + 1])[0], whole[row], rtol=0, atol=1e-12)


def test_without_classes_the_vector_comes_out() -> None:
    model = model_of(classes=0)
    images = images_for(model)
    grid = model.hidden_states(images)
    assert grid.shape == (2, 14, 4, 6)
    assert torch.equal(model(images), model.norm(grid.mean((2, 3))))
    with pytest.raises(ValueError, match="no classifier: its configuration would need classes=2"):
        model.logits(grid)


# Configurations


@pytest.mark.parametrize(("changes", "sentence"), [
    (dict(depths=(1, 2, 1)), "there are 3, 2 and 2"),
    (dict(depths=(), widths=(), heads=()), "there are 0, 0 and 0"),
    (dict(heads=(3, 4)), "width 14 is not divisible by heads 4"),
    (dict(kernel=4), "kernel=4"),
    (dict(stem=4), "a stem of 4 x 4 pixels every 4 has no middle or leaves pixels out"),
    (dict(stem=3), "a stem of 3 x 3 pixels every 4 has no middle or leaves pixels out: its side is odd"),
    (dict(dropout=1.0), "dropout=1.0"),
    (dict(labels=("a",)), "13 classes have 13 labels, not 1"),
    (dict(hedas=(3, 2)), "has no option 'hedas' .did you mean heads"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        DaViTConfig(**{**SIZES, "classes": 13, **changes})


def test_a_configuration_goes_through_json() -> None:
    config = DaViTConfig(**SIZES, classes=2, labels=("cat", "dog"), scaled="positions")
    assert DaViTConfig.model_validate_json(config.model_dump_json()) == config
    assert config.label(0) == "cat"


def test_it_is_built_without_memory_and_every_weight_is_heard() -> None:
    config = DaViTConfig(**SIZES, classes=13)
    assert all(parameter.is_meta for parameter in on_meta(config).parameters())
    assert count(config) == sum(parameter.numel() for parameter in make(config).parameters())
    model = model_of().train()
    model(images_for(model)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None and bool((parameter.grad != 0).any()), name
