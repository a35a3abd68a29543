"""The courses' own layers as presets: each against its text's equations, written out in NumPy in float64.

The equations are those of the texts, index by index and in their own orientation (the second one has data in columns),
so that a transposed weight or a sum over the wrong axis cannot pass.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import headway
from headway.app.evaluate import task_of
from headway.config import AttentionConfig, BlockConfig, Spatial, StackConfig, VectorsConfig
from headway.hub.describe import describe
from headway.hub.parts import parts_of
from headway.hub.target import Preset, built, resolve
from headway.models import count, make, parameters
from headway.models.vectors import Vectors
from headway.ops.mask import causal, padding
from headway.presets import preset
from headway.presets.seeds import PRESETS, bare_block, eecs_layer, ttic_layer, udl_channels, udl_layer
from tests.fresh import fresh
from tests.nn import test_bare_block as board

ROWS, TIMES = 2, 5


def filled(config: VectorsConfig, **weights: np.ndarray) -> Vectors:
    """The model in float64 with these arrays, O x I as torch keeps them; every parameter must be named."""
    model = make(config).double()
    block = "stack.blocks.0."
    names = {
        f"{block}{'feedforward' if name.startswith(('up', 'down')) else 'attention'}.{name.replace('_', '.')}": value
        for name, value in weights.items()
    }
    parts = parts_of(model)
    assert parts.keys() == names.keys()
    for name, value in names.items():
        parts[name].copy_(torch.from_numpy(value.copy()))
    return model


def given(model: Vectors, x: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        return model(torch.from_numpy(x)).numpy()


def draw(*shape: int, seed: int) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape)


def softmax(scores: np.ndarray, *axes: int) -> np.ndarray:
    shifted = np.exp(scores - scores.max(axes, keepdims=True))
    return shifted / shifted.sum(axes, keepdims=True)


J, HEADS, U = 33, 3, 7
I = J // HEADS  # noqa: E741 - the text's letter


def ttic_weights() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    shapes = ((HEADS, U, J), (HEADS, U, J), (HEADS, I, J))
    query, key, value = (draw(*shape, seed=i) / J**0.5 for i, shape in enumerate(shapes))
    return query, key, value


def ttic_filled(config: VectorsConfig) -> Vectors:
    query, key, value = (w.reshape(-1, J) for w in ttic_weights())
    return filled(config, query_weight=query, key_weight=key, value_weight=value)


def test_ttic_layer() -> None:
    """α[k, t₁, t₂] = softmax over t₂ of Query[k, t₁] · Key[k, t₂]; Out[k, t] = Σ α[k, t, t'] Value[k, t']."""
    wq, wk, wv = ttic_weights()
    h = draw(ROWS, TIMES, J, seed=10)
    query, key, value = (np.einsum("kuj,btj->bktu", w, h) for w in (wq, wk, wv))
    alpha = softmax(np.einsum("bktu,bksu->bkts", query, key), 3)
    out = np.einsum("bkts,bksi->bkti", alpha, value)
    right = np.concatenate([out[:, head] for head in range(HEADS)], -1)
    found = given(ttic_filled(ttic_layer(width=J, heads=HEADS, key_width=U)), h)
    np.testing.assert_allclose(found, right, atol=1e-12)


def test_ttic_grid() -> None:
    """The same with x and y for t, and one softmax over both of them."""
    wq, wk, wv = ttic_weights()
    h = draw(ROWS, 3, TIMES, J, seed=15)
    query, key, value = (np.einsum("kuj,bxyj->bkxyu", w, h) for w in (wq, wk, wv))
    alpha = softmax(np.einsum("bkxyu,bkpqu->bkxypq", query, key), 4, 5)
    out = np.einsum("bkxypq,bkpqi->bxyki", alpha, value)
    config = ttic_layer(width=J, heads=HEADS, key_width=U, grid=(3, TIMES))
    found = given(ttic_filled(config), h.reshape(ROWS, -1, J))
    np.testing.assert_allclose(found, out.reshape(ROWS, -1, J), atol=1e-12)


def test_udl_layer() -> None:
    """Columns are data: V softmax(Kᵀ Q), each column of the softmax a distribution; three biases of length D."""
    width, weights = 7, [draw(7, 7, seed=20 + i) for i in range(3)]
    biases = [draw(7, seed=25 + i) for i in range(3)]
    x = draw(width, TIMES, seed=30)
    q, k, v = (omega @ x + beta[:, None] for omega, beta in zip(weights, biases, strict=True))
    right = v @ softmax(k.T @ q, 0)
    names = ("query", "key", "value")
    tensors = {f"{name}_weight": w for name, w in zip(names, weights, strict=True)}
    tensors |= {f"{name}_bias": b for name, b in zip(names, biases, strict=True)}
    found = given(filled(udl_layer(width=width), **tensors), x.T[None])
    np.testing.assert_allclose(found[0].T, right, atol=1e-12)


def test_udl_channels() -> None:
    """Channel c gathers from the channels of its own group: scores are sums over the patches."""
    width, groups = 6, 2
    weights, biases = [draw(6, 6, seed=35 + i) for i in range(3)], [draw(6, seed=40 + i) for i in range(3)]
    x = draw(TIMES, width, seed=45)
    q, k, v = (x @ w.T + b for w, b in zip(weights, biases, strict=True))
    right = np.zeros((TIMES, width))
    for group in (slice(0, 3), slice(3, 6)):
        right[:, group] = v[:, group] @ softmax(q[:, group].T @ k[:, group] / np.sqrt(3), 1).T
    tensors = {f"{n}_weight": w for n, w in zip(("query", "key", "value"), weights, strict=True)}
    tensors |= {f"{n}_bias": b for n, b in zip(("query", "key", "value"), biases, strict=True)}
    found = given(filled(udl_channels(width=width, groups=groups), **tensors), x[None])
    np.testing.assert_allclose(found[0], right, atol=1e-12)


def test_eecs_layer() -> None:
    """(b nh) rows, scores over √d_head, then o_proj."""
    width, heads = 15, 3
    wq, wk, wv, wo = (draw(15, 15, seed=50 + i) for i in range(4))
    x = draw(ROWS, TIMES, width, seed=55)
    q, k, v = ((x @ w.T).reshape(ROWS, TIMES, heads, 5).transpose(0, 2, 1, 3) for w in (wq, wk, wv))
    a = softmax(q @ k.transpose(0, 1, 3, 2) / np.sqrt(5), 3)
    right = (a @ v).transpose(0, 2, 1, 3).reshape(ROWS, TIMES, width) @ wo.T
    tensors = {f"{n}_weight": w for n, w in zip(("query", "key", "value", "out"), (wq, wk, wv, wo), strict=True)}
    found = given(filled(eecs_layer(width=width, heads=heads), **tensors), x)
    np.testing.assert_allclose(found, right, atol=1e-12)


def bare_filled(w: dict[str, np.ndarray]) -> Vectors:
    return filled(
        bare_block(width=board.WIDTH, hidden=board.HIDDEN),
        query_weight=w["Wq"].T, key_weight=w["Wk"].T, value_weight=w["Wv"].T, up_weight=w["Wh"].T, up_bias=w["bh"],
        down_weight=w["Wo"].T, down_bias=w["bo"],
    )  # fmt: skip


def test_bare_block() -> None:
    """Forward and all gradients, by the hand-derived ones of the block's own test; pinned values included."""
    w, x, y = board.inputs()
    f = board.forward(w, x)
    pull = np.zeros_like(f["out"])
    loss, pull[:, 3, 0] = board.loss_and_pull(f["out"][:, 3, 0], y)
    model: Any = bare_filled(w)  # in place of the block alone
    out, found, grads = board.ours(model, x, y)
    np.testing.assert_allclose(out, f["out"], atol=1e-13)
    assert out[:, 3, 0].tolist() == pytest.approx(board.PINNED["out[:, 3, 0]"], abs=1e-12)
    assert abs(found - loss) < 1e-13
    for name, right in board.block_gradients(w, x, f, pull).items():
        np.testing.assert_allclose(grads[name], right, atol=1e-13, err_msg=name)


