"""Packed texts: what a table would give, text by text, no pair of two texts computed, and no table of all tokens."""

from dataclasses import replace
from random import Random

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headway.audit.mechanisms.trials import outcome, ripple
from headway.bench.measure import peak_memory
from headway.config import Softmax
from headway.ops.attention import MECHANISMS, Call, attend
from headway.ops.attention.cost import Workload
from headway.ops.attention.kernels import reference
from headway.ops.bias import Alibi, Relative
from headway.ops.mask import Mask, allowed, causal, packed, padding, segments, selected, tiles, window
from headway.ops.mask.pairs import Pairs
from headway.sizes import Sizes
from tests.ops.attention.calls import build

BATCH, HEADS, KV_HEADS, WIDTH, VALUE_WIDTH = 2, 6, 3, 7, 5
LENGTHS = (3, 3, 5, 0, 1, 1, 1, 11)
TOTAL = sum(LENGTHS)
SOFTMAX = MECHANISMS["softmax"]
RESTARTED = torch.cat([torch.arange(length) for length in LENGTHS])
JUMPING = 3 * torch.arange(TOTAL) - 4


def make(mask: Mask | None, *, lengths: tuple[int, ...] = LENGTHS, batch: int = BATCH, seed: int = 7, **rest) -> Call:
    generator = torch.Generator().manual_seed(seed)

    def draw(heads: int, width: int) -> Tensor:
        return torch.randn(batch, heads, sum(lengths), width, generator=generator, dtype=torch.float64)

    q, k, v = draw(HEADS, WIDTH), draw(KV_HEADS, WIDTH), draw(KV_HEADS, VALUE_WIDTH)
    return build(q, k, v, mask=mask, options={}, **rest)


def same(call: Call, other: Call, close: float = 1e-12) -> None:
    for x, y in zip(outcome(SOFTMAX.attend, call), outcome(SOFTMAX.attend, other), strict=True):
        torch.testing.assert_close(x, y, atol=close, rtol=close)


def tabulated(call: Call) -> Call:
    """The same call with its mask written out."""
    assert call.mask is not None
    return replace(call, mask=allowed(call.mask.at(call.pairs)))


def forbid_tables(patch: pytest.MonkeyPatch) -> None:
    for part in (type(packed([1])), type(causal())):
        patch.setattr(part, "at", None)


@pytest.mark.parametrize("batch", [1, BATCH])
def test_every_text_is_attended_to_as_if_it_were_alone(batch: int) -> None:
    call = make(packed(LENGTHS), batch=batch)
    parts = zip(*(x.split(LENGTHS, 2) for x in (call.q, call.k, call.v)), strict=True)
    alone = [attend(q, k, v) for q, k, v in parts]
    torch.testing.assert_close(SOFTMAX.attend(call), torch.cat(alone, 2), atol=1e-14, rtol=1e-14)


