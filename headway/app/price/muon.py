"""What Muon computes besides moving numbers: the products that make a momentum orthogonal (headway/train/muon.py).

    A = X Xᵀ    m·n·m        A A    m·m·m        (bA + cA²) X    m·m·n        five times, X of m x n, m ≤ n

>>> from headway.cost.part import leaf, lines
>>> from headway.ops.linear import linear_price
>>> [block] = lines(leaf("blocks", linear_price(2, 3, 5, bias=False)))
>>> sum(line.runs * line.operation.forward.dense for line in muon_lines([block]))  # 5 · (45 + 27 + 45)
585
"""

from collections.abc import Iterable, Iterator

from headway.cost.part import Line
from headway.sizes import Cost, Operation
from headway.train.muon import TURNS


def muon_lines(operations: Iterable[Line]) -> Iterator[Line]:
    """Its products for the matrices of blocks, those of one shape together, as a step of the optimiser takes them."""
    counts: dict[tuple[int, int], int] = {}
    for line in operations:
        if line.operation.kind == "product" and line.operation.weights and "blocks" in line.path.split("."):
            _, _, inner, outer = line.operation.shape
            sides = min(inner, outer), max(inner, outer)
            counts[sides] = counts.get(sides, 0) + line.sets
    for (short, long), count in counts.items():
        for columns, inner in ((short, long), (short, short), (long, short)):
            yield Line(f"muon.{short}x{long}", TURNS, 0, _product(count, short, inner, columns))


def _product(count: int, rows: int, inner: int, columns: int) -> Operation:
    macs = count * rows * inner * columns
    shape = (count, rows, inner, columns)
    entries = count * (rows * inner + inner * columns)
    return Operation("product", Cost(macs, macs, macs, 0), shape=shape, reads=entries, writes=count * rows * columns)
