"""The cost sheet: everything that is known of a model's cost at one size, and what each way of using it costs.

>>> from headway.presets import preset
>>> sheet = sheet_of("gpt2", preset("gpt2"), Setting(length=1024))
>>> sheet.params, sheet.macs, sheet.flops
(124439808, 145824153600, 291648307200)
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from headway.config import Frozen
from headway.cost.compose import price_tree
from headway.cost.input_lengths import writes
from headway.cost.op_tree import Line, Part, backward, depth, forward, gathered, lines, parameters
from headway.cost.optimiser import adapted_passes, learnt_of, optimiser_cost
from headway.cost.setting import Setting
from headway.sizes import NOTHING, Cost, Number
from headway.steps import COUNTINGS


def phases(config: Frozen, setting: Setting, *, new: int = 0, optimiser: str = "adamw") -> dict[str, Cost]:
    """forward; backward; step (both with dropout and loss, and the optimiser); of writers prefill, decode (one token
    after `past` held ones, or after these), and generate (`new` tokens after the prompt)."""
    plain = replace(setting, training=False, past=0)
    taught = price_tree(config, replace(plain, training=True))
    ahead, back, learnt = forward(taught), backward(taught), parameters(taught)
    if setting.lora is not None:
        (ahead, back), learnt = adapted_passes(config, plain), learnt_of(config, plain)
    found = {
        "forward": forward(price_tree(config, plain)),
        "backward": back,
        "step": ahead + back + optimiser_cost(optimiser, learnt),
    }
    if not writes(config):
        return found
    found["prefill"] = forward(price_tree(config, plain.prefill()))
    found["decode"] = _decoded(config, plain, setting.past or setting.length)
    if new:
        found["generate"] = found["prefill"] + generated(lambda past: _decoded(config, plain, past), plain.length, new)
    return found


def _decoded(config: Frozen, setting: Setting, past: Number) -> Cost:
    return forward(price_tree(config, setting.decode(past)))


def generated(decode: Callable[[int], Cost], length: int, new: int) -> Cost:
    """The tokens after the first, which the prompt gives: Σ decode(past) for past = length … length + new - 2.

    Where the price grows evenly with the past, it is an arithmetic series.
    """
    first, last = length, length + new - 2
    if last < first:
        return NOTHING
    ends, middle = (decode(first), decode(last)), decode((first + last) // 2)
    if last - first > 8 and _even(ends, middle, first, last):
        return Cost(*(_series(a, b, last - first + 1) for a, b in zip(_all(ends[0]), _all(ends[1]), strict=True)))
    total = NOTHING
    for past in range(first, last + 1):
        total = total + decode(past)
    return total


def _all(cost: Cost) -> tuple[int, ...]:
    assert cost.executed is not None
    return cost.dense, cost.useful, cost.executed, cost.other


def _series(first: int, last: int, count: int) -> int:
    return (first + last) * count // 2


def _even(ends: tuple[Cost, Cost], middle: Cost, first: int, last: int) -> bool:
    """Whether the middle lies exactly on the line between the ends."""
    at = (first + last) // 2
    return all(
        (z - a) * (last - first) == (b - a) * (at - first)
        for a, b, z in zip(_all(ends[0]), _all(ends[1]), _all(middle), strict=True)
    )


# How parameters are told apart, by the kind of the operation they belong to.
WEIGHTS, BIASES, EMBEDDINGS, NORMS = "weights", "biases", "embeddings", "norms"


@dataclass(frozen=True, eq=False, repr=False)
class Sheet:
    """What `headway cost` prints. Costs are of one forward pass at the setting unless a phase is named."""

    name: str
    setting: Setting
    operations: tuple[Line, ...]
    parameters: dict[str, int]
    phases: dict[str, Cost]
    depth: dict[str, int]
    memory: Any = None
    fits: tuple[Any, ...] = ()  # what fits into a memory that was asked for
    reach: Any = None
    bottleneck: Any = None
    time: Any = None
    notes: tuple[str, ...] = ()
    weights: Any = None  # how the weights of linear maps are stored, where not as floating-point numbers
    quantized: Any = None  # and what that costs
    config: Frozen | None = None
    tree: Part | None = field(default=None, repr=False)

    def __repr__(self) -> str:
        return f"Sheet({self.name!r}: {self.params:,} parameters, {self.flops:,} dense FLOPs; print it for the tables)"

    def __str__(self) -> str:
        from headway.cost.show.compare import whole_report  # no table is made before one is printed
        from headway.cost.show.report import sentences, title
        from headway.render.table import plain_text

        return plain_text(title(self), whole_report(self), sentences(self)).rstrip("\n")

    @property
    def params(self) -> int:
        """Parameters, a shared one once."""
        return sum(self.parameters.values())

    @property
    def macs(self) -> int:
        """Multiply-adds of the dense matrix products, forwards."""
        return self.phases["forward"].dense

    @property
    def flops(self) -> int:
        """FLOPs of the dense matrix products, forwards: two for each multiply-add."""
        return self.phases["forward"].flops

    @property
    def useful_flops(self) -> int:
        return self.phases["forward"].useful_flops

    @property
    def executed_flops(self) -> int | None:
        executed = self.phases["forward"].executed
        return None if executed is None else 2 * executed

    @property
    def other_flops(self) -> int:
        return self.phases["forward"].other

    def _repr_html_(self) -> str:
        """For notebooks."""
        from headway.cost.show.record import html  # it shows sheets, and so imports this file

        return html(self)


def sheet_of(
    name: str, config: Frozen, setting: Setting, *, new: int = 0, optimiser: str = "adamw", notes: Iterable[str] = ()
) -> Sheet:
    """The sheet of a configuration; nothing is allocated."""
    tree = price_tree(config, setting)
    found = tuple(gathered(lines(tree)))
    return Sheet(
        name=name,
        setting=setting,
        operations=found,
        parameters=by_kind(found),
        phases=phases(config, setting, new=new, optimiser=optimiser),
        depth={counting: depth(tree, how) for counting, how in COUNTINGS.items()},
        notes=tuple(notes),
        config=config,
        tree=tree,
    )


def by_kind(found: Iterable[Line]) -> dict[str, int]:
    """Entries of parameters: weights of maps, biases, embeddings, norms."""
    counts = {WEIGHTS: 0, BIASES: 0, EMBEDDINGS: 0, NORMS: 0}
    for line in found:
        operation = line.operation
        kind = {"embedding": EMBEDDINGS, "norm": NORMS}.get(operation.kind, WEIGHTS)
        counts[kind] += line.sets * operation.weights
        counts[NORMS if kind == NORMS else BIASES] += line.sets * operation.biases
    return counts
