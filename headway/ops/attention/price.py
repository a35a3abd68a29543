"""What attention costs in multiply-adds: dense, useful and executed, from sizes alone."""

from dataclasses import replace

from headway.ops.attention.packed import Run, conditions, runs
from headway.ops.attention.tiles import SMALL, Tile, plan
from headway.ops.mask import Mask
from headway.ops.mask.count import count_pairs, formula
from headway.ops.mask.kernel import choose, unpacked
from headway.ops.mask.pairs import ALL, Pairs
from headway.sizes import Cost, Number, Sizes

# FLOPs outside the products, per score: scale, maximum, subtract, exp, sum, divide.
PER_SCORE = 6


def softmax_cost(sizes: Sizes, mask: Mask | None, pairs: Pairs, tiles: list[Tile] | None = None) -> Cost:
    """Two products per pair, K and W wide; `tiles` where somebody else planned them."""
    width = sizes.key_width + sizes.value_width
    useful = useful_pairs(sizes, mask, pairs) * width
    # The fused kernel wants one width, so the narrower side is padded.
    common = 2 * max(sizes.key_width, sizes.value_width) if sizes.whole else None
    executed = None if common is None else executed_pairs(sizes, mask, pairs, tiles) * common
    return Cost(sizes.scores * width, useful, executed, PER_SCORE * sizes.scores)


def useful_pairs(sizes: Sizes, mask: Mask | None, pairs: Pairs) -> Number:
    """The pairs the mask allows, in all rows of the batch and all heads."""
    if mask is None:
        return sizes.scores
    if not sizes.whole:
        return sizes.batch * sizes.heads * formula(mask, sizes.queries, sizes.keys)
    return count_pairs(mask, pairs, sizes.batch, sizes.heads)


def executed_pairs(sizes: Sizes, mask: Mask | None, pairs: Pairs, tiles: list[Tile] | None = None) -> int:
    """The pairs the fast path computes."""
    packs = None if mask is None or tiles is not None else unpacked(mask)
    if packs is not None:
        return sum(_executed_run(sizes, run, packs[1], pairs) for run in runs(packs[0]))
    kernel = choose(mask, pairs)
    if tiles is None and not kernel.tiles:
        per_head = flash_causal(sizes.queries, sizes.keys) if kernel.causal else sizes.queries * sizes.keys
        return sizes.batch * sizes.heads * per_head
    if tiles is None:
        small = sizes.queries * sizes.keys <= SMALL
        tiles = [Tile(ALL, ALL, ALL)] if small else plan(mask, pairs)
    return sizes.heads * sum(tile.size(sizes.batch, sizes.queries, sizes.keys) for tile in tiles)


def _executed_run(sizes: Sizes, run: Run, rest: tuple[Mask, ...], pairs: Pairs) -> int:
    mask, query, key = conditions(run, rest, pairs, sizes.batch)
    alone = replace(sizes, batch=sizes.batch * run.count, queries=run.length, keys=run.length)
    return executed_pairs(alone, mask, Pairs.of(run.length if query is None else query, key))


def flash_causal(queries: int, keys: int) -> int:
    """Pairs that torch's CPU kernel computes under causality: blocks of 32, 64 or 256 queries times blocks of 512 keys.

    >>> flash_causal(1024, 1024)
    786432
    """
    rows = 256 if queries >= 768 else 64 if queries >= 192 else 32
    total = 0
    for start in range(0, queries, rows):
        count = min(rows, queries - start)
        reach = min(start + count, keys)
        total += count * min(keys, -(-reach // 512) * 512)
    return total
