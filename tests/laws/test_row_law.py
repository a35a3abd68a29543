"""The row law: output row i, and its gradients, depend only on q_i and on the keys it may see.

In float64, float32 and bfloat16, in small calls and in tiles, for every mechanism that takes masks.
"""

from dataclasses import dataclass, replace

import pytest
import torch
from torch import Tensor

from headway.audit.mechanisms.trials import outcome, ripple, visible
from headway.config import Linear
from headway.ops.attention import MECHANISMS, Call, record_of
from headway.ops.attention.kernels import guard
from headway.ops.mask import Mask, allowed, causal, padding, selected, window
from tests.ops.attention.calls import build
from tests.ops.attention.paths import force_tiles

BATCH, HEADS, KV_HEADS, LENGTH, WIDTH = 2, 6, 3, 11, 7
NAN, INF = float("nan"), float("inf")
# Two paths may be compared, the fused one and the careful one; in bfloat16 the fused one rounds its weights.
CLOSE = {torch.float64: 1e-12, torch.float32: 3e-5, torch.bfloat16: 0.1}
OPTIONS: dict[str, dict] = {
    "softmax": {},
    "linear": {"chunk": 3},
    "local": {"window": 3, "selected": (4,)},
    "spatial": {"grid": (1, LENGTH), "window": (1, 6)},
    "channel": {},
    "additive": {},
}


def seen_by(call: Call) -> Tensor:
    """Who may see whom, by the record of the call's own mechanism."""
    return visible(record_of(call.spec), call)


def _masks() -> dict[str, Mask]:
    generator = torch.Generator().manual_seed(3)
    table = torch.rand(BATCH, HEADS, LENGTH, LENGTH, generator=generator) < 0.5
    table[0, :, 2], table[1, 1, 4] = False, False
    return {
        "right padding": padding(lengths=[8, 3], total=LENGTH),
        "left padding": padding(lengths=[8, 0], total=LENGTH, side="left"),
        "causal": causal(),
        "causal, left padding": causal() & padding(lengths=[8, 3], total=LENGTH, side="left"),
        "window": window(3),
        "table": allowed(table),
        "star": (causal() & window(2)) | selected([5]),
    }


MASKS = _masks()
# Linear and channel attention refuse other masks, in words; the rest share their paths with softmax.
ONLY = {
    "spatial": ("right padding", "causal", "table"),
    "additive": ("left padding", "causal", "window", "table"),
    "linear": ("causal", "right padding", "causal, left padding"),
    "channel": ("right padding", "left padding"),
}
CASES = [(mechanism, name) for mechanism in OPTIONS for name in ONLY.get(mechanism, MASKS)]
PRECISIONS = pytest.mark.parametrize("dtype", list(CLOSE), ids=["float64", "float32", "bfloat16"])
EXTREMES = pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32], ids=["bfloat16", "float32"])
PATHS = pytest.mark.parametrize(
    ("path", "dtype"),
    [("small", torch.float64), ("small", torch.bfloat16), ("tiles", torch.float32)],
    ids=["float64", "bfloat16", "tiles of float32"],
)
EACH = pytest.mark.parametrize(("mechanism", "mask"), CASES)


def make(mechanism: str, mask: Mask | None, dtype: torch.dtype) -> Call:
    generator = torch.Generator().manual_seed(7)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator, dtype=torch.float64).to(dtype)

    q, k, v = (draw(BATCH, heads, LENGTH, WIDTH) for heads in (HEADS, KV_HEADS, KV_HEADS))
    vector = {"vector": draw(1, WIDTH)} if mechanism == "additive" else {}
    return build(q, k, v, mask=mask, mechanism=mechanism, options=OPTIONS[mechanism], **vector)


@dataclass
class Poisoned:
    """The same call clean and with some keys poisoned, and the rows (B H L 1) that may see none of these."""

    clean: Call
    dirty: Call
    rows: Tensor
    gone: Tensor


def poison(call: Call, value: float, *, hidden_from_all: bool) -> Poisoned:
    seen = seen_by(call)
    gone = ~seen.any(2).any(1) if hidden_from_all else _partly(seen)
    rows = ~(seen & gone[:, None, None, :]).any(-1, keepdim=True)
    where = gone[:, None, :, None]
    # NaN in the key and inf in its value (or the other way round) cost one run instead of two.
    other = INF if value != value else NAN if value == -INF else value
    dirty = replace(call, k=call.k.masked_fill(where, value), v=call.v.masked_fill(where, other))
    return Poisoned(call, dirty, rows, gone)


