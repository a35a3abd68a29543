"""Prices: worked out by hand, counted in what really runs, and polynomials where sizes are symbols."""

from typing import Any

import pytest
import sympy
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from headway.config import read_spec
from headway.ops.attention import MECHANISMS, Call, additive, attend_call
from headway.ops.attention.cost import Workload, flash_causal
from headway.ops.attention.kernels.sdpa import trusted
from headway.ops.attention.plan import SMALL, Modifiers
from headway.ops.mask import Mask, allowed, causal, padding, window
from headway.ops.mask.pairs import Pairs
from headway.sizes import Cost, Sizes
from tests.ops.attention.by_hand import _allow
from tests.ops.attention.calls import build

SIZES = Sizes(batch=2, heads=6, kv_heads=3, queries=35, keys=35, key_width=7, value_width=5)


def price(name: str, sizes: Sizes = SIZES, mask: Mask | None = None, **options: Any) -> Cost:
    whole = sizes.whole
    pairs = Pairs.counting(sizes.queries, sizes.keys) if whole else Pairs.counting(1, 1)
    record, plain = MECHANISMS[name], Modifiers(scaled=MECHANISMS[name].scales)
    return record.operation(read_spec(name, **options), Workload(sizes, mask, pairs, plain)).forward


def call_of(name: str, sizes: Sizes, mask: Mask | None, **options: Any) -> Call:
    generator = torch.Generator().manual_seed(0)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    q = draw(sizes.batch, sizes.heads, sizes.queries, sizes.key_width)
    k = draw(sizes.batch, sizes.kv_heads, sizes.keys, sizes.key_width)
    v = draw(sizes.batch, sizes.kv_heads, sizes.keys, sizes.value_width)
    extra = {"vector": draw(1, sizes.key_width)} if name == "additive" else {}
    return build(q, k, v, mask=mask, mechanism=name, options=options, **extra)


def test_256_patches_of_width_512() -> None:
    """The textbook's question: scores and weighted sum between patches, and between channels in one group."""
    sizes = Sizes(batch=1, heads=1, kv_heads=1, queries=256, keys=256, key_width=512, value_width=512)
    assert price("softmax", sizes).dense == 67_108_864
    assert price("channel", sizes).dense == 134_217_728
    assert price("softmax", sizes).flops == 134_217_728
    projections = 3 * 256 * 512 * 512
    assert (projections + 134_217_728) / (projections + 67_108_864) == 1.25


def test_numbers_worked_out_by_hand() -> None:
    sizes = Sizes(batch=2, heads=3, kv_heads=1, queries=5, keys=7, key_width=11, value_width=13)
    scores = 2 * 3 * 5 * 7
    assert price("softmax", sizes) == Cost(scores * 24, scores * 24, scores * 26, 6 * scores)
    # Keys once for the one shared head, queries for all three: (7 + 3·5) · 11 features · 14, twice; a feature takes 4.
    assert price("linear", sizes) == Cost(6776, 6776, 6776, 2 * 3 * 5 * 13 + 4 * 2 * (7 + 3 * 5) * 11)
    assert price("additive", sizes) == Cost(scores * 24, scores * 24, scores * 24, scores * 27)
    square = Sizes(batch=2, heads=3, kv_heads=1, queries=5, keys=5, key_width=7, value_width=7)
    assert price("channel", square) == Cost(2 * 3 * 5 * 98, 2 * 3 * 5 * 98, 2 * 3 * 5 * 98, 6 * 2 * 3 * 49)