def test_values_may_be_projected_after_they_are_averaged() -> None:
    """The text's own order: average the inputs, then multiply by W_v, with keys in rows and a softmax down columns."""
    w, x, _ = board.inputs()
    scores = (x @ w["Wk"]) @ (x @ w["Wq"]).transpose(0, 2, 1)
    averaged = (x.transpose(0, 2, 1) @ softmax(scores, 1)).transpose(0, 2, 1) @ w["Wv"]
    right = np.maximum(averaged @ w["Wh"] + w["bh"], 0) @ w["Wo"] + w["bo"]
    np.testing.assert_allclose(given(bare_filled(w), x), right, atol=1e-12)


# U K J + U K J + J J; 3 D² + 3 D; 4 D²; 3 d² + 2 d h + h + d.
COUNTS = {
    "ttic-layer": 2 * 32 * 8 * 512 + 512 * 512,
    "ttic-grid": 2 * 32 * 8 * 512 + 512 * 512,
    "udl-layer": 3 * 512 * 512 + 3 * 512,
    "udl-channels": 3 * 512 * 512 + 3 * 512,
    "eecs-layer": 4 * 512 * 512,
    "bare-block": 3 * 64 * 64 + 2 * 64 * 256 + 256 + 64,
}


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_can_be_counted_made_and_described(name: str) -> None:
    config = PRESETS[name]()
    found = resolve(name)
    assert isinstance(found, Preset) and found.config == config == preset(name)
    assert count(config) == COUNTS[name] == parameters(built(found))
    shown = describe(name)
    assert (shown.kind, shown.family, shown.tree.parameters) == ("vectors", "headway", COUNTS[name])
    x = torch.ones(1, config.length, config.width)
    assert fresh(config)(x).shape == (1, config.length, config.output_width)
    assert VectorsConfig.model_validate_json(config.model_dump_json()) == config


