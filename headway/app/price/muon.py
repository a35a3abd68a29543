"""What Muon computes besides moving numbers: the products that make a momentum orthogonal (headway/training/muon.py).

    A = X Xᵀ    m·n·m        A A    m·m·m        (bA + cA²) X    m·m·n        five times, X of m x n, m ≤ n

>>> from headway.presets.seeds import bare_block
>>> [line.operation.forward.dense for line in muon_lines(bare_block(width=3, hidden=5))]  # q, k and v, then up and down
[81, 81, 81, 90, 54, 90]
"""

from collections import Counter
from collections.abc import Iterator

from headway.config import Frozen
from headway.cost.memory.optimiser import block_matrices
from headway.cost.part import Line
from headway.sizes import Cost, Operation
from headway.training.muon import TURNS


def muon_lines(config: Frozen) -> Iterator[Line]:
    """Its products for the matrices of blocks, those of one shape together, as a step of the optimiser takes them."""
    counts = Counter((min(shape), max(shape)) for shape in block_matrices(config))
    for (short, long), count in counts.items():
        for columns, inner in ((short, long), (short, short), (long, short)):
            yield Line(f"muon.{short}x{long}", TURNS, 0, _product(count, short, inner, columns))


def _product(count: int, rows: int, inner: int, columns: int) -> Operation:
    macs = count * rows * inner * columns
    shape = (count, rows, inner, columns)
    entries = count * (rows * inner + inner * columns)
    return Operation("product", Cost(macs, macs, macs, 0), shape=shape, reads=entries, writes=count * rows * columns)