MASKS = {
    "causal": causal(),
    "padding": padding(lengths=[35, 20]),
    "causal, padding": causal() & padding(lengths=[35, 20], side="left"),
    "window": window(4) & causal(),
    "table": allowed(torch.rand(2, 6, 35, 35, generator=torch.Generator().manual_seed(0)) < 0.3),
}
LOCAL: list[dict[str, Any]] = [
    {"window": 3}, {"window": 2, "dilation": 3}, {"window": 2, "selected": (4, 30)}, {"window": 2, "grid": (5, 7)},
]  # fmt: skip


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("softmax", {}),
        ("additive", {}),
        ("spatial", {"grid": (5, 7), "window": 2}),
        *(("local", some) for some in LOCAL),
    ],
    ids=str,
)
def test_useful_is_the_count_of_allowed_pairs(name: str, options: dict[str, Any], mask: str) -> None:
    call = call_of(name, SIZES, MASKS[mask], **options)
    assert price(name, mask=MASKS[mask], **options).useful == int(_allow(call).sum()) * (7 + 5)
    # Windows that do not overlap are attentions of their own: 4 + 6 of 2 x 2, 2 x 3 of 2, one of 1 on 5 x 7.
    pairs = 6 * 16 + 2 * 4 + 3 * 4 + 1 if name == "spatial" else 35 * 35
    assert price(name, mask=MASKS[mask], **options).dense == 2 * 6 * pairs * (7 + 5)


def test_padding_is_useless_to_linear_and_channel() -> None:
    mask = padding(lengths=[35, 20])
    assert price("linear", mask=mask).useful == (3 * 55 + 6 * 70) * 7 * 6
    square = Sizes(batch=2, heads=6, kv_heads=3, queries=35, keys=35, key_width=7, value_width=7)
    assert price("channel", square, mask).useful == 55 * 6 * 2 * 49


# Executed: what the fast path asks its kernels to multiply, counted where it happens.


def executed_by_kernels(call: Call, monkeypatch: pytest.MonkeyPatch) -> int:
    """Multiply-adds of all calls of the fused kernel (whole blocks) and of all written-out blocks."""
    total = 0
    real = torch.nn.functional.scaled_dot_product_attention

    def spy(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, **rest: Any) -> Tensor:
        nonlocal total
        rows = flash_causal(q.shape[2], k.shape[2]) if is_causal else q.shape[2] * k.shape[2]
        total += q.shape[0] * q.shape[1] * rows * (q.shape[3] + v.shape[3])
        return real(q, k, v, mask, is_causal=is_causal, **rest)

    def counting(*given: Any) -> Tensor:
        nonlocal total
        scores = hidden(*given)
        total += scores.numel() * (given[1].shape[3] + call.v.shape[3])
        return scores

    hidden = additive.hidden
    assert trusted("cpu", call.q.dtype)  # the canary's own call is not counted
    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", spy)
    monkeypatch.setattr(additive, "hidden", counting)
    attend_call(call)
    monkeypatch.undo()
    return total


LARGE = Sizes(batch=1, heads=2, kv_heads=1, queries=600, keys=600, key_width=5, value_width=3)


PADDED = padding(lengths=[500], total=600)
RUNS: dict[str, tuple[str, Mask | None, dict[str, Any]]] = {
    "plain": ("softmax", None, {}),
    "causal": ("softmax", causal(), {}),
    "padding": ("softmax", PADDED, {}),
    "causal, padding": ("softmax", causal() & PADDED, {}),
    "causal window": ("softmax", causal() & window(40), {}),
    "window, padding": ("softmax", window(40) & PADDED, {}),
    "local": ("local", None, {"window": 20}),
    "local, dilated": ("local", causal(), {"window": 20, "dilation": 3}),
    "local, selected": ("local", None, {"window": 20, "selected": (0, 300)}),
    "local, grid": ("local", None, {"window": 3, "grid": (20, 30)}),
    "spatial": ("spatial", None, {"grid": (20, 30)}),
    "spatial, windows": ("spatial", None, {"grid": (20, 30), "window": 7}),
    "spatial, masked windows": ("spatial", causal(), {"grid": (20, 30), "window": 7}),
    "additive": ("additive", None, {}),
    "additive, window": ("additive", causal() & window(9), {}),
}