def test_saved_and_loaded(tmp_path: Path) -> None:
    model = fresh(bare_block(width=3, hidden=11), seed=5)
    headway.save(model, tmp_path / "m")
    loaded = headway.load(tmp_path / "m").model
    x = torch.randn(2, 7, 3)
    assert loaded.config == model.config and torch.equal(loaded(x), model(x))


def test_masks_and_padding() -> None:
    """A causal mask makes rows independent of what follows; padding may hold anything."""
    model = fresh(udl_layer(width=7), dtype=torch.float64, std=0.5)
    x = torch.randn(2, 5, 7, dtype=torch.float64)
    torch.testing.assert_close(model(x, mask=causal())[:, :3], model(x[:, :3], mask=causal()), atol=1e-13, rtol=0)
    keep = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    broken = x.masked_fill(~keep[..., None], float("nan"))
    torch.testing.assert_close(model(broken, keep=keep)[1, :3], model(x[1:, :3])[0], atol=1e-13, rtol=0)
    torch.testing.assert_close(
        model(broken, keep=keep, mask=causal()), model(broken, mask=causal() & padding(keep=keep)), atol=1e-13, rtol=0
    )


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="width 10 is not divisible by heads 3"):
        ttic_layer(width=10, heads=3)
    grid, cross = (
        StackConfig(block=BlockConfig(attention=attention), layers=1)
        for attention in (
            AttentionConfig(width=4, mechanism=Spatial(grid=(3, 5))),
            AttentionConfig(width=4, source_width=5),
        )
    )
    with pytest.raises(ValueError, match=r"a grid of \(3, 5\) has 15 positions, not 16"):
        VectorsConfig(stack=grid, length=16)
    with pytest.raises(ValueError, match="read one sequence of vectors"):
        VectorsConfig(stack=cross)
    with pytest.raises(ValueError, match="this layer takes width 3, and x has width 4"):
        fresh(bare_block(width=3, hidden=5))(torch.zeros(1, 2, 4))


def test_there_is_nothing_to_measure(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="holds a vectors model without a head: there is nothing to measure"):
        task_of(bare_block(), None, tmp_path)
