"""What attention costs in multiply-adds: dense, useful and executed, from sizes alone."""

from dataclasses import dataclass, replace

from headway.ops.attention.packed import Run, conditions, runs
from headway.ops.attention.tiles import ROWS, SMALL, Tile, plan
from headway.ops.mask import Mask
from headway.ops.mask.count import count_pairs, formula
from headway.ops.mask.kernel import choose, unpacked
from headway.ops.mask.pairs import Pairs
from headway.ops.mask.places import Given
from headway.sizes import Cost, Number, Operation, Sizes
from headway.steps import POSITIONS, WIDTH, Each, Product, Step, softmax_steps

# FLOPs outside the products, per score: scale, maximum, subtract, exp, sum, divide.
PER_SCORE = 6


# Scores of one head that are alive at once where they are written out.
CACHED = 2**18


@dataclass(frozen=True)
class Modifiers:
    """What is done to scores besides the mask, and whether gradients are wanted (a bias that learns is written out)."""

    scaled: bool = True
    early: bool = False  # the scale is laid on the queries before they meet the keys: no step of depth here
    softcap: bool = False
    bias: bool = False
    learned: bool = False  # the bias has parameters
    gradients: bool = False

    @property
    def explicit(self) -> bool:
        """Whether scores are written out: no fused kernel knows a cap, or the gradient of a bias."""
        return self.softcap or (self.learned and self.gradients)

    @property
    def flops(self) -> int:
        """FLOPs a score: the scale; divide, tanh and multiply for a cap; add for a bias."""
        return self.scaled + 3 * self.softcap + self.bias

    @property
    def steps(self) -> int:
        return self.flops - (self.scaled and self.early)


PLAIN = Modifiers()


def softmax_cost(sizes: Sizes, mask: Mask | None, pairs: Pairs, tiles: list[Tile] | None = None) -> Cost:
    """Two products per pair, K and W wide; `tiles` where somebody else planned them."""
    return softmax_operation(sizes, mask, pairs, PLAIN, tiles).forward


def softmax_operation(
    sizes: Sizes, mask: Mask | None, pairs: Pairs, modifiers: Modifiers, tiles: list[Tile] | None = None
) -> Operation:
    """Scores, softmax, weighted sum. Backwards four products for the two forwards; other FLOPs twice."""
    width = sizes.key_width + sizes.value_width
    useful = useful_pairs(sizes, mask, pairs) * width
    work = executed(sizes, mask, pairs, modifiers, tiles) if sizes.whole else (None, None)
    other = (PER_SCORE - 1 + modifiers.flops) * sizes.scores
    return attention_operation(
        sizes,
        forward=Cost(sizes.scores * width, useful, work[0], other),
        backward=Cost(2 * sizes.scores * width, 2 * useful, work[1], 2 * other),
        steps=softmax_depth(sizes, modifiers),
    )


def attention_operation(sizes: Sizes, *, forward: Cost, backward: Cost, steps: tuple[Step, ...]) -> Operation:
    """Any mechanism: it reads q, k and v, and writes what was gathered."""
    read = sizes.batch * (
        sizes.heads * sizes.queries * sizes.key_width
        + sizes.kv_heads * sizes.keys * (sizes.key_width + sizes.value_width)
    )
    written = sizes.batch * sizes.heads * sizes.queries * sizes.value_width
    shape = (sizes.batch * sizes.heads, sizes.queries, sizes.key_width, sizes.keys)
    return Operation("attention", forward, backward, steps, shape=shape, reads=read, writes=written)


def softmax_depth(sizes: Sizes, modifiers: Modifiers) -> tuple[Step, ...]:
    """Score over K, what modifies it, softmax over the keys, weighted sum over the keys (a hidden key adds 0)."""
    modified = (Each(modifiers.steps),) if modifiers.steps else ()
    score = (Product(sizes.key_width, WIDTH), *modified)
    return (*score, *softmax_steps(sizes.keys), Product(sizes.keys, POSITIONS))


def executed(
    sizes: Sizes, mask: Mask | None, pairs: Pairs, modifiers: Modifiers = PLAIN, tiles: list[Tile] | None = None
) -> tuple[int, int]:
    """Multiply-adds of the fast path, forwards and backwards.

    The fused kernel wants one width, so the narrower side is padded: two products forwards; backwards five, scores
    being made once more. Written out they are two and four. Tiles are computed again as a whole before they go back.
    """
    packs = None if mask is None or tiles is not None else unpacked(mask)
    if packs is not None:
        parts = [_executed_run(sizes, run, packs[1], pairs, modifiers) for run in runs(packs[0])]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)
    count, tiled = executed_pairs(sizes, mask, pairs, modifiers, tiles)
    if modifiers.explicit:
        once = count * (sizes.key_width + sizes.value_width)
        return once, (3 if tiled else 2) * once
    one = count * max(sizes.key_width, sizes.value_width)
    return 2 * one, (7 if tiled else 5) * one


def useful_pairs(sizes: Sizes, mask: Mask | None, pairs: Pairs) -> Number:
    """The pairs the mask allows, in all rows of the batch and all heads."""
    if mask is None:
        return sizes.scores
    if not sizes.whole:
        return sizes.batch * sizes.heads * formula(mask, sizes.queries, sizes.keys)
    return count_pairs(mask, pairs, sizes.batch, sizes.heads)


def executed_pairs(
    sizes: Sizes, mask: Mask | None, pairs: Pairs, modifiers: Modifiers = PLAIN, tiles: list[Tile] | None = None
) -> tuple[int, bool]:
    """The pairs the fast path computes, and whether it goes tile by tile."""
    kernel = choose(mask, pairs)
    written = modifiers.explicit or (modifiers.bias and not (mask is None and not modifiers.learned))
    if tiles is None and not kernel.tiles and not written:
        per_head = flash_causal(sizes.queries, sizes.keys) if kernel.causal else sizes.queries * sizes.keys
        return sizes.batch * sizes.heads * per_head, False
    if tiles is None and (sizes.queries * sizes.keys <= SMALL or _tabulated(mask, modifiers, sizes)):
        return sizes.scores, False
    rows = written_rows(sizes.keys) if modifiers.explicit else ROWS
    tiles = plan(mask, pairs, rows=rows) if tiles is None else tiles
    return sizes.heads * sum(tile.size(sizes.batch, sizes.queries, sizes.keys) for tile in tiles), True


def _tabulated(mask: Mask | None, modifiers: Modifiers, sizes: Sizes) -> bool:
    return not (modifiers.bias or modifiers.softcap) and tabulated(mask, sizes.queries, sizes.keys)


def tabulated(mask: Mask | None, queries: int, keys: int) -> bool:
    """Whether the caller brought a table of all pairs: cutting it up saves no memory, and the kernel takes it whole."""
    parts = () if mask is None else mask.parts()
    return any(isinstance(part, Given) and part.allow.shape[2:] == (queries, keys) for part in parts)


def written_rows(keys: int) -> int:
    """Queries in a tile whose scores are written out: as many as keep the tile in the processor's cache."""
    return max(16, min(ROWS, CACHED // max(1, keys)))


def _executed_run(
    sizes: Sizes, run: Run, rest: tuple[Mask, ...], pairs: Pairs, modifiers: Modifiers
) -> tuple[int, int]:
    mask, query, key = conditions(run, rest, pairs, sizes.batch)
    alone = replace(sizes, batch=sizes.batch * run.count, queries=run.length, keys=run.length)
    return executed(alone, mask, Pairs.of(run.length if query is None else query, key), modifiers)


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
