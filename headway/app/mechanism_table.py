"""One table over all mechanisms on one input: how right, at what price, how fast."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from headway.bench.measure import compare
from headway.ops.attention import MECHANISMS, Call, attend_call, call_for, record_of
from headway.ops.attention.cost import Workload
from headway.render.table import COUNT, Amount, Table
from headway.sizes import Cost

DENSE = "softmax"


@dataclass(frozen=True)
class MechanismRow:
    """One mechanism on the input: its largest difference from the float64 reference, its price, its time."""

    name: str
    difference: float
    useful_macs: int
    executed_macs: int
    other_flops: int
    milliseconds: float
    ratio: float

    def as_json(self) -> dict[str, object]:
        return asdict(self)


def mechanism_rows(*, side: int = 24, heads: int = 8, width: int = 64, seed: int = 0) -> Iterator[MechanismRow]:
    """Every mechanism on a grid of side x side positions, each timed in turns with dense softmax attention."""
    calls = dict(_calls(side, heads, width, seed))
    for name, call in calls.items():
        mechanism = record_of(call.spec)
        with torch.no_grad():
            found, right = attend_call(call), mechanism.reference(_double(call))
            timing = compare({name: _run(call), DENSE: _run(calls[DENSE])}, budget=0.3, least=5)
        cost: Cost = mechanism.operation(call.spec, Workload(call.sizes, call.mask, call.pairs)).forward
        assert cost.executed is not None
        yield MechanismRow(
            name=name,
            difference=float((found.double() - right).abs().max()),
            useful_macs=cost.useful,
            executed_macs=cost.executed,
            other_flops=cost.other,
            milliseconds=1e3 * timing[name].median,
            ratio=timing[name].over(timing[DENSE]).median if name != DENSE else 1.0,
        )


def mechanism_table(rows: Sequence[MechanismRow], title: str) -> Table:
    """A line for each mechanism."""
    columns = ("mechanism", "difference from reference", "useful MACs", "executed MACs", "other FLOPs", "ms",
               "x dense softmax")  # fmt: skip
    cells = [
        (
            one.name,
            Amount(one.difference, text=f"{one.difference:.1e}"),
            *(Amount(count, COUNT) for count in (one.useful_macs, one.executed_macs, one.other_flops)),
            Amount(one.milliseconds, text=f"{one.milliseconds:.2f}"),
            Amount(one.ratio, text=f"{one.ratio:.2f}"),
        )
        for one in rows
    ]
    return Table(title, columns, cells)


def _calls(side: int, heads: int, width: int, seed: int) -> Iterator[tuple[str, Call]]:
    draw = torch.Generator().manual_seed(seed)
    q, k, v = (torch.randn(1, heads, side * side, width, generator=draw) for _ in range(3))
    for name, record in MECHANISMS.items():
        own = {part: torch.randn(*shape, generator=draw) for part, shape in record.parameters(heads, width).items()}
        for line, given in ({name: {}} if record.variants is None else record.variants(side)).items():
            options = dict(given)
            mask = options.pop("mask", None)
            yield line, call_for(q, k, v, name, options | own, mask=mask)[1]


def _double(call: Call) -> Call:
    own = {name: value.double() for name, value in call.parameters.items()}
    return replace(call, q=call.q.double(), k=call.k.double(), v=call.v.double(), parameters=own)


def _run(call: Call) -> Callable[[], Tensor]:
    return lambda: attend_call(call)
