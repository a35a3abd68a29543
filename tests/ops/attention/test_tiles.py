"""Tiles cover what a mask allows, each row once; the canary sings; the paths agree."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
import torch
from hypothesis import given
from torch import Tensor

from headway.audit.mechanisms.trials import outcome
from headway.config import Local
from headway.ops.attention import MECHANISMS, softmax
from headway.ops.attention.kernels.sdpa import trusted
from headway.ops.attention.kernels.tiles import Tile, length, plan_tiles
from headway.ops.attention.kernels.window import plan_neighbours
from headway.ops.attention.local import pattern
from headway.ops.mask import Mask, causal, dilated, everything, padding, window
from headway.ops.mask.pairs import Pairs
from tests.ops.attention.calls import build
from tests.ops.attention.paths import force_tiles
from tests.ops.mask.brute import BATCH, HEADS, KEYS, QUERIES, case, cases, tabulate


def covered(tiles: list[Tile], batch: int, queries: int, keys: int) -> Tensor:
    """How often a tile computes each pair, B L M."""
    count = torch.zeros(batch, queries, keys, dtype=torch.int64)
    for tile in tiles:
        rows, columns = (torch.arange(size)[where] for size, where in ((queries, tile.rows), (keys, tile.columns)))
        part = torch.zeros(queries, keys, dtype=torch.int64)
        part[rows[:, None], columns] += 1
        count[tile.batch] += part
    return count


def check(tiles: list[Tile], allows: Tensor) -> None:
    batch, _, queries, keys = allows.shape
    count = covered(tiles, batch, queries, keys)
    assert int(count.max()) <= 1, "a pair is computed twice"
    assert not (allows.any(1) & (count == 0)).any(), "an allowed pair stands in no tile"
    whole = torch.zeros(batch, queries, dtype=torch.int64)
    for tile in tiles:
        whole[tile.batch, torch.arange(queries)[tile.rows]] += 1
    assert int(whole.max()) <= 1
    assert sum(tile.size(batch, queries, keys) for tile in tiles) == int(count.sum())


@given(cases)
def test_a_plan_covers_every_allowed_pair_once(drawn: tuple[int, str]) -> None:
    mask, truth, where = case(drawn)
    tiles = plan_tiles(mask, Pairs.of(*where.given), rows=Random(drawn[0]).choice([1, 2, 3, 8]))
    check(tiles, tabulate(truth, where))
    assert tabulate(truth, where).shape == (BATCH, HEADS, QUERIES, KEYS)


@pytest.mark.parametrize("length", [1, 7, 64, 300])
@pytest.mark.parametrize("start", [0, 5, -3])
@pytest.mark.parametrize(
    "mask",
    [None, everything(), causal(), window(4), window(90), causal() & window(4), causal() & dilated(3, dilation=5)],
    ids=["none", "full", "causal", "near", "far", "causal near", "dilated"],
)
def test_tiles_of_counted_positions_are_those_that_a_look_at_them_gives(
    mask: Mask | None, start: int, length: int
) -> None:
    pairs = Pairs.running(start, length)
    counted, looked = (plan_tiles(mask, some, rows=16) for some in (pairs, replace(pairs, start=None)))
    assert [(one.batch, one.rows, one.columns) for one in counted] == [
        (one.batch, one.rows, one.columns) for one in looked
    ]


@pytest.mark.parametrize("mask", [None, causal(), causal() & padding(lengths=[35])], ids=["all", "causal", "padded"])
@pytest.mark.parametrize(
    "options",
    [
        {"window": 3},
        {"window": 40},
        {"window": 3, "dilation": 4},
        {"window": 2, "dilation": 50},
        {"window": 2, "selected": (0, 17, 99)},
        {"window": 2, "dilation": 3, "selected": (4,), "global_tokens": True},
        {"window": (2, 3), "grid": (5, 7)},
        {"window": (2, 2), "dilation": (2, 3), "grid": (7, 5)},
        {"window": 3, "grid": (5, 7), "selected": (8,)},
    ],
    ids=str,
)
def test_neighbours_cover_their_pattern_once(
    options: dict[str, Any], mask: Mask | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    force_tiles(monkeypatch, rows=4)
    spec = Local(**options)
    pairs = Pairs.counting(35, 35)
    tiles = plan_neighbours(spec, mask, pairs)
    assert tiles is not None
    whole = pattern(spec) if mask is None else pattern(spec) & mask
    check(tiles, whole.table(35))


@pytest.mark.parametrize("options", [{"window": 3}, {"window": 2, "dilation": 3}, {"window": (2, 2), "grid": (5, 7)}])
def test_global_tokens_stand_before_the_sequence(options: dict[str, Any]) -> None:
    spec = Local(global_tokens=True, **options)
    positions = torch.arange(-2, 35)
    tiles = plan_neighbours(spec, None, Pairs.of(positions, positions))
    assert tiles is not None
    check(tiles, pattern(spec).table(positions, positions))


@pytest.mark.parametrize(
    "positions", [torch.arange(35) * 2, torch.arange(35).flip(0), torch.arange(35).repeat(2, 1) // 2]
)
def test_positions_that_jump_are_left_to_ranges(positions: Tensor) -> None:
    assert plan_neighbours(Local(window=3), None, Pairs.of(positions, positions)) is None


def test_tiles_grow_with_length_times_window() -> None:
    """Doubling the length doubles the pairs; a table would make them four times as many."""
    for options in ({"window": 64}, {"window": 64, "dilation": 8}, {"window": 64, "selected": (0, 100)}):
        spec = Local(**options)
        pairs = {}
        for size in (4096, 8192):
            tiles = plan_neighbours(spec, causal(), Pairs.counting(size, size))
            assert tiles is not None
            pairs[size] = sum(tile.size(1, size, size) for tile in tiles)
        assert pairs[8192] < 2.2 * pairs[4096]
        assert pairs[8192] < 8192 * 8192 / 20


def test_a_slice_knows_its_length() -> None:
    assert [length(slice(2, 9, 3), 8), length(slice(None), 5), length(torch.tensor([4, 4]), 5)] == [2, 5, 2]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_the_canary_sings_here(dtype: torch.dtype) -> None:
    assert trusted("cpu", dtype) is True


def test_the_canary_hears_a_kernel_that_forgets_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    real = torch.nn.functional.scaled_dot_product_attention
    broken = {
        "padding": lambda q, k, v, mask, is_causal: real(q, k, v, is_causal=is_causal),
        "causality": lambda q, k, v, mask, is_causal: real(q, k, v, mask),
        "empty rows": lambda q, k, v, mask, is_causal: real(q, k, v, mask & torch.ones(5, 5).tril().bool()) / 0 * 0,
    }
    for name, kernel in broken.items():
        trusted.cache_clear()
        monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", kernel)
        assert trusted("cpu", torch.float64) is False, name
    monkeypatch.undo()
    trusted.cache_clear()


def draw(*shape: int, seed: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


MASKS = {
    "causal+padding": causal() & padding(lengths=[37, 20], side="left"),
    "right": causal() & padding(lengths=[37, 20]),
    "window": window(5) & causal(),
    "none": None,
}


@pytest.mark.parametrize("mask", MASKS)
def test_every_path_gives_the_same(mask: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fused kernel, the table of all pairs, tiles, and scores written out in tiles."""
    q, k, v = draw(2, 6, 37, 7, seed=0), draw(2, 3, 37, 7, seed=1), draw(2, 3, 37, 5, seed=2)
    call = build(q, k, v, mask=MASKS[mask], options={})
    expected = outcome(MECHANISMS["softmax"].reference, call)
    table = None if call.mask is None else call.mask.at(call.pairs)
    ways = [call, build(q, k, v, mask=table, options={})]
    found = [outcome(softmax.attend, way) for way in ways]
    counted = force_tiles(monkeypatch)
    found += [outcome(softmax.attend, way) for way in ways]
    monkeypatch.setattr(softmax, "trusted", lambda *_: False)
    before = len(counted)
    found += [outcome(softmax.attend, way) for way in ways]
    assert call.mask is None or max(counted[before:]) > 1
    for way in found:
        for x, y in zip(way, expected, strict=True):
            torch.testing.assert_close(x, y, atol=1e-12, rtol=1e-12)


def test_the_fused_kernel_is_what_serves_causality_and_padding(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, bool]] = []
    real = torch.nn.functional.scaled_dot_product_attention

    def spy(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, *, is_causal: bool, **rest: Any) -> Tensor:
        seen.append((None if mask is None else tuple(mask.shape), is_causal))
        return real(q, k, v, mask, is_causal=is_causal, **rest)

    monkeypatch.setattr("torch.nn.functional.scaled_dot_product_attention", spy)
    q, k, v = (draw(2, 3, 37, 7, seed=seed) for seed in range(3))
    for mask, expected in (
        (None, (None, False)),
        (causal(), (None, True)),
        (padding(lengths=[37, 20]), ((2, 1, 1, 37), False)),
        (causal() & padding(lengths=[37, 20]), ((2, 1, 1, 37), True)),
    ):
        seen.clear()
        softmax.attend(build(q, k, v, mask=mask, options={}))
        assert seen == [expected]