def _partly(seen: Tensor) -> Tensor:
    """In each row of the batch, one key that is seen by some rows and hidden from others, if there is one."""
    hidden = (~seen.all(2).all(1)) & seen.any(2).any(1)
    first = hidden.int().argmax(-1, keepdim=True)
    return hidden & (torch.arange(hidden.shape[1]) == first)


def compare(mechanism: str, case: Poisoned) -> None:
    attend, close = MECHANISMS[mechanism].attend, CLOSE[case.clean.q.dtype]
    upstream = ripple(case.clean.q[..., :1].expand(-1, -1, -1, WIDTH).contiguous()) * case.rows
    before = outcome(attend, case.clean, upstream=upstream)
    after = outcome(attend, case.dirty, upstream=upstream)
    # Without gradients a mechanism may take another path, and a bad value beside a good key yet another.
    other = [attend(case.dirty), attend(replace(case.clean, v=case.dirty.v))]
    before, after = [before[0], before[0], *before], [*other, *after]
    before[:3], after[:3] = ([x.where(case.rows, 0) for x in found[:3]] for found in (before, after))
    for name, x, y in zip(("output", "output", "output with gradients", *"qkv"), before, after, strict=True):
        assert y.isfinite().all(), f"{name} is not finite"
        torch.testing.assert_close(y, x, atol=close, rtol=close)
    unseen = ~seen_by(case.clean).any(2).any(1)[:, None, :, None]
    assert not (after[4] * unseen).any()
    assert not (after[5] * unseen).any()


