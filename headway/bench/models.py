"""`headway bench models`: everything that whole models do, one work after the other; `bench.targets` has one's own."""

from collections.abc import Callable, Iterator

from headway.bench import decode, embed, load, prefill, translate
from headway.bench.row import Row
from headway.bench.run import Bench

PARTS = {"decode": decode, "prefill": prefill, "embed": embed, "translate": translate, "load": load}
CASES: dict[str, Callable[[Bench], Iterator[Row]]] = {
    f"{name}-{precision}": case for name, part in PARTS.items() for precision, case in part.CASES.items()
}
