"""The price of one step of training: parameters, FLOPs, memory, and on a measured machine seconds.

>>> from headway.presets import preset
>>> step_price(preset("gpt2"), Setting(length=1024)).parameters
124439808
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import cached_property

from headway.app.price.muon import muon_lines
from headway.config import Frozen
from headway.cost.compose import price_tree
from headway.cost.memory import peak, weight_bytes
from headway.cost.optimiser import optimiser_cost
from headway.cost.part import Line, backward, forward, lines, summed
from headway.cost.setting import Setting
from headway.cost.sheet import EMBEDDINGS, by_kind
from headway.cost.time import STEP, predict
from headway.cost.time.kernels import FORWARD, LEARNING, UPDATE, Held
from headway.cost.time.machine import Machine
from headway.sizes import Cost

ADAMW, MUON = "adamw", "muon"


@dataclass(frozen=True, eq=False)
class StepPrice:
    """A step of the optimiser after `parts` passes forwards and backwards, as one process takes it."""

    config: Frozen
    setting: Setting
    optimiser: str
    kinds: dict[str, int]  # parameters: weights, biases, embeddings, norms
    parts: int
    forward: Cost  # of one pass
    backward: Cost
    cost: Cost  # of the whole step
    seconds: float | None
    operations: tuple[tuple[Line, float | None], ...]  # with the seconds of each in a pass forwards and backwards

    @property
    def parameters(self) -> int:
        return sum(self.kinds.values())

    @property
    def inner(self) -> int:
        """Parameters outside of embeddings: those that every token passes through."""
        return self.parameters - self.kinds[EMBEDDINGS]

    @property
    def waiting(self) -> int:
        """Bytes of gradients beside which the later parts of a step are computed."""
        return weight_bytes(self.config, self.setting) if self.parts > 1 else 0

    @cached_property
    def memory(self) -> int:
        """Bytes in use at most."""
        return self.waiting + peak(self.config, self.setting, STEP, optimiser=self.optimiser)

    @property
    def flops(self) -> int:
        """FLOPs in matrix products, as the kernels compute them."""
        return 2 * int(self.cost.dense if self.cost.executed is None else self.cost.executed)


def step_price(
    config: Frozen, setting: Setting, *, optimiser: str = ADAMW, parts: int = 1, machine: Machine | None = None
) -> StepPrice:
    """Of a model that learns from batches of this setting; nothing is allocated.

    With Muon every parameter is moved as AdamW moves it, and its own products come on top.
    """
    setting = replace(setting, training=True)
    tree = price_tree(config, setting)
    found = tuple(lines(tree))
    kinds, ahead, back = by_kind(found), forward(tree), backward(tree)
    again = [line for line in found if setting.checkpointing and "blocks" in line.path.split(".")]
    turns = list(muon_lines(config)) if optimiser == MUON else []
    passes = (ahead + back + summed(again)) * parts
    cost = passes + optimiser_cost(ADAMW, sum(kinds.values())) + summed(turns)
    seconds, each = _seconds(found, setting.dtype, machine, parts, again, turns)
    return StepPrice(config, setting, optimiser, kinds, parts, ahead, back, cost, seconds, each)


def _seconds(
    found: tuple[Line, ...],
    dtype: str,
    machine: Machine | None,
    parts: int,
    again: Iterable[Line],
    turns: Iterable[Line],
) -> tuple[float | None, tuple[tuple[Line, float | None], ...]]:
    """Of the whole step, and of each operation; None of an unknown machine."""
    if machine is None:
        return None, tuple((line, None) for line in found)
    whole, held = predict(found, machine, STEP, dtype=dtype), Held.of(found, dtype)

    def of(phase: str, some: Iterable[Line]) -> float:
        return sum((machine.seconds(line, phase, dtype=dtype, held=held) for line in some), 0.0)

    update = of(UPDATE, found)
    once = whole.seconds - update + of(LEARNING, again)
    return parts * once + update + of(FORWARD, turns), whole.operations