@EACH
@PATHS
def test_what_nobody_sees_arrives_nowhere(
    mechanism: str, mask: str, dtype: torch.dtype, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "tiles":
        force_tiles(monkeypatch)
    call = make(mechanism, MASKS[mask], dtype)
    compare(mechanism, poison(call, NAN, hidden_from_all=True))


def test_declared_padding_needs_no_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """What nobody may see is zeroed once; one row after the other is for keys that some may see."""
    monkeypatch.setattr(guard, "careful_rows", None)
    for mechanism in ("softmax", "linear", "local", "additive"):
        call = make(mechanism, MASKS["right padding"], torch.float32)
        compare(mechanism, poison(call, NAN, hidden_from_all=True))


@EACH
@PATHS
def test_what_some_see_arrives_at_no_other(
    mechanism: str, mask: str, dtype: torch.dtype, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "tiles":
        force_tiles(monkeypatch)
    call = make(mechanism, MASKS[mask], dtype)
    compare(mechanism, poison(call, -INF if dtype == torch.float32 else NAN, hidden_from_all=False))


BIG = {torch.float64: 1e200, torch.float32: 1e30, torch.bfloat16: 1e30}


@EACH
@EXTREMES
def test_an_overflow_that_nobody_sees_arrives_nowhere(mechanism: str, mask: str, dtype: torch.dtype) -> None:
    compare(mechanism, poison(make(mechanism, MASKS[mask], dtype), BIG[dtype], hidden_from_all=True))


@EACH
@EXTREMES
def test_an_overflow_that_some_see_arrives_at_no_other(mechanism: str, mask: str, dtype: torch.dtype) -> None:
    compare(mechanism, poison(make(mechanism, MASKS[mask], dtype), BIG[dtype], hidden_from_all=False))


def test_a_huge_score_has_no_gradient_where_it_is_hidden() -> None:
    for seed in range(12):
        generator = torch.Generator().manual_seed(seed)
        q, k, v = (torch.randn(1, 3, 15, 7, generator=generator) for _ in range(3))
        k[:, :, 14] = v[:, :, 14] = 1e30
        call = build(q, k, v, mask=causal(), options={})
        upstream = torch.ones(1, 3, 15, 7)
        upstream[:, :, 14] = 0
        _, *gradients = outcome(MECHANISMS["softmax"].attend, call, upstream=upstream)
        assert all(x.isfinite().all() for x in gradients)


def test_a_feature_that_overflows_is_hidden_too() -> None:
    call = replace(make("linear", causal(), torch.float64), spec=Linear(feature=torch.exp))
    compare("linear", poison(call, 1e3, hidden_from_all=False))


@EACH
@PATHS
def test_rows_that_see_nothing_are_zero(
    mechanism: str, mask: str, dtype: torch.dtype, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if path == "tiles":
        force_tiles(monkeypatch)
    call = make(mechanism, MASKS[mask], dtype)
    empty = ~seen_by(call).any(-1, keepdim=True)
    out, q, k, v = outcome(MECHANISMS[mechanism].attend, call)
    assert all(x.isfinite().all() for x in (out, q, k, v))
    assert not (out * empty).any()
    assert not (q * empty).any()


def test_some_rows_do_see_nothing() -> None:
    empty = {name: bool((~seen_by(make("softmax", mask, torch.float64)).any(-1)).any()) for name, mask in MASKS.items()}
    assert empty["left padding"]
    assert empty["causal, left padding"]
    assert empty["table"]
    partly = {name: bool(_partly(seen_by(make("softmax", mask, torch.float64))).any()) for name, mask in MASKS.items()}
    assert [name for name, some in partly.items() if not some] == ["right padding", "left padding"]


@pytest.mark.parametrize(("mechanism", "mask"), [case for case in CASES if case[0] != "channel"])
@EXTREMES
def test_a_bad_key_arrives_where_it_is_seen(mechanism: str, mask: str, dtype: torch.dtype) -> None:
    call = make(mechanism, MASKS[mask], dtype)
    gone = seen_by(call).any(2).any(1) & (torch.arange(LENGTH) == 5)
    sees = (seen_by(call) & gone[:, None, None, :]).any(-1)
    for name in ("k", "v"):
        x = getattr(call, name).masked_fill(gone[:, None, :, None], NAN)
        out = MECHANISMS[mechanism].attend(replace(call, **{name: x}))
        assert torch.equal(out.isnan().any(-1), sees)


@PRECISIONS
def test_between_channels_a_bad_value_spoils_its_position_and_a_bad_key_all(dtype: torch.dtype) -> None:
    call, bad = make("channel", None, dtype), (torch.arange(LENGTH) == 5)[:, None]
    attend = MECHANISMS["channel"].attend
    assert attend(replace(call, k=call.k.masked_fill(bad, NAN))).isnan().all()
    assert torch.equal(attend(replace(call, v=call.v.masked_fill(bad, NAN))).isnan(), bad.expand_as(call.q))


@pytest.mark.parametrize("mechanism", [name for name in OPTIONS if name != "channel"])
@PRECISIONS
def test_a_bad_query_spoils_its_own_row(mechanism: str, dtype: torch.dtype) -> None:
    for mask in (None, causal(), padding(lengths=[8, 3], total=LENGTH)):
        call = make(mechanism, mask, dtype)
        bad = torch.zeros(BATCH, HEADS, LENGTH, 1, dtype=torch.bool)
        bad[0, 1, 5] = True
        out = MECHANISMS[mechanism].attend(replace(call, q=call.q.masked_fill(bad, NAN)))
        assert torch.equal(out.isnan().any(-1, keepdim=True), bad & seen_by(call).any(-1, keepdim=True))


def test_without_a_mask_nothing_bad_is_swallowed() -> None:
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        for length in (1, 5, 77) if dtype == torch.bfloat16 else (1, 5):
            for name, value in (("q", NAN), ("k", INF), ("k", NAN), ("v", NAN)):
                generator = torch.Generator().manual_seed(7)
                x = {axis: torch.randn(1, 1, length, 8, generator=generator).to(dtype) for axis in "qkv"}
                x[name][0, 0, 0, 3] = value
                call = build(**x, options={})
                expected = MECHANISMS["softmax"].reference(call).isnan()
                assert torch.equal(MECHANISMS["softmax"].attend(call).isnan(), expected), (dtype, length, name)


def test_gradients_of_weights_know_nothing_of_hidden_keys() -> None:
    call = make("softmax", MASKS["right padding"], torch.float64)
    case = poison(call, NAN, hidden_from_all=True)
    q = call.q.clone().requires_grad_()
    matrix = MECHANISMS["softmax"].weights(replace(case.dirty, q=q), slice(None), slice(None))
    assert torch.autograd.grad(matrix.square().sum(), q)[0].isfinite().all()