@pytest.mark.parametrize("run", RUNS)
def test_executed_is_what_runs(run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, mask, options = RUNS[run]
    counted = executed_by_kernels(call_of(name, LARGE, mask, **options), monkeypatch)
    assert price(name, LARGE, mask, **options).executed == counted
    assert counted >= price(name, LARGE, mask, **options).useful


def test_small_calls_are_one_tile(monkeypatch: pytest.MonkeyPatch) -> None:
    call = call_of("softmax", SIZES, window(3))
    counted = executed_by_kernels(call, monkeypatch)
    assert price("softmax", mask=window(3)).executed == counted == 2 * 6 * 35 * 35 * 14
    assert SMALL >= 35 * 35


@pytest.mark.parametrize("chunk", [5, 8, 64])
def test_linear_executes_its_chunks(chunk: int) -> None:
    """torch's own counter of FLOPs reads the matrix products; each chunk of c tokens has c² scores and their sums."""
    call = call_of("linear", SIZES, causal(), chunk=chunk)
    with FlopCounterMode(display=False) as counter:
        attend_call(call)
    parts = [min(chunk, 35 - start) for start in range(0, 35, chunk)]
    squares = 2 * 6 * sum(c * c for c in parts) * (7 + 6)
    totals = (2 * 3 * 35 + 2 * 6 * (35 - parts[0])) * 7 * 6
    assert counter.get_total_flops() == 2 * (squares + totals)
    assert price("linear", mask=causal(), chunk=chunk).executed == squares + totals


def test_all_at_once_linear_and_channel_execute_their_price() -> None:
    square = Sizes(batch=2, heads=6, kv_heads=3, queries=35, keys=35, key_width=7, value_width=7)
    for name, sizes in (("linear", SIZES), ("channel", square)):
        with FlopCounterMode(display=False) as counter:
            attend_call(call_of(name, sizes, None))
        assert counter.get_total_flops() == 2 * price(name, sizes).executed


def test_a_feature_map_of_its_own_width_costs_its_width() -> None:
    def wide(x: Tensor) -> Tensor:
        return torch.cat([x.exp(), (-x).exp()], -1)

    assert price("linear", feature=wide).dense == 2 * price("linear").dense


# Symbols


def test_symbols_give_polynomials() -> None:
    names = "B H G L M K W"
    symbols = dict(zip(names.split(), sympy.symbols(names, positive=True, integer=True), strict=True))
    sizes = Sizes(*(symbols[name] for name in names.split()))
    numbers = dict(zip(symbols.values(), (2, 6, 3, 35, 35, 7, 5), strict=True))
    b, h, g, n, m, k, w = symbols.values()
    assert sympy.expand(price("softmax", sizes).dense - b * h * n * m * (k + w)) == 0
    assert sympy.expand(price("linear", sizes).dense - b * (g * m + h * n) * k * (w + 1)) == 0
    for name in ("softmax", "linear", "channel", "additive"):
        symbolic, counted = price(name, sizes), price(name)
        for kind in ("dense", "useful", "other"):
            assert getattr(symbolic, kind).subs(numbers) == getattr(counted, kind), (name, kind)
        assert name == "channel" or symbolic.executed is None


def test_symbols_under_masks() -> None:
    length, width = sympy.symbols("L K", positive=True, integer=True)
    sizes = Sizes(1, 1, 1, length, length, width, width)
    for name, mask, options in (
        ("softmax", causal(), {}),
        ("softmax", causal() & window(4), {}),
        ("additive", causal(), {}),
        ("local", causal(), {"window": 4}),
        ("local", None, {"window": 4}),
    ):
        found = price(name, sizes, mask, **options).useful.subs({length: 31, width: 7})
        counted = price(name, Sizes(1, 1, 1, 31, 31, 7, 7), mask, **options).useful
        assert float(found) == counted, name


def test_the_kernels_own_blocks() -> None:
    """A triangle in blocks: every block that causality touches is computed whole."""
    for queries, rows in ((5, 32), (100, 32), (200, 64), (1000, 256)):
        blocks = 0
        for start in range(0, queries, rows):
            last = min(queries, start + rows)
            touched = [first for first in range(0, queries, 512) if first < last]
            blocks += (last - start) * sum(min(512, queries - first) for first in touched)
        assert flash_causal(queries, queries) == blocks
