"""The price of a run: said before its first step, held against what was measured after its last."""

from collections.abc import Iterator
from dataclasses import dataclass

from headway.app.price import StepPrice, step_price
from headway.app.price.measured import Measured
from headway.app.price.setting import typical
from headway.cost.memory import memory_of
from headway.cost.time.machine import Machine, stored
from headway.render import short
from headway.training.distributed import World
from headway.training.objectives import TrainingSetup

MOST = "in use at most"


@dataclass(frozen=True)
class RunPrice:
    """What one process computes in a step; `tokens` (or images) are read by all of them."""

    step: StepPrice
    tokens: int
    unit: str
    steps: int  # that are still to come
    machine: Machine | None
    held: dict[str, int]  # bytes of a step, by what they are for
    notes: tuple[str, ...] = ()

    @property
    def seconds(self) -> float | None:
        return self.step.seconds

    @property
    def memory(self) -> int:
        """Bytes in use at most."""
        return self.held[MOST]

    @property
    def peak(self) -> float | None:
        """FLOP/s of the machine's fastest product."""
        return None if self.machine is None else self.machine.peak(self.step.setting.dtype)


def price_run(work: TrainingSetup, world: World, *, done: int = 0) -> RunPrice:
    """Of a run that has taken `done` steps; times where the machine was measured."""
    c, notes = work.config, list(_notes(work, world))
    machine, why = stored() if world.device.type == "cpu" and world.tensor_size == 1 else (None, "")
    setting, tokens = typical(work, world)
    step = step_price(work.model.config, setting, optimiser=c.optim.kind, parts=c.accumulate, machine=machine)
    unit = "images" if c.task == "images" else "tokens"
    held = _held(work, step)
    return RunPrice(step, tokens, unit, c.steps - done, machine, held, (*notes, *([why] if why else [])))


def _held(work: TrainingSetup, step: StepPrice) -> dict[str, int]:
    """As `StepPrice.memory` says, and what it is made of."""
    found = memory_of(work.model.config, step.setting, optimiser=work.config.optim.kind)
    kept, most = found.saved + found.aside, found.peak_step
    if step.setting.checkpointing:
        kept, most = found.saved_checkpointed, found.peak_step_checkpointed
    parts = {"weights": found.weights, "gradients": found.gradients, "optimiser": found.optimiser}
    return {**parts, "activations kept": kept, MOST: most + step.waiting}


def _notes(work: TrainingSetup, world: World) -> Iterator[str]:
    if world.device.type != "cpu":
        yield "no predicted times: they are known for processors alone"
    if world.tensor_size > 1:
        yield f"{world.tensor_size} processes share each layer: the price is that of all of them, without times"
    elif world.size > 1:
        yield f"the price is of one of {world.size} processes, without what they tell each other"
    if work.config.compile:
        yield "predicted times are of a model that is not compiled"


def compared(price: RunPrice, found: Measured) -> list[tuple[str, int | float | None, int | float | None, str]]:
    """(what, predicted, measured, a remark) for each thing that was both said and seen."""
    flops, seconds = price.step.flops, price.seconds
    reached = flops / found.seconds
    share = "" if price.peak is None else f"{100 * reached / price.peak:.0f} % of the fastest product here"
    times = "" if seconds is None else f"{found.seconds / seconds:.2f} times what was expected"
    process = "" if found.process is None else f"the process held {short(found.process)}B"
    return [
        ("seconds of a step", seconds, found.seconds, times),
        ("memory of a step", price.memory, found.memory, process),
        (f"{price.unit} per second", _over(price.tokens, seconds), found.tokens / found.seconds, ""),
        ("FLOP/s in products", _over(flops, seconds), reached, share),
    ]


def _over(value: int, seconds: float | None) -> float | None:
    return None if seconds is None else value / seconds
