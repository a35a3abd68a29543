"""The attention layer: the seeds' equations are configurations of one class, checked against NumPy in float64."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headway.config import Additive, AttentionConfig, BlockConfig, Channel, Linear, Local, Rotary, Spatial, StackConfig
from headway.hub.parts import parts_of
from headway.nn import Attention
from headway.ops.attention import Call
from headway.ops.mask import Mask, allowed, causal, padding, window

B, L, M, D, E, H, G, K, W, OUT = 2, 5, 7, 12, 13, 6, 3, 11, 17, 19
NAN = float("nan")


def layer(**config: object) -> Attention:
    return Attention(AttentionConfig(**{"width": D, "heads": H, **config})).double()


def rows(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64)


def by_hand(attention: Attention, x: Tensor, source: Tensor, table: np.ndarray) -> np.ndarray:
    """Row by row and head by head, from the equations alone."""
    c = attention.config
    state = {name: value.detach().numpy() for name, value in parts_of(attention).items()}

    def project(name: str, data: np.ndarray) -> np.ndarray:
        found = data @ state[f"{name}.weight"].T
        return found + state[f"{name}.bias"] if f"{name}.bias" in state else found

    def normalise(name: str, data: np.ndarray) -> np.ndarray:
        if c.qk_norm is None:
            return data
        by = data.reshape(*data.shape[:2], -1, c.head_width) if c.qk_norm.over == "head" else data
        by = by / np.sqrt((by**2).mean(-1, keepdims=True) + c.qk_norm.eps) * state[f"{name}_norm.weight"]
        return by.reshape(data.shape)

    q, k, v = project("query", x.numpy()), project("key", source.numpy()), project("value", source.numpy())
    q, k = normalise("query", q), normalise("key", k)
    scale = c.head_width**-0.5 if c.scale is None else c.scale
    out = np.zeros((len(q), q.shape[1], c.heads * c.value_width))
    for b, i, h in np.ndindex(len(q), q.shape[1], c.heads):
        g = h // (c.heads // c.kv_heads)
        query = q[b, i, h * c.head_width : (h + 1) * c.head_width]
        seen = np.flatnonzero(table[b, i])
        scores = np.array([query @ k[b, j, g * c.head_width : (g + 1) * c.head_width] * scale for j in seen])
        weights = np.exp(scores - scores.max()) / np.exp(scores - scores.max()).sum()
        values = v[b, seen, g * c.value_width : (g + 1) * c.value_width]
        out[b, i, h * c.value_width : (h + 1) * c.value_width] = weights @ values
    return out if attention.out is None else project("out", out)


CONFIGURATIONS = {
    "M1: key width U, value width J/K, no scale, no output": dict(
        head_width=K, value_width=D // H, scale=1.0, project=False
    ),
    "M3: biases": dict(heads=1, bias=True, scale=1.0, project=False),
    "M8: widths of source and target free": dict(heads=1, source_width=E, head_width=K, value_width=W, project=False),
    "M10: projected to a free width": dict(head_width=K, value_width=W, output_width=OUT, output_bias=True),
    "M12: multi-head": dict(bias=True, output_bias=True),
    "grouped": dict(kv_heads=G, bias=True),
    "normalised heads": dict(kv_heads=G, head_width=K, qk_norm=True),
    "normalised as a whole": dict(kv_heads=G, bias=True, qk_norm=dict(over="all", eps=0.1)),
    "normalised, of a source": dict(kv_heads=G, source_width=E, head_width=K, qk_norm="head"),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
@pytest.mark.parametrize("masked", ["none", "causal", "padded"])
def test_configuration_agrees_with_numpy(name: str, masked: str) -> None:
    attention = layer(**CONFIGURATIONS[name])
    for norm in (attention.query_norm, attention.key_norm):
        if norm is not None:
            torch.nn.init.normal_(norm.weight)
    cross = attention.config.source_width != D
    x, source = rows(B, L, D), rows(B, M, attention.config.source_width) if cross else None
    keys = M if cross else L
    keep = torch.ones(B, keys, dtype=torch.bool)
    keep[1, 3:] = False
    table = {
        "none": torch.ones(B, L, keys),
        "causal": torch.ones(B, L, keys).tril(),
        "padded": keep[:, None].expand(-1, L, -1),
    }
    mask = {"none": None, "causal": causal(), "padded": padding(keep=keep)}[masked]
    places = torch.arange(L) if cross else None
    found = attention(
        x, source, mask=mask, positions=places, source_positions=torch.arange(M) if cross else None
    ).detach()
    # Padded queries are zeroed with their rows; by hand, they are compared at real places only.
    right = by_hand(attention, x, x if source is None else source, table[masked].bool().numpy())
    real = slice(None) if masked != "padded" or cross else slice(0, 3)
    np.testing.assert_allclose(found[:, real], right[:, real], atol=1e-12)


def test_parameter_counts_of_the_texts() -> None:
    """12.1: 3D² weights and 3D biases; 12.5: H heads of D/H have as many as one of D."""
    count = lambda a: sum(p.numel() for p in a.parameters())  # noqa: E731
    assert count(layer(heads=1, bias=True, project=False)) == 3 * D * D + 3 * D
    assert count(layer(heads=1, project=False)) == count(layer(heads=H, project=False)) == 3 * D * D


@pytest.mark.parametrize(
    ("config", "sentence"),
    [
        (dict(heads=7), "width 12 is not divisible by heads 7"),
        (dict(kv_heads=4), "4 key/value heads do not divide 6 query heads"),
        (dict(project=False, output_width=9), "not output_width 9"),
        (dict(heads=0), "heads"),
        (dict(kv_heads=0), "kv_heads"),
        (dict(head=3), "no option 'head' (did you mean heads?)"),
    ],
)
def test_impossible_configurations(config: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=None) as error:
        layer(**config)
    assert sentence in str(error.value) and "\n" not in str(error.value)


def test_residuals_and_stacks_need_one_size_and_say_so() -> None:
    uneven = AttentionConfig(width=D, heads=H, output_width=OUT)
    with pytest.raises(ValueError, match=r"a residual adds .* width 12 to 19"):
        BlockConfig(attention=uneven)
    bare = BlockConfig(attention=uneven, residual=False, order="none")
    with pytest.raises(ValueError, match=r"a stack feeds .* width 12 to 19"):
        StackConfig(block=bare, layers=2)
    assert StackConfig(block=bare, layers=1).block.output_width == OUT


def test_wrong_inputs_name_the_widths() -> None:
    with pytest.raises(ValueError, match="takes width 12, and x has width 13"):
        layer()(rows(B, L, E))
    with pytest.raises(ValueError, match="source of width 13; pass it as source="):
        layer(source_width=E)(rows(B, L, D))
    with pytest.raises(ValueError, match="takes width 13, and source has width 12"):
        layer(source_width=E)(rows(B, L, D), rows(B, M, D))


SPECS = {
    "softmax": {},
    "rotary": dict(rotary=Rotary(), head_width=4),
    "linear": dict(mechanism=Linear(chunk=3)),
    "local": dict(mechanism=Local(window=3)),
    "dilated": dict(mechanism=Local(window=2, dilation=2)),
    "additive": dict(mechanism=Additive()),
    "spatial": dict(mechanism=Spatial(grid=(1, L))),
    "channel": dict(mechanism=Channel()),
}


def padded(x: Tensor, side: str, extra: int, content: float) -> tuple[Tensor, Mask, slice]:
    """x with rows of `content` beside it, the mask that declares them, and where x is."""
    fill = torch.full((x.shape[0], extra, x.shape[2]), content, dtype=x.dtype)
    full = torch.cat([fill, x] if side == "left" else [x, fill], 1)
    length = x.shape[1]
    mask = padding(lengths=[length] * x.shape[0], total=length + extra, side=side)
    return full, mask, slice(extra, None) if side == "left" else slice(0, length)


@pytest.mark.parametrize("name", [name for name in SPECS if name != "spatial"])
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("content", [0.0, 7.0, NAN, float("inf")])
@pytest.mark.parametrize("training", [True, False])
def test_padding_changes_nothing(name: str, side: str, content: float, training: bool) -> None:
    """Outputs at real places, their gradients, and the gradients of every weight; train and eval."""
    attention = layer(bias=True, output_bias=True, **SPECS[name]).train(training)
    x, pull = rows(B, L, D), rows(B, L, D)
    results = []
    for extra in (0, 3):
        full, mask, real = padded(x, side, extra, content)
        full.requires_grad_()
        attention.zero_grad()
        out = attention(full, mask=mask if extra else None)[:, real]
        out.backward(pull)
        results.append([out.detach(), full.grad[:, real], *(p.grad.clone() for p in attention.parameters())])
        assert not full.grad.isnan().any()
    for alone, beside in zip(*results, strict=True):
        torch.testing.assert_close(beside, alone, atol=1e-12, rtol=0)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["softmax", "linear", "local", "additive", "channel"])
def test_padding_with_nan_in_low_precision(name: str, dtype: torch.dtype) -> None:
    attention = layer(**SPECS[name]).to(dtype)
    full, mask, real = padded(rows(B, L, D).to(dtype), "left", 3, NAN)
    attention(full.requires_grad_(), mask=mask)[:, real].sum().backward()
    assert not full.grad.isnan().any()
    assert all(bool(p.grad.isfinite().all()) for p in attention.parameters())


@pytest.mark.parametrize("name", ["softmax", "rotary", "linear", "local", "dilated", "additive"])
def test_a_nan_in_the_future_reaches_neither_rows_nor_weights(name: str) -> None:
    """Row law in the layer: rows before the NaN, and what they teach the weights, do not know of it."""
    attention = layer(causal=True, bias=True, output_bias=True, **SPECS[name])
    x = rows(B, L, D)
    grads = []
    for last in (x[:, -1:], torch.full((B, 1, D), NAN, dtype=x.dtype)):
        attention.zero_grad()
        full = torch.cat([x[:, :-1], last], 1).requires_grad_()
        out = attention(full)
        assert bool(out[:, -1].isnan().any()) == bool(last.isnan().any())
        out[:, :-1].square().sum().backward()
        grads.append([full.grad[:, :-1], *(p.grad.clone() for p in attention.parameters())])
    for right, found in zip(*grads, strict=True):
        torch.testing.assert_close(found, right, atol=1e-12, rtol=0)


def test_a_row_that_sees_nothing_is_zero_before_the_output_projection() -> None:
    attention = layer(project=False)
    table = torch.ones(L, L, dtype=torch.bool)
    table[2] = False
    x = rows(B, L, D).requires_grad_()
    out = attention(x, mask=table)
    assert not out[:, 2].any()
    assert not torch.autograd.grad(out[:, 2].sum(), x)[0].any()


@given(st.integers(1, 9), st.integers(0, 4))
def test_a_batch_equals_its_rows(length: int, seed: int) -> None:
    torch.manual_seed(seed)
    attention = layer(causal=True, rotary=Rotary(), head_width=4)
    x = rows(3, length, D)
    together = attention(x)
    for row in range(3):
        torch.testing.assert_close(attention(x[row : row + 1])[0], together[row], atol=1e-12, rtol=0)


def test_the_core_lets_the_whole_call_pass() -> None:
    """A hook on the parameter-free core sees the call; the output does not change by a bit."""
    attention, seen = layer(causal=True, softcap=5.0), []
    x = rows(B, L, D)
    before = attention(x)
    handle = attention.core.register_forward_pre_hook(lambda _, arguments: seen.append(arguments[0]))
    assert torch.equal(attention(x), before)
    handle.remove()
    assert isinstance(seen[0], Call) and seen[0].softcap == 5.0 and seen[0].mask is not None


def test_masks_compose_with_the_layers_own_causality() -> None:
    attention = layer(causal=True)
    x = rows(B, L, D)
    table = torch.ones(L, L, dtype=torch.bool).tril() & ~torch.ones(L, L, dtype=torch.bool).tril(-2)
    torch.testing.assert_close(
        attention(x, mask=window(2)), layer_like(attention, causal=False)(x, mask=allowed(table))
    )


def layer_like(attention: Attention, **changes: object) -> Attention:
    other = layer(**{**attention.config.model_dump(), **changes})
    other.load_state_dict(attention.state_dict())
    return other
