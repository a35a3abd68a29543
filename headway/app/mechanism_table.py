"""One table over all mechanisms on one input: how right, at what price, how fast."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from headway.bench.measure import compare
from headway.ops.attention import Call, attend_call, call_for, record_of
from headway.ops.attention.cost import Workload
from headway.ops.mask import Mask, causal
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
    length, window = side * side, max(2, side * side // 16)
    q, k, v = (torch.randn(1, heads, length, width, generator=draw) for _ in range(3))
    vector = torch.randn(heads, width, generator=draw)

    def call(mechanism: str, mask: Mask | None = None, **options: object) -> Call:
        return call_for(q, k, v, mechanism, options, mask=mask)[1]

    yield DENSE, call("softmax")
    yield "softmax, causal", call("softmax", causal())
    yield "linear", call("linear")
    yield "linear, causal", call("linear", causal())
    yield f"local, causal window {window}", call("local", causal(), window=window)
    yield f"local, window {window} of every 2nd", call("local", window=window, dilation=2)
    yield f"local, window {window} + 2 selected", call("local", window=window, selected=(0, length // 2))
    yield f"local, {side} x {side} grid, window 3", call("local", window=3, grid=(side, side))
    yield f"spatial, {side} x {side}", call("spatial", grid=(side, side))
    yield f"spatial, {side} x {side} in windows of 6", call("spatial", grid=(side, side), window=6)
    yield "channel", call("channel")
    yield "additive", call("additive", vector=vector)


def _double(call: Call) -> Call:
    own = {name: value.double() for name, value in call.parameters.items()}
    return replace(call, q=call.q.double(), k=call.k.double(), v=call.v.double(), parameters=own)


def _run(call: Call) -> Callable[[], Tensor]:
    return lambda: attend_call(call)
