"""What attention costs in multiply-adds: dense, useful and executed, from sizes alone."""

from dataclasses import dataclass, replace

from headway.ops.attention.kernels.tiles import Tile
from headway.ops.attention.kernels.varlen import PackedRun, conditions, runs
from headway.ops.attention.plan import PLAIN, Modifiers, Plan, plan
from headway.ops.mask import Mask
from headway.ops.mask.count import count_pairs, formula
from headway.ops.mask.pairs import Pairs
from headway.sizes import Cost, Number, Operation, Sizes
from headway.steps import POSITIONS, WIDTH, Each, Product, Step, softmax_steps

# FLOPs outside the products, per score: scale, maximum, subtract, exp, sum, divide.
PER_SCORE = 6


@dataclass(frozen=True, eq=False)
class Workload:
    """What a mechanism is asked to do: sizes, who may see whom, what modifies the scores, how much a cache holds."""

    sizes: Sizes
    mask: Mask | None
    pairs: Pairs
    modifiers: Modifiers = PLAIN
    past: Number = 0  # tokens that a cache took in before these
    cached: bool = False  # whether a cache takes in these


def softmax_operation(work: Workload, tiles: list[Tile] | None = None) -> Operation:
    """Scores, softmax, weighted sum. Backwards four products for the two forwards; other FLOPs twice.

    `tiles` where somebody else planned them.
    """
    sizes, width = work.sizes, work.sizes.key_width + work.sizes.value_width
    useful = useful_pairs(work) * width
    done = executed(work, tiles) if sizes.whole else (None, None)
    other = (PER_SCORE - 1 + work.modifiers.flops) * sizes.scores
    return attention_operation(
        sizes,
        forward=Cost(sizes.scores * width, useful, done[0], other),
        backward=Cost(2 * sizes.scores * width, 2 * useful, done[1], 2 * other),
        steps=softmax_depth(sizes, work.modifiers),
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


def useful_pairs(work: Workload) -> Number:
    """The pairs the mask allows, in all rows of the batch and all heads."""
    sizes, mask = work.sizes, work.mask
    if mask is None:
        return sizes.scores
    if not sizes.whole:
        return sizes.batch * sizes.heads * formula(mask, sizes.queries, sizes.keys)
    return count_pairs(mask, work.pairs, sizes.batch, sizes.heads)


def executed(work: Workload, tiles: list[Tile] | None = None) -> tuple[int, int]:
    """Multiply-adds of the fast path, forwards and backwards, by the plan that it follows.

    torch's kernel wants one width, so the narrower side is padded: two products forwards; backwards five, scores being
    made once more. Written out they are two and four. Tiles are computed again as a whole before they go back.
    """
    how = plan(work.mask, work.pairs, work.modifiers, tiles)
    if how.runs is not None:
        parts = [_executed_run(work, how, run) for run in runs(how.runs)]
        return sum(part[0] for part in parts), sum(part[1] for part in parts)
    sizes, again = work.sizes, how.tiles is not None
    count = executed_pairs(sizes, how)
    if how.written:
        once = count * (sizes.key_width + sizes.value_width)
        return once, (3 if again else 2) * once
    one = count * max(sizes.key_width, sizes.value_width)
    return 2 * one, (7 if again else 5) * one


def executed_pairs(sizes: Sizes, how: Plan) -> int:
    """The pairs that a plan computes."""
    if how.tiles is not None:
        return sizes.heads * sum(tile.size(sizes.batch, sizes.queries, sizes.keys) for tile in how.tiles)
    if how.causal:
        return sizes.batch * sizes.heads * flash_causal(sizes.queries, sizes.keys)
    return sizes.scores


def _executed_run(work: Workload, how: Plan, run: PackedRun) -> tuple[int, int]:
    assert how.rest is not None
    mask, positions = conditions(run, how.rest, work.pairs, work.sizes.batch)
    sizes = replace(work.sizes, batch=work.sizes.batch * run.count, queries=run.length, keys=run.length)
    pairs = Pairs.of(run.length) if positions is None else positions
    return executed(replace(work, sizes=sizes, mask=mask, pairs=pairs))


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
