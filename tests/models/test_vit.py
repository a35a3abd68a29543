"""The vision Transformer: its equations by hand, cheap patterns on its grid (M5), and what is refused."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from headway.config import (
    AttentionConfig,
    BlockConfig,
    Channel,
    FeedForwardConfig,
    Local,
    Softmax,
    Spatial,
    StackConfig,
)
from headway.config.vision import VisionConfig
from headway.hub.parts import parts_of
from headway.models import count, make, on_meta
from headway.models.vit import Vision
from headway.ops.attention import Call, record_of
from headway.ops.attention.cost import Workload
from headway.ops.attention.local import pattern
from headway.ops.mask import Mask, tiles
from headway.presets.vision import vit
from headway.sizes import Cost
from tests.fresh import fresh

SIZES: dict[str, Any] = dict(
    width=22, heads=2, layers=2, hidden=31, patch=(3, 2), image=(15, 14), channels=3
)  # grid 5 x 7


def model_of(**changes: Any) -> Vision:
    """In float64, with weights large enough that every part is heard."""
    return fresh(vit(**{**SIZES, "classes": 13, **changes}), dtype=torch.float64, std=0.3)


def images_for(model: Vision, count: int = 3, seed: int = 0) -> Tensor:
    size = model.config.image
    rows, columns = (size, size) if isinstance(size, int) else size
    draw = torch.Generator().manual_seed(seed)
    return torch.randn(count, model.config.channels, rows, columns, dtype=torch.float64, generator=draw)


def calls_of(model: Vision, images: Tensor) -> list[Call]:
    """The attention calls of one forward pass."""
    found: list[Call] = []
    for block in model.stack.blocks:
        block.attention.core.register_forward_pre_hook(lambda core, inputs: found.append(inputs[0]))
    with torch.no_grad():
        model(images)
    return found


# The equations


def layer_norm(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    centred = x - x.mean(-1, keepdims=True)
    return centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-12) * weight + bias


def by_hand(model: Vision, image: np.ndarray) -> np.ndarray:
    """The logits of one image, written out with loops over patches and heads."""
    w = {name: value.numpy() for name, value in parts_of(model).items()}
    patches = [
        w["patches.weight"].reshape(22, -1) @ image[:, 3 * y : 3 * y + 3, 2 * x : 2 * x + 2].reshape(-1)
        + w["patches.bias"]
        for y in range(5)
        for x in range(7)
    ]
    h = np.stack([w["class_token"][0, 0], *patches]) + w["positions"][0]
    for i in range(2):
        b = {name.removeprefix(f"stack.blocks.{i}."): value for name, value in w.items()}
        x = layer_norm(h, b["attention_norm.weight"], b["attention_norm.bias"])
        q, k, v = (
            x @ b[f"attention.{part}.weight"].T + b[f"attention.{part}.bias"] for part in ("query", "key", "value")
        )
        heads = []
        for head in (slice(0, 11), slice(11, 22)):
            a = np.exp(q[:, head] @ k[:, head].T / np.sqrt(11))
            heads.append(a / a.sum(-1, keepdims=True) @ v[:, head])
        h = h + np.concatenate(heads, -1) @ b["attention.out.weight"].T + b["attention.out.bias"]
        x = layer_norm(h, b["feedforward_norm.weight"], b["feedforward_norm.bias"])
        up = x @ b["feedforward.up.weight"].T + b["feedforward.up.bias"]
        h = h + np.maximum(up, 0) @ b["feedforward.down.weight"].T + b["feedforward.down.bias"]
    h = layer_norm(h, w["stack.norm.weight"], w["stack.norm.bias"])
    return h[0] @ w["head.weight"].T + w["head.bias"]


def test_logits_are_the_equations() -> None:
    model = model_of(activation="relu")
    for parameter in model.parameters():  # no norm is 1 and no bias is 0
        parameter.data.add_(0.2 * torch.randn_like(parameter))
    images = images_for(model)
    found = model(images).detach().numpy()
    for row in range(3):
        np.testing.assert_allclose(found[row], by_hand(model, images[row].numpy()), atol=1e-11)


def test_the_vector_is_the_class_token_or_the_mean_of_patches() -> None:
    hidden = torch.randn(2, 36, 22, dtype=torch.float64)
    assert torch.equal(model_of().vector(hidden), hidden[:, 0])
    without = model_of(class_token=False)
    torch.testing.assert_close(without.vector(hidden[:, 1:]), hidden[:, 1:].mean(1), rtol=0, atol=1e-15)
    assert without.config.length == 35 and model_of(distilled=True).config.length == 37


def test_without_classes_the_vector_comes_out() -> None:
    bare, pooled = model_of(classes=0), model_of(classes=0, pooler=True)
    images = images_for(bare)
    assert torch.equal(bare(images), bare.hidden_states(images)[:, 0])
    hidden = pooled.hidden_states(images)
    assert torch.equal(pooled(images), torch.tanh(pooled.pooler(hidden[:, 0])))
    with pytest.raises(ValueError, match="no classifier: its configuration would need classes=2"):
        bare.logits(hidden)
    with pytest.raises(ValueError, match="no pooler: its configuration would need pooler=True"):
        bare.pooled(hidden)


def test_an_image_is_the_same_alone_and_in_a_batch() -> None:
    model = model_of()
    images = images_for(model)
    whole = model(images)
    for row in range(3):
        torch.testing.assert_close(model(images[row : row + 1])[0], whole[row], rtol=0, atol=1e-12)


def test_pixels_past_the_last_whole_patch_are_not_looked_at() -> None:
    model = model_of(image=(16, 15))
    assert model.config.grid == (5, 7)
    images = images_for(model)
    changed = images.clone()
    changed[:, :, 15:], changed[..., 14:] = 9, 9
    assert torch.equal(model(images), model(changed))
    changed[:, :, 14] += 1
    assert not torch.allclose(model(images), model(changed))


# Patterns on the grid

PATTERNS = {
    "near": Local(window=2, grid=(5, 7)),
    "oblong": Local(window=(1, 3), grid=(5, 7)),
    "dilated": Local(window=2, dilation=(2, 3), grid=(5, 7)),
    "selected": Local(window=2, selected=(3, 17), grid=(5, 7)),
    "sequence": Local(window=4),
}


@pytest.mark.parametrize("tokens", [0, 1, 2])
@pytest.mark.parametrize("name", PATTERNS)
def test_a_pattern_is_the_dense_model_under_its_mask(name: str, tokens: int) -> None:
    """With a class token (and a second one) as global tokens, and without; values and gradients."""
    spec = PATTERNS[name].model_copy(update={"global_tokens": tokens > 0})
    more = dict(class_token=tokens > 0, distilled=tokens == 2, teacher=tokens == 2)
    cheap, dense = model_of(mechanism=spec, **more), model_of(**more)
    dense.load_state_dict(cheap.state_dict())
    images = images_for(cheap)
    found, expected = cheap(images), dense(images, mask=pattern(spec))
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-11)
    assert not torch.allclose(found, dense(images), atol=1e-3)
    found.square().sum().backward()
    expected.square().sum().backward()
    for (where, one), two in zip(cheap.named_parameters(), dense.parameters(), strict=True):
        torch.testing.assert_close(one.grad, two.grad, rtol=1e-9, atol=1e-9, msg=where)


def price(call: Call) -> Cost:
    return record_of(call.spec).operation(call.spec, Workload(call.sizes, call.mask, call.pairs)).forward


@pytest.mark.parametrize("tokens", [0, 1])
@pytest.mark.parametrize(
    ("spec", "share"),
    [
        (Local(window=2, grid=(24, 32)), 0.2),
        (Local(window=2, dilation=3, grid=(24, 32)), 0.2),
        (Local(window=3, selected=(0, 100), grid=(24, 32)), 0.3),
        (Local(window=9), 0.3),
    ],
)
def test_a_pattern_computes_less(spec: Local, share: float, tokens: int) -> None:
    """What the fast path executes on a grid of 24 x 32 patches, tokens beside it included, against the dense model."""
    spec = spec.model_copy(update={"global_tokens": tokens > 0})
    sizes = dict(width=6, heads=3, layers=1, hidden=5, image=(48, 32), patch=(2, 1), classes=2, class_token=tokens > 0)
    model, dense = model_of(**sizes, mechanism=spec), model_of(**sizes)
    (call,), (whole,) = calls_of(model, images_for(model)), calls_of(dense, images_for(dense))
    cheap, full = price(call), price(whole)
    pairs = (768 + tokens) ** 2
    assert full.executed == full.dense == cheap.dense == 3 * 3 * pairs * 2 * 2
    assert cheap.useful <= cheap.executed < share * full.executed
    assert cheap.useful == 3 * 3 * 2 * 2 * pattern(spec).count(call.pairs.query[0], call.pairs.key[0])


def test_the_whole_grid_is_softmax_and_windows_are_a_mask() -> None:
    """M2 inside of a ViT: a softmax over both axes is one over the flattened grid."""
    whole, windows, plain = (
        model_of(class_token=False, mechanism=spec)
        for spec in (Spatial(grid=(5, 7)), Spatial(grid=(5, 7), window=(2, 3)), Softmax())
    )
    for other in (whole, windows):
        other.load_state_dict(plain.state_dict())
    images = images_for(plain)
    torch.testing.assert_close(whole(images), plain(images), rtol=0, atol=1e-12)
    mask: Mask = tiles((2, 3), grid=(5, 7))
    torch.testing.assert_close(windows(images), plain(images, mask=mask), rtol=0, atol=1e-12)
    assert not torch.allclose(windows(images), plain(images), atol=1e-3)


def test_other_mechanisms_serve_too() -> None:
    for spec in (Channel(), Local(window=3, grid=(5, 7), global_tokens=True)):
        model = model_of(mechanism=spec)
        assert bool(model(images_for(model)).isfinite().all())


# Configurations


@pytest.mark.parametrize(("changes", "sentence"), [
    (dict(mechanism=Local(window=2, grid=(7, 5), global_tokens=True)), r"\(5, 7\), and the attention is for \(7, 5\)"),
    (dict(mechanism=Local(window=2, grid=(5, 7))), "would see nothing: global_tokens=True"),
    (dict(mechanism=Spatial(grid=(5, 7))), "no place beside the grid: class_token=False"),
    (dict(class_token=False, distilled=True), "without a class token the image's vector is a mean"),
    (dict(teacher=True), "reads the second token: distilled=True"),
    (dict(pooler=True), "a classifier reads the image's vector itself"),
    (dict(labels=("a", "b")), "13 classes have 13 labels, not 2"),
    (dict(image=2), "no whole patch"),
    (dict(classes=-1), "classes=-1"),
])  # fmt: skip
def test_what_does_not_fit_is_refused(changes: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        vit(**{**SIZES, "classes": 13, **changes})


def test_a_causal_stack_is_no_vision_model() -> None:
    block = BlockConfig(attention=AttentionConfig(width=4, causal=True), feedforward=FeedForwardConfig(hidden=5))
    with pytest.raises(ValueError, match="looks at all patches of one image: causal=False"):
        VisionConfig(stack=StackConfig(block=block, layers=1))


@pytest.mark.parametrize("shape", [(3, 15, 14), (2, 1, 15, 14), (2, 3, 14, 15)])
def test_images_of_another_shape_are_refused(shape: tuple[int, ...]) -> None:
    from headway.models.vit import check_images

    with pytest.raises(ValueError, match=r"this model reads images of shape B C Y X = \(B, 3, 15, 14\)"):
        check_images(torch.zeros(shape), 3, (15, 14))
    with pytest.raises(ValueError, match=r"normalised numbers, not torch.uint8: read_image makes them"):
        check_images(torch.zeros(2, 3, 15, 14, dtype=torch.uint8), 3, (15, 14))


def test_a_configuration_goes_through_json() -> None:
    config = vit(**SIZES, classes=2, labels=("cat", "dog"), mechanism=Local(window=2, grid=(5, 7), global_tokens=True))
    assert VisionConfig.model_validate_json(config.model_dump_json()) == config
    assert [config.label(1), vit(**SIZES, classes=2).label(1)] == ["dog", "1"]


def test_it_is_built_without_memory() -> None:
    config = vit(**SIZES, classes=13, distilled=True, teacher=True, family="deit")
    assert all(parameter.is_meta for parameter in on_meta(config).parameters())
    assert count(config) == sum(parameter.numel() for parameter in make(config).parameters())


def test_images_are_read_in_the_dtype_of_the_weights() -> None:
    model = fresh(vit(**SIZES, classes=13), dtype=torch.bfloat16)
    assert model(torch.randn(2, 3, 15, 14)).dtype == torch.bfloat16


def test_positions_of_another_grid_are_interpolated_and_the_rest_is_shared() -> None:
    model = model_of(distilled=True, teacher=True)
    larger = model.resized((30, 28))
    assert larger.config.grid == (10, 14) and larger.positions.shape == (1, 142, 22)
    assert torch.equal(larger.positions[:, :2], model.positions[:, :2])
    assert larger.head.weight is model.head.weight
    flat = model_of()
    flat.positions.data[:, 1:] = torch.arange(22.0)
    torch.testing.assert_close(flat.resized((21, 20)).positions[0, 5], torch.arange(22.0).double(), rtol=0, atol=1e-12)
    local = model_of(mechanism=Local(window=2, grid=(5, 7), global_tokens=True))
    with pytest.raises(ValueError, match=r"grid of \(10, 14\), and the attention is for \(5, 7\)"):
        local.resized((30, 28))


def test_it_learns_where_the_light_is() -> None:
    """Which quarter of a noisy image is the bright one?"""
    draw = torch.Generator().manual_seed(3)
    images, classes = 0.3 * torch.randn(64, 1, 8, 8, generator=draw), torch.arange(64) % 4
    for image, quarter in zip(images, classes.tolist(), strict=True):
        image[0, 4 * (quarter // 2) :, 4 * (quarter % 2) :][:4, :4] += 1
    local = Local(window=2, grid=(4, 4), global_tokens=True)
    model = fresh(vit(width=12, heads=3, layers=1, hidden=17, image=8, patch=2, channels=1, classes=4, mechanism=local))
    optimiser = torch.optim.Adam(model.train().parameters(), lr=3e-2)
    losses = []
    for _ in range(35):
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), classes)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[0] > 1.2 and losses[-1] < 0.4
