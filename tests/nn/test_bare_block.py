"""The bare block (single head, no scale, no norm, no residual, ReLU feed-forward) against NumPy in float64.

The weights are square, so no shape error would tell a transpose: values and hand-derived gradients must.
"""

import numpy as np
import pytest
import torch
from torch.nn.functional import binary_cross_entropy_with_logits

from headway.config import AttentionConfig, BlockConfig, FeedForwardConfig
from headway.hub.parts import parts_of
from headway.nn import Block

SAMPLES, CONTEXT, WIDTH, HIDDEN = 5, 7, 3, 11
NAMES = ("Wq", "Wk", "Wv", "Wh", "bh", "Wo", "bo")


def wave(*shape: int, phase: float) -> np.ndarray:
    """Numbers that no generator's version can change."""
    return np.sin(phase + 1.7 * np.arange(np.prod(shape))).reshape(shape)


def inputs() -> tuple[dict[str, np.ndarray], np.ndarray, np.ndarray]:
    sizes = [(WIDTH, WIDTH)] * 3 + [(WIDTH, HIDDEN), (HIDDEN,), (HIDDEN, WIDTH), (WIDTH,)]
    weights = {name: wave(*shape, phase=0.3 * i) for i, (name, shape) in enumerate(zip(NAMES, sizes, strict=True))}
    return weights, wave(SAMPLES, CONTEXT, WIDTH, phase=2.9), np.array([1.0, 0.0, 0.0, 1.0, 1.0])


def forward(w: dict[str, np.ndarray], x: np.ndarray) -> dict[str, np.ndarray]:
    q, k, v = x @ w["Wq"], x @ w["Wk"], x @ w["Wv"]
    scores = q @ k.transpose(0, 2, 1)
    a = np.exp(scores - scores.max(-1, keepdims=True))
    a /= a.sum(-1, keepdims=True)
    attended = a @ v
    hidden = attended @ w["Wh"] + w["bh"]
    out = np.maximum(hidden, 0) @ w["Wo"] + w["bo"]
    return {"q": q, "k": k, "v": v, "a": a, "attended": attended, "hidden": hidden, "out": out}


def loss_and_pull(logit: np.ndarray, y: np.ndarray) -> tuple[float, np.ndarray]:
    """Mean binary cross-entropy and its derivative with respect to the logits."""
    loss = np.mean(np.maximum(logit, 0) - logit * y + np.log1p(np.exp(-np.abs(logit))))
    return float(loss), (1 / (1 + np.exp(-logit)) - y) / len(y)


def attention_gradients(w: dict[str, np.ndarray], x: np.ndarray, f: dict, pull: np.ndarray) -> dict[str, np.ndarray]:
    grad_v = f["a"].transpose(0, 2, 1) @ pull
    grad_a = pull @ f["v"].transpose(0, 2, 1)
    grad_s = f["a"] * (grad_a - (grad_a * f["a"]).sum(-1, keepdims=True))
    grad_q, grad_k = grad_s @ f["k"], grad_s.transpose(0, 2, 1) @ f["q"]
    grads = {n: np.einsum("nci,nco->io", x, g) for n, g in (("Wq", grad_q), ("Wk", grad_k), ("Wv", grad_v))}
    grads["x"] = grad_q @ w["Wq"].T + grad_k @ w["Wk"].T + grad_v @ w["Wv"].T
    return grads


def block_gradients(w: dict[str, np.ndarray], x: np.ndarray, f: dict, pull: np.ndarray) -> dict[str, np.ndarray]:
    active = np.maximum(f["hidden"], 0)
    grad_hidden = (pull @ w["Wo"].T) * (f["hidden"] > 0)
    grads = attention_gradients(w, x, f, grad_hidden @ w["Wh"].T)
    return grads | {
        "Wo": np.einsum("nch,nco->ho", active, pull),
        "bo": pull.sum((0, 1)),
        "Wh": np.einsum("ncd,nch->dh", f["attended"], grad_hidden),
        "bh": grad_hidden.sum((0, 1)),
    }


def bare(w: dict[str, np.ndarray], *, feedforward: bool) -> Block:
    attention = AttentionConfig(width=WIDTH, heads=1, scale=1.0, project=False)
    hidden = FeedForwardConfig(hidden=HIDDEN, activation="relu") if feedforward else None
    block = Block(BlockConfig(attention=attention, feedforward=hidden, order="none", residual=False)).double()
    tensors = {
        "attention.query.weight": w["Wq"].T,
        "attention.key.weight": w["Wk"].T,
        "attention.value.weight": w["Wv"].T,
    }
    if feedforward:
        tensors |= {"feedforward.up.weight": w["Wh"].T, "feedforward.up.bias": w["bh"]}
        tensors |= {"feedforward.down.weight": w["Wo"].T, "feedforward.down.bias": w["bo"]}
    parts = parts_of(block)
    assert parts.keys() == tensors.keys()
    for name, value in tensors.items():
        parts[name].copy_(torch.from_numpy(value.copy()))
    return block


