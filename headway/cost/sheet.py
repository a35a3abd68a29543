"""The cost sheet: everything that is known of a model's price at one size.

>>> from headway.presets import preset
>>> sheet = sheet_of("gpt2", preset("gpt2"), Setting(length=1024))
>>> sheet.params, sheet.macs, sheet.flops
(124439808, 145824153600, 291648307200)
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from headway.config import Frozen
from headway.cost.compose import price_tree
from headway.cost.part import Line, Part, depth, gathered, lines
from headway.cost.phases import phases
from headway.cost.setting import Setting
from headway.sizes import Cost
from headway.steps import COUNTINGS

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
        from headway.cost.show.html import html  # it shows sheets, and so imports this file

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