MASKS = {
    "packed": packed(LENGTHS),
    "a tensor of lengths": packed(torch.tensor(LENGTHS)),
    "causal": packed(LENGTHS) & causal(),
    "window": causal() & window(3) & packed(LENGTHS),
    "tiles": packed(LENGTHS) & tiles(4),
    "selected": packed(LENGTHS) & selected([2, 9]),
    "padding": packed(LENGTHS) & padding(lengths=[9, 21], total=TOTAL),
    "causal, padding": packed(LENGTHS) & causal() & padding(lengths=[20, 3], total=TOTAL, side="left"),
    "table": packed(LENGTHS) & allowed(torch.rand(TOTAL, TOTAL, generator=torch.Generator().manual_seed(1)) < 0.7),
    "segments": packed(LENGTHS) & segments(torch.arange(TOTAL) // 2),
    "union": packed(LENGTHS) & (window(2) | selected([9])),
    "twice": packed(LENGTHS) & packed((6, TOTAL - 6)),
    "not": ~packed(LENGTHS),
    "or": packed(LENGTHS) | window(2),
}
SPLIT = ("packed", "a tensor of lengths", "causal", "window", "tiles", "selected", "padding", "causal, padding")


@pytest.mark.parametrize("positions", [None, RESTARTED, JUMPING], ids=["none", "restart", "jump"])
@pytest.mark.parametrize("name", list(MASKS))
def test_it_is_the_table(name: str, positions: Tensor | None) -> None:
    call = make(MASKS[name], query_positions=positions, key_positions=positions)
    assert MASKS[name].kernel(TOTAL) == ("packed" if name in SPLIT else "tiles")
    same(call, tabulated(call))


@pytest.mark.parametrize("rest", [None, causal()], ids=["all", "causal"])
@pytest.mark.parametrize("name", ["scale", "cap", "table", "alibi", "relative"])
def test_scores_are_modified_as_under_the_table(name: str, rest: Mask | None) -> None:
    draw = {"generator": torch.Generator().manual_seed(3), "dtype": torch.float64}
    options = {
        "scale": {"scale": -0.3},
        "cap": {"softcap": 0.7},
        "table": {"bias": torch.randn(1, HEADS, TOTAL, TOTAL, **draw)},
        "alibi": {"bias": Alibi(torch.rand(HEADS, **draw))},
        "relative": {"bias": Relative(torch.randn(8, HEADS, **draw), max_distance=11)},
    }[name]
    mask = packed(LENGTHS) if rest is None else packed(LENGTHS) & rest
    for positions in (None, RESTARTED, JUMPING):
        call = make(mask, query_positions=positions, key_positions=positions, **options)
        same(call, tabulated(call))


@given(st.lists(st.integers(0, 7), min_size=1, max_size=9).filter(any), st.integers(0, 10**6))
def test_any_lengths(lengths: list[int], seed: int) -> None:
    random, total = Random(seed), sum(lengths)
    mask = packed(lengths)
    mask = mask & causal() if random.random() < 0.5 else mask
    mask = mask & padding(lengths=[random.randrange(total + 1)], total=total) if random.random() < 0.3 else mask
    call = make(mask, lengths=tuple(lengths), batch=1, seed=seed)
    same(call, tabulated(call))
    squares = [size * (size + 1) // 2 if causal() in mask.parts() else size * size for size in lengths]
    assert len(mask.parts()) > 2 or mask.count(total) == int(mask.table(total).sum()) <= sum(squares)


@pytest.mark.parametrize("other", ["local", "additive"])
def test_other_mechanisms_honour_it(other: str) -> None:
    options = {"window": 3} if other == "local" else {}
    call = make(packed(LENGTHS))
    vector = torch.randn(1, WIDTH, dtype=torch.float64) if other == "additive" else None
    found = [
        attend(call.q, call.k, call.v, mask=mask, mechanism=other, vector=vector, **options)
        for mask in (packed(LENGTHS), allowed(packed(LENGTHS).table(TOTAL)))
    ]
    torch.testing.assert_close(*found, atol=1e-12, rtol=1e-12)


NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", ["packed", "causal", "padding"])
@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_what_is_wrong_in_one_text_reaches_no_other(bad: float, name: str, dtype: torch.dtype) -> None:
    call = make(MASKS[name])
    call = replace(call, q=call.q.to(dtype), k=call.k.to(dtype), v=call.v.to(dtype))
    # Token 3 stands in the second text, beside one of the same length and before one of another.
    where = (torch.arange(TOTAL) == 3)[:, None]
    own = ((torch.arange(TOTAL) >= 3) & (torch.arange(TOTAL) < 6))[:, None]
    upstream = ripple(call.v.repeat_interleave(HEADS // KV_HEADS, 1)) * ~own
    close = {torch.float64: 1e-12, torch.float32: 3e-5, torch.bfloat16: 0.1}[dtype]
    clean = outcome(SOFTMAX.attend, call, upstream=upstream)
    for axes in ("q", "k", "v", "qkv"):
        dirty = replace(call, **{axis: getattr(call, axis).masked_fill(where, bad) for axis in axes})
        found = outcome(SOFTMAX.attend, dirty, upstream=upstream)
        silent = [SOFTMAX.attend(dirty), *found]
        for x, y in zip([clean[0], *clean], silent, strict=True):
            torch.testing.assert_close(y.masked_fill(own, 0), x.masked_fill(own, 0), atol=close, rtol=close)
        assert all(x.isfinite().all() for x in found[1:])
        expected = replace(dirty, mask=allowed(call.mask.at(call.pairs)))  # type: ignore[union-attr]
        assert torch.equal(silent[0].isnan(), SOFTMAX.reference(expected).isnan())


def test_one_bad_text_does_not_make_the_others_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Row by row goes the run that the bad text belongs to; the careful path of a row of all tokens would be long."""
    counted: list[int] = []
    monkeypatch.setattr(
        reference, "_rows", lambda call, rows=reference._rows: counted.append(call.q.shape[2]) or rows(call)
    )
    call = make(packed(LENGTHS))
    SOFTMAX.attend(replace(call, k=call.k.masked_fill((torch.arange(TOTAL) == 3)[:, None], NAN)))
    assert counted == [3]


def test_runs_are_views_and_one_kernel_each(monkeypatch: pytest.MonkeyPatch) -> None:
    forbid_tables(monkeypatch)
    kernel, seen = F.scaled_dot_product_attention, []

    def counted(q: Tensor, k: Tensor, v: Tensor, *rest, **options) -> Tensor:
        seen.append((tuple(q.shape), q.untyped_storage().data_ptr(), options["is_causal"]))
        return kernel(q, k, v, *rest, **options)

    monkeypatch.setattr(F, "scaled_dot_product_attention", counted)
    # As a layer makes them: tokens before heads in memory.
    q, k, v = (torch.randn(1, TOTAL, HEADS * WIDTH).unflatten(2, (HEADS, WIDTH)).transpose(1, 2) for _ in range(3))
    for mask in (packed(LENGTHS), packed(LENGTHS) & causal()):
        seen.clear()
        out = attend(q, k, v, mask=mask)
        assert [shape[::2] for shape, *_ in seen] == [(2, 3), (1, 5), (3, 1), (1, 11)]
        assert {pointer for _, pointer, _ in seen} == {q.untyped_storage().data_ptr()}
        assert seen[0][2] == (mask.parts() != (mask,))
        assert out.transpose(1, 2).is_contiguous()


def test_memory_grows_with_the_tokens() -> None:
    lengths = [8] * 256
    q, k, v = (torch.randn(1, 1, 2048, 8) for _ in range(3))
    memory = peak_memory(lambda: attend(q, k, v, mask=packed(lengths)))
    assert memory.beyond < 10 * q.nbytes < 2048 * 2048


def test_pairs_are_counted_exactly() -> None:
    squares = sum(length * length for length in LENGTHS)
    triangles = sum(length * (length + 1) // 2 for length in LENGTHS)
    assert packed(LENGTHS).count(TOTAL) == squares == 167
    assert (packed(LENGTHS) & causal()).count(TOTAL) == triangles == 96
    assert packed(LENGTHS).count(TOTAL, batch=BATCH, heads=HEADS) == squares * BATCH * HEADS
    million = packed([1000] * 1000)
    assert million.count(10**6) == 10**9


def test_no_pair_beyond_these_is_computed() -> None:
    sizes = Sizes(BATCH, HEADS, KV_HEADS, TOTAL, TOTAL, WIDTH, VALUE_WIDTH)
    cost = SOFTMAX.operation(Softmax(), Workload(sizes, packed(LENGTHS), Pairs.of(TOTAL))).forward
    assert cost.useful == 167 * BATCH * HEADS * (WIDTH + VALUE_WIDTH)
    assert cost.executed == 167 * BATCH * HEADS * 2 * WIDTH
    under = SOFTMAX.operation(Softmax(), Workload(sizes, packed(LENGTHS) & causal(), Pairs.of(TOTAL))).forward
    assert under.executed == cost.executed  # a short text is one block of the causal kernel
    padded = packed(LENGTHS) & padding(lengths=[9, 20], total=TOTAL)
    assert SOFTMAX.operation(Softmax(), Workload(sizes, padded, Pairs.of(TOTAL))).forward.executed == cost.executed


def test_a_wrong_total_is_refused() -> None:
    q, k, v = (torch.randn(1, 1, 11, 4) for _ in range(3))
    with pytest.raises(ValueError, match="2 lengths have 10 tokens together, not 11 queries and 11 keys"):
        attend(q, k, v, mask=packed([3, 7]))
    with pytest.raises(ValueError, match="10 tokens together, not 10 queries and 11 keys"):
        attend(q[:, :, :10], k, v, mask=packed([3, 7]))
    with pytest.raises(ValueError, match="10 tokens"):
        packed([3, 7]).count(9)


@pytest.mark.parametrize("lengths", [[3, -1], [2.0, 3.0], [[2, 3]], [True, False]], ids=str)
def test_what_is_no_length_is_refused(lengths: list) -> None:
    with pytest.raises(ValueError, match="packed takes the length of each text"):
        packed(torch.tensor(lengths))


def test_nothing_at_all() -> None:
    q, k, v = (torch.randn(1, 3, 0, 4) for _ in range(3))
    assert attend(q, k, v, mask=packed([])).shape == (1, 3, 0, 4)
    assert packed([0, 0]).count(0) == 0


def test_linear_attention_refuses_it_in_words() -> None:
    q, k, v = (torch.randn(1, 1, 5, 4) for _ in range(3))
    with pytest.raises(ValueError, match="no other mask"):
        attend(q, k, v, mask=packed([2, 3]), mechanism="linear")
