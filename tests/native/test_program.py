"""Operations of a step program against torch in float64."""

import itertools

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from headway.native import build
from headway.native.linear import LinearWeights
from headway.native.program import Caches, Heads, Program, RowNorm, check_layout

NOTHING = Caches([], [], 0)


def weights_of(kind: str, outputs: int, inputs: int, *, bias: bool = False) -> tuple[LinearWeights, Tensor]:
    """LinearWeights as they are stored, and what they mean in float64."""
    b = torch.randn(outputs) if bias else None
    if kind in ("float32", "bfloat16"):
        weight = torch.randn(outputs, inputs).to(getattr(torch, kind))
        return LinearWeights(weight, b), weight.double()
    name, _, grouping = kind.partition(" ")
    group = int(grouping.split()[0]) if grouping else inputs
    dtype = torch.float32 if "float32" in kind or not grouping else torch.float16
    scale = (torch.rand(outputs, inputs // group) + 0.1).to(dtype) * 0.01
    minimum = (torch.randn(outputs, inputs // group) * 0.1).to(dtype) if "minimum" in kind else None
    wide = scale.double().repeat_interleave(group, 1)
    if name == "int8":
        whole = torch.randint(-128, 128, (outputs, inputs), dtype=torch.int8)
        return LinearWeights(whole, b, scale if grouping else scale[:, 0].contiguous()), whole.double() * wide
    whole = torch.randint(0, 16, (outputs, inputs))
    meant = (whole - 8) * wide if minimum is None else whole * wide + minimum.double().repeat_interleave(group, 1)
    return LinearWeights((whole[:, ::2] | whole[:, 1::2] << 4).to(torch.uint8), b, scale, minimum), meant


KINDS = ["float32", "bfloat16", "int8", "int8 32", "int8 64 float32", "int4 32", "int4 64", "int4 32 float32 minimum"]


def run(program: Program, x: Tensor, buffer: Tensor) -> Tensor | None:
    buffer[: len(x)] = x
    nothing = torch.zeros(len(x), dtype=torch.long)
    return program.run(nothing, nothing, NOTHING)


def linear(weights: LinearWeights, x: Tensor, **options: object) -> Tensor:
    kernels = build.library()
    assert kernels is not None and weights.served
    check_layout(kernels)
    program = Program(kernels)
    buffer = program.buffer(x.shape[1])
    program.linear(weights, buffer, None, **options)  # pyright: ignore[reportArgumentType]
    program.seal()
    found = run(program, x, buffer)
    assert found is not None
    return found


@pytest.mark.parametrize("kind", KINDS)
@given(
    rows=st.sampled_from([1, 2, 3, 5, 7, 12, 13, 29, 64]),
    outputs=st.sampled_from([1, 7, 31, 32, 67, 130]),
    inputs=st.sampled_from([1, 3, 29, 97, 770, 1027]),
    bias=st.booleans(),
)
@settings(max_examples=12)
def test_a_linear_map(kind: str, rows: int, outputs: int, inputs: int, bias: bool) -> None:
    for variant in build.variants():
        grouped = any(char.isdigit() for char in kind.partition(" ")[2])
        width = -(-inputs // 64) * 64 if grouped else inputs
        weights, meant = weights_of(kind, outputs, width, bias=bias)
        x = torch.randn(rows, width)
        kernels = build.load(variant)
        program = Program(kernels)
        buffer = program.buffer(width)
        program.linear(weights, buffer, None)
        program.seal()
        found = run(program, x, buffer)
        assert found is not None
        right = F.linear(x.double(), meant, None if weights.bias is None else weights.bias.double())
        size = (x.abs().double() @ meant.abs().T) * 1e-6 + 1e-6
        assert ((found - right).abs() <= size).all()
        for row in range(0, rows, 5):  # a row alone is the same, bit for bit
            assert torch.equal(run(program, x[row : row + 1], buffer), found[row : row + 1])  # pyright: ignore


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_weights_as_they_are_stored_give_what_packed_ones_give(
    kernels: str, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To the bit, however many rows there are; nothing is packed in a short run."""
    monkeypatch.setattr("headway.native.program.FIRST_STEPS", 2)
    library = build.load(kernels)
    for rows, outputs, inputs in [(1, 67, 97), (5, 31, 16), (29, 130, 35), (13, 1, 3)]:
        program = Program(library)
        buffer = program.buffer(inputs)
        program.linear(LinearWeights(torch.randn(outputs, inputs).to(dtype)), buffer, None)
        program.seal()
        x = torch.randn(rows, inputs)
        found = []
        for step in range(4):
            found.append(run(program, x, buffer))
            assert (program.nbytes > 0) == (step >= 2)
        assert all(torch.equal(found[0], one) for one in found[1:])


@pytest.mark.parametrize("kind", ["int8", "int8 4 float32", "int4 8", "int4 32 float32 minimum"])
def test_rows_of_any_size_keep_their_precision(kernels: str, kind: str) -> None:
    """Each row has a step of its own: one that is tiny, huge, constant or has an outlier costs no other row a bit."""
    weights, meant = weights_of(kind, 37, 96)
    x = torch.randn(9, 96)
    x[1], x[2], x[3], x[4] = 0, x[2] * 1e-33, x[3] * 1e30, 5.0
    x[5, 17], x[6] = 1e5, -x[6].abs()
    x[7, 1:] = 0
    found = linear(weights, x)
    right = x.double() @ meant.T
    assert ((found - right).abs() <= x.abs().amax(1, keepdim=True) * meant.abs().sum(1) * 2e-7).all()
    assert not found[1].any()
    for row in range(9):
        assert torch.equal(linear(weights, x[row : row + 1])[0], found[row])


@pytest.mark.parametrize("activation", ["none", "gelu", "gelu_tanh", "silu", "relu"])
@pytest.mark.parametrize(("norm", "affine"), [("none", False), ("layer", True), ("layer", False), ("rms", True)])
def test_what_is_folded_in(kernels: str, activation: str, norm: str, affine: bool) -> None:
    weights, meant = weights_of("float32", 37, 43, bias=True)
    x, factor, residual = torch.randn(5, 43), torch.randn(5, 37), torch.randn(5, 37)
    own = [torch.randn(43) for _ in range(2)] if affine else [None, None]
    given = RowNorm(norm, own[0], own[1] if norm == "layer" else None, 1e-5)
    found = linear(weights, x, norm=given, activation=activation, factor=factor, residual=residual)
    wide = x.double()
    if norm == "layer":
        wide = F.layer_norm(wide, (43,), *(None if one is None else one.double() for one in own), eps=1e-5)
    elif norm == "rms":
        wide = F.rms_norm(wide, (43,), None if own[0] is None else own[0].double(), eps=1e-5)
    assert weights.bias is not None
    y = F.linear(wide, meant, weights.bias.double())
    acts = {"none": lambda x: x, "gelu": F.gelu, "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
            "silu": F.silu, "relu": F.relu}  # fmt: skip
    right = acts[activation](y) * factor + residual
    assert torch.allclose(found.double(), right, atol=2e-5, rtol=1e-5)


def test_rows_that_are_not_finite_are_reported_where_asked(kernels: str) -> None:
    loaded = build.library()
    assert loaded is not None
    for kind, bad in itertools.product(["float32", "int8", "int4 32"], [float("nan"), float("inf")]):
        weights, _ = weights_of(kind, 9, 64)
        x = torch.randn(3, 64)
        x[1, 5] = bad
        program = Program(loaded)
        buffer = program.buffer(64)
        program.linear(weights, buffer, None, check=True)
        program.seal()
        assert run(program, x, buffer) is None
        assert not linear(weights, x)[1].isfinite().any()
        assert linear(weights, x)[::2].isfinite().all()


def test_two_maps_of_the_same_rows_as_a_gate(kernels: str) -> None:
    loaded = build.library()
    assert loaded is not None
    for kind in KINDS:
        (gate, gate_meant), (up, up_meant) = (weights_of(kind, 19, 64) for _ in range(2))
        program = Program(loaded)
        buffer, hidden = program.buffer(64), program.buffer(19)
        norm = RowNorm("rms", torch.randn(64), eps=1e-6)
        program.linear(gate, buffer, hidden, norm=norm, activation="silu")
        program.linear(up, buffer, None, norm=norm, factor=hidden, reuse=kind != "float32")
        program.seal()
        x = torch.randn(7, 64)
        found = run(program, x, buffer)
        assert found is not None and norm.weight is not None
        wide = F.rms_norm(x.double(), (64,), norm.weight.double(), eps=1e-6)
        right = F.silu(wide @ gate_meant.T) * (wide @ up_meant.T)
        assert torch.allclose(found.double(), right, rtol=1e-5, atol=1e-5 * float(right.abs().max()))


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize(
    ("heads", "groups", "key", "value"), [(1, 1, 1, 1), (6, 3, 5, 7), (4, 4, 64, 64), (9, 3, 19, 33)]
)
@pytest.mark.parametrize("turned", ["no", "halves", "neighbours", "part"])
def test_attention_over_a_cache(
    kernels: str, stored: torch.dtype, heads: int, groups: int, key: int, value: int, turned: str
) -> None:
    loaded = build.library()
    assert loaded is not None
    rows, columns, capacity = 3, 41, 47
    pairs = key // 2 if turned != "part" else key // 4
    angles = torch.rand(60, pairs) * 6
    table = (angles.cos(), angles.sin()) if turned != "no" and pairs else (None, None)
    sizes = Heads(heads, groups, key, value, key**-0.5, *table, interleaved=turned == "neighbours")
    program = Program(loaded)
    width = (heads + groups) * key + groups * value
    qkv, out = program.buffer(width), program.buffer(heads * value)
    program.attend(sizes, qkv, out, stored=stored)
    program.linear(LinearWeights(torch.eye(heads * value)), out, None)
    program.seal()
    k, v = torch.randn(rows, groups, capacity, key).to(stored), torch.randn(rows, groups, capacity, value).to(stored)
    real = torch.rand(rows, capacity) < 0.7
    real[:, columns:], real[0] = True, True
    k.masked_fill_(~real[:, None, :, None], float("nan"))  # whatever stands in padding is never read
    k[:, :, columns:] = v[:, :, columns:] = float("nan")
    qkv[:rows] = torch.randn(rows, width)
    positions = torch.tensor([41, 7, 59])
    before = k.clone(), v.clone()
    found = program.run(positions, positions, Caches([k], [v], columns, real))
    assert found is not None
    q, new_k, new_v = qkv[:rows].double().split([heads * key, groups * key, groups * value], 1)
    q, new_k, new_v = q.view(rows, heads, key), new_k.view(rows, groups, key), new_v.view(rows, groups, value)
    if table[0] is not None and table[1] is not None:
        cos, sin = (x[positions][:, None].double() for x in table)
        q, new_k = (_turn(x, cos, sin, turned == "neighbours") for x in (q, new_k))
    assert torch.allclose(k[:, :, columns].double(), new_k, atol=1e-5 if stored == torch.float32 else 2e-2)
    assert torch.equal(v[:, :, columns], new_v.to(stored))
    for now, then in zip((k, v), before, strict=True):
        now = now.clone()
        now[:, :, columns] = float("nan")
        assert torch.equal(now.nan_to_num(7), then.nan_to_num(7))
    for row in range(rows):
        seen = real[row, : columns + 1]
        per = heads // groups
        keys, values = (x[row, :, : columns + 1][:, seen].double().repeat_interleave(per, 0) for x in (k, v))
        weight = (torch.einsum("hk,hmk->hm", q[row], keys) * key**-0.5).softmax(-1)
        right = torch.einsum("hm,hmw->hw", weight, values).flatten()
        assert torch.allclose(found[row].double(), right, atol=1e-5 if stored == torch.float32 else 1e-2)


def _turn(x: Tensor, cos: Tensor, sin: Tensor, neighbours: bool) -> Tensor:
    pairs, out = cos.shape[-1], x.clone()
    one = slice(0, 2 * pairs, 2) if neighbours else slice(0, pairs)
    two = slice(1, 2 * pairs, 2) if neighbours else slice(pairs, 2 * pairs)
    out[..., one] = x[..., one] * cos - x[..., two] * sin
    out[..., two] = x[..., two] * cos + x[..., one] * sin
    return out


def test_padding_changes_no_bit(kernels: str) -> None:
    """The same keys with holes before and between them: the order of all sums is the same."""
    loaded = build.library()
    assert loaded is not None
    program = Program(loaded)
    qkv, out = program.buffer(3 * 40), program.buffer(40)
    program.attend(Heads(2, 2, 20, 20, 0.3), qkv, out, stored=torch.float32)
    program.linear(LinearWeights(torch.eye(40)), out, None)
    program.seal()
    k, v = torch.randn(2, 2, 64, 20), torch.randn(2, 2, 64, 20)
    real = torch.ones(2, 64, dtype=torch.bool)
    real[1, :11] = real[1, 20:25] = False
    holes = torch.tensor([*range(11, 20), *range(25, 50)])
    k[0, :, : len(holes)], v[0, :, : len(holes)] = k[1, :, holes], v[1, :, holes]
    qkv[:2] = torch.randn(120)
    zero = torch.zeros(2, dtype=torch.long)
    both = program.run(zero, zero, Caches([k], [v], 50, real))
    alone = program.run(zero[:1], zero[:1], Caches([k[:1].contiguous()], [v[:1].contiguous()], len(holes)))
    assert both is not None and alone is not None
    assert torch.equal(both[1], alone[0])


def test_an_embedding(kernels: str) -> None:
    loaded = build.library()
    assert loaded is not None
    for dtype, learned in itertools.product([torch.float32, torch.bfloat16], [True, False]):
        program = Program(loaded)
        tokens, places, out = torch.randn(11, 7).to(dtype), torch.randn(5, 7).to(dtype), program.buffer(7)
        program.embed(tokens, places if learned else None, out)
        program.linear(LinearWeights(torch.eye(7)), out, None)
        program.seal()
        t, p = torch.tensor([3, 10, 0]), torch.tensor([4, 0, 2])
        right = tokens[t].float() + (places[p].float() if learned else 0)
        found = program.run(t, p, NOTHING)
        assert found is not None and torch.equal(found, right)


def test_weights_that_are_not_served() -> None:
    assert LinearWeights(torch.zeros(5, 3).T).served and not LinearWeights(torch.zeros(5, 6)[:, ::2]).served
    assert not LinearWeights(torch.zeros(64, 3, dtype=torch.int8).T, scale=torch.zeros(3)).served
    assert not LinearWeights(torch.zeros(3, 18, dtype=torch.uint8), scale=torch.zeros(3, 3)).served  # groups of 12
    assert not LinearWeights(torch.zeros(3, 48, dtype=torch.int8)).served
    assert LinearWeights(torch.zeros(3, 64, dtype=torch.int8), scale=torch.zeros(3, 2).half()).served