def ours(block: Block, x: np.ndarray, y: np.ndarray) -> tuple[torch.Tensor, float, dict[str, np.ndarray]]:
    rows = torch.from_numpy(x).requires_grad_()
    out = block(rows)
    loss = binary_cross_entropy_with_logits(out[:, 3, 0], torch.from_numpy(y))
    loss.backward()
    names = {"up": "h", "down": "o"}
    grads = {"x": rows.grad.numpy()}
    for name, parameter in block.named_parameters():
        part, kind = name.split(".")[-2:]
        if part == "qkv":
            split = parameter.grad.split(len(parameter) // 3)
            grads |= {short: one.numpy().T for short, one in zip(("Wq", "Wk", "Wv"), split, strict=True)}
        else:
            grads[("W" if kind == "weight" else "b") + names[part]] = parameter.grad.numpy().T
    return out.detach(), loss.item(), grads


def test_attention_alone_agrees_with_numpy() -> None:
    w, x, y = inputs()
    f = forward(w, x)
    pull = np.zeros_like(f["attended"])
    loss, pull[:, 3, 0] = loss_and_pull(f["attended"][:, 3, 0], y)
    out, found, grads = ours(bare(w, feedforward=False), x, y)
    np.testing.assert_allclose(out, f["attended"], atol=1e-13)
    assert abs(found - loss) < 1e-13
    for name, right in attention_gradients(w, x, f, pull).items():
        np.testing.assert_allclose(grads[name], right, atol=1e-13, err_msg=name)


def test_whole_block_agrees_with_numpy() -> None:
    w, x, y = inputs()
    f = forward(w, x)
    pull = np.zeros_like(f["out"])
    loss, pull[:, 3, 0] = loss_and_pull(f["out"][:, 3, 0], y)
    out, found, grads = ours(bare(w, feedforward=True), x, y)
    np.testing.assert_allclose(out, f["out"], atol=1e-13)
    assert abs(found - loss) < 1e-13
    right = block_gradients(w, x, f, pull)
    assert set(grads) == set(right)
    for name in right:
        np.testing.assert_allclose(grads[name], right[name], atol=1e-13, err_msg=name)


def test_hand_derived_gradients_agree_with_differences() -> None:
    """The NumPy gradients themselves, against central differences: two derivations, one answer."""
    w, x, y = inputs()
    f = forward(w, x)
    pull = np.zeros_like(f["out"])
    _, pull[:, 3, 0] = loss_and_pull(f["out"][:, 3, 0], y)
    right, step = block_gradients(w, x, f, pull), 1e-6
    for name in NAMES:
        for index in list(np.ndindex(w[name].shape))[:4]:
            both = []
            for sign in (1, -1):
                moved = w | {name: w[name].copy()}
                moved[name][index] += sign * step
                both.append(loss_and_pull(forward(moved, x)["out"][:, 3, 0], y)[0])
            assert abs((both[0] - both[1]) / (2 * step) - right[name][index]) < 1e-8, (name, index)


# From the NumPy functions above, once; they hold this file and the layer to the same numbers from now on.
PINNED = {
    "attended[0, 3]": [-1.3097011883596843, -0.4860467989916176, 1.434950096399751],
    "attention loss": 1.2937117168046106,
    "attention dWq[0]": [0.05172656639694116, 0.022302403290821907, -0.057473650144102724],
    "attention dWk[0]": [0.06296001664930284, 0.018140027625474436, -0.06763450202112506],
    "out[:, 3, 0]": [1.020804626244124, 0.9731866637988162, 0.9256350122948721, 1.0140134920153618, 0.9864030034711563],
    "loss": 0.6974669204960695,
    "dWq[1]": [0.017458310503548274, -0.0022695972958334957, -0.016873460271875945],
    "dWk[1]": [0.00927612683408705, -0.014093115811252013, -0.005644486074588991],
    "dWv[1]": [-0.016518048756070085, -0.025425044296637753, -0.033764417724266256],
}


def test_pinned_values() -> None:
    w, x, y = inputs()
    attended, attention_loss, attention_grads = ours(bare(w, feedforward=False), x, y)
    out, loss, grads = ours(bare(w, feedforward=True), x, y)
    found = {
        "attended[0, 3]": attended[0, 3].tolist(),
        "attention loss": attention_loss,
        "attention dWq[0]": attention_grads["Wq"][0].tolist(),
        "attention dWk[0]": attention_grads["Wk"][0].tolist(),
        "out[:, 3, 0]": out[:, 3, 0].tolist(),
        "loss": loss,
        "dWq[1]": grads["Wq"][1].tolist(),
        "dWk[1]": grads["Wk"][1].tolist(),
        "dWv[1]": grads["Wv"][1].tolist(),
    }
    assert set(found) == set(PINNED)
    for name, value in found.items():
        assert value == pytest.approx(PINNED[name], abs=1e-12), name


@pytest.mark.parametrize("name", ["Wq", "Wk", "Wv"])
def test_a_transposed_weight_is_not_the_same_layer(name: str) -> None:
    w, x, _ = inputs()
    right = forward(w, x)["attended"]
    assert np.abs(forward(w | {name: w[name].T}, x)["attended"] - right).max() > 1e-2


def test_large_scores_do_not_overflow() -> None:
    w, x, _ = inputs()
    out = bare(w, feedforward=True)(torch.from_numpy(x) * 100)
    assert bool(out.isfinite().all())


def test_it_trains() -> None:
    """Which half of the context is larger on average? The bare block learns it."""
    draw = torch.Generator().manual_seed(3)
    x = torch.randn(64, CONTEXT, WIDTH, generator=draw, dtype=torch.float64)
    y = (x[:, :, 0].mean(1) > 0).double()
    block = bare(inputs()[0], feedforward=True)
    optimiser = torch.optim.SGD(block.parameters(), lr=0.3)
    losses = []
    for _ in range(150):
        optimiser.zero_grad()
        loss = binary_cross_entropy_with_logits(block(x)[:, 3, 0], y)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0] and losses[-1] < 0.35
