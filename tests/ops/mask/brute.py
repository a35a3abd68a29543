"""Masks once more, as plain Python over one pair at a time: slow, obvious, and written without looking at headway."""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import torch
from hypothesis import strategies as st

from headway.ops.mask import (
    Mask,
    allowed,
    blocked,
    causal,
    dilated,
    everything,
    global_tokens,
    padding,
    segments,
    selected,
    tiles,
    window,
)

BATCH, HEADS, QUERIES, KEYS = 2, 3, 5, 7
GRID = (3, 4)


@dataclass(frozen=True)
class Where:
    """Positions of queries and keys for each row of the batch; `given`: what headway is told."""

    query: list[list[int]]
    key: list[list[int]]
    given: tuple[Any, Any]


# Whether query i may see key j, in row b of the batch and head h.
Truth = Callable[[Where, int, int, int, int], bool]
Node = tuple[Mask, Truth]


def positions(kind: str, random: Random) -> Where:
    """Where queries and keys stand: counted, shifted, negative, apart in each row, unsorted, repeated."""
    if kind == "counted":
        return Where([list(range(QUERIES))] * BATCH, [list(range(KEYS))] * BATCH, (QUERIES, KEYS))
    if kind == "rows":
        query = [[random.randrange(-3, 12) for _ in range(QUERIES)] for _ in range(BATCH)]
        key = [[random.randrange(-3, 12) for _ in range(KEYS)] for _ in range(BATCH)]
        return Where(query, key, (torch.tensor(query), torch.tensor(key)))
    if kind == "rising rows":
        key = [sorted(random.sample(range(-3, 12), KEYS)) for _ in range(BATCH)]
        query = [sorted(random.sample(range(-3, 12), QUERIES))] * BATCH
        return Where(query, key, (torch.tensor(query[0]), torch.tensor(key)))
    make: dict[str, Callable[[int], list[int]]] = {
        "shifted": lambda n: [4 + i for i in range(n)],
        "negative": lambda n: [i - 3 for i in range(n)],
        "unsorted": lambda n: random.sample(range(12), n),
        "repeated": lambda n: sorted(random.choices(range(6), k=n)),
    }
    query, key = make[kind](QUERIES), make[kind](KEYS)
    return Where([query] * BATCH, [key] * BATCH, (torch.tensor(query), torch.tensor(key)))


KINDS = ("counted", "shifted", "negative", "rows", "rising rows", "unsorted", "repeated")


def relation(mask: Mask, allows: Callable[[int, int], bool]) -> Node:
    return mask, lambda where, b, h, i, j: allows(where.query[b][i], where.key[b][j])


def cell(p: int) -> tuple[int, int] | None:
    return divmod(p, GRID[1]) if 0 <= p < GRID[0] * GRID[1] else None


def reaches(distance: int, size: int, step: int) -> bool:
    return abs(distance) in range(0, size * step, step)


def on_grid(i: int, j: int, allows: Callable[[tuple[int, int], tuple[int, int]], bool]) -> bool:
    here, there = cell(i), cell(j)
    return here is not None and there is not None and allows(here, there)


def near(i: int, j: int, size: tuple[int, int], step: tuple[int, int]) -> bool:
    return on_grid(i, j, lambda a, b: reaches(a[0] - b[0], size[0], step[0]) and reaches(a[1] - b[1], size[1], step[1]))


def same_tile(i: int, j: int, size: tuple[int, int]) -> bool:
    return on_grid(i, j, lambda a, b: (a[0] // size[0], a[1] // size[1]) == (b[0] // size[0], b[1] // size[1]))


def leaf(name: str, random: Random) -> Node:
    """A mask of headway and its truth, with sizes drawn."""
    size, step = random.randrange(1, 5), random.randrange(1, 4)
    sides, steps = (random.randrange(1, 4), random.randrange(1, 4)), (random.randrange(1, 3), random.randrange(1, 3))
    points = random.sample(range(-3, 12), random.randrange(1, 4))
    simple: dict[str, Callable[[], Node]] = {
        "everything": lambda: relation(everything(), lambda i, j: True),
        "causal": lambda: relation(causal(), lambda i, j: j <= i),
        "window": lambda: relation(window(size), lambda i, j: abs(i - j) < size),
        "dilated": lambda: relation(dilated(size, dilation=step), lambda i, j: reaches(i - j, size, step)),
        "tiles": lambda: relation(tiles(size), lambda i, j: i // size == j // size),
        "selected": lambda: relation(selected(points), lambda i, j: i in points or j in points),
        "global": lambda: relation(global_tokens(), lambda i, j: i < 0 or j < 0),
        "grid window": lambda: relation(window(sides, grid=GRID), lambda i, j: near(i, j, sides, (1, 1))),
        "grid dilated": lambda: relation(
            dilated(sides, dilation=steps, grid=GRID), lambda i, j: near(i, j, sides, steps)
        ),
        "grid tiles": lambda: relation(tiles(sides, grid=GRID), lambda i, j: same_tile(i, j, sides)),
        "lengths": lambda: _lengths(random),
        "keep": lambda: _keep(random),
        "segments": lambda: _segments(random),
        "table": lambda: _table(random),
    }
    return simple[name]()


LEAVES = (
    "everything", "causal", "window", "dilated", "tiles", "selected", "global", "grid window", "grid dilated",
    "grid tiles", "lengths", "keep", "segments", "table",
)  # fmt: skip


def _lengths(random: Random) -> Node:
    lengths, side = [random.randrange(KEYS + 1) for _ in range(BATCH)], random.choice(["left", "right"])
    mask = padding(lengths=lengths, total=KEYS, side=side)
    return mask, lambda where, b, h, i, j: j < lengths[b] if side == "right" else j >= KEYS - lengths[b]


def _keep(random: Random) -> Node:
    rows = random.choice([1, BATCH])
    table = [[random.random() < 0.6 for _ in range(KEYS)] for _ in range(rows)]
    given = torch.tensor(table)
    mask = padding(keep=given) if random.random() < 0.5 else padding(ignore=~given)
    return mask, lambda where, b, h, i, j: table[b % rows][j]


def _segments(random: Random) -> Node:
    shape, rows = random.choice([sorted, list]), random.choice([1, BATCH])
    query = [shape(random.choices(range(3), k=QUERIES)) for _ in range(rows)]
    key = [shape(random.choices(range(3), k=KEYS)) for _ in range(rows)]
    flat = rows == 1 and random.random() < 0.5
    mask = segments(*(torch.tensor(ids[0] if flat else ids) for ids in (query, key)))
    return mask, lambda where, b, h, i, j: query[b % rows][i] == key[b % rows][j]


def _table(random: Random) -> Node:
    shape = [size if random.random() < 0.6 else 1 for size in (BATCH, HEADS, QUERIES, KEYS)]
    seed, inverted = random.getrandbits(30), random.random() < 0.5
    table = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < 0.6
    values = table.expand(BATCH, HEADS, QUERIES, KEYS).tolist()
    cut = next((axis for axis, size in enumerate(shape) if size > 1), 3)
    given = table[(0,) * cut]
    return blocked(~given) if inverted else allowed(given), lambda where, b, h, i, j: values[b][h][i][j]


def _both(one: Node, other: Node, sign: str) -> Node:
    if sign == "&":
        return one[0] & other[0], lambda *pair: one[1](*pair) and other[1](*pair)
    return one[0] | other[0], lambda *pair: one[1](*pair) or other[1](*pair)


def _not(one: Node) -> Node:
    return ~one[0], lambda *pair: not one[1](*pair)


def grow(random: Random, depth: int) -> Node:
    """A random tree of & | ~ over all masks."""
    if depth == 0 or random.random() < 0.2:
        return leaf(random.choice(LEAVES), random)
    sign = random.choice("&&|~")
    first = grow(random, depth - 1)
    return _not(first) if sign == "~" else _both(first, grow(random, depth - 1), sign)


def tabulate(truth: Truth, where: Where) -> torch.Tensor:
    """B H L M, one pair at a time."""
    sizes = (range(BATCH), range(HEADS), range(QUERIES), range(KEYS))
    b, h, i, j = sizes
    return torch.tensor([[[[truth(where, x, y, z, w) for w in j] for z in i] for y in h] for x in b])


def case(drawn: tuple[int, str]) -> tuple[Mask, Truth, Where]:
    """A tree of masks and positions from a seed and a kind of position."""
    seed, kind = drawn
    return *grow(Random(seed), 3), positions(kind, Random(seed))


cases = st.tuples(st.integers(0, 10**6), st.sampled_from(KINDS))
