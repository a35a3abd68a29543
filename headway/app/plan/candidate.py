"""A model of one size in a plan: its batch, its steps in the budget, and what they come to."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from headway.app.plan.data import Known
from headway.app.plan.law import excess
from headway.app.plan.sizes import model_for, read_in, setting_for
from headway.app.price import StepPrice, step_price
from headway.config.train import ModelChoice, TrainConfig
from headway.cost.asked import made_for
from headway.cost.time.machine import Machine

# Passes over the data at most. What hides, pairs or moves its examples anew in each pass has more to learn from them.
PASSES = {"language": 16, "masked": 40, "seq2seq": 40, "classify": 20, "embed": 20, "images": 100}
SHARE = 0.9  # of the budget that goes into steps; the rest is for validation, samples, checkpoints and the start
BATCHES = (1, 2, 4, 8, 16, 32, 64, 128)
LARGEST, SMALLEST = 64, 8  # of texts; of pictures twice as many
ENOUGH = 1000  # steps: the largest batch is taken that leaves so many
FEW = 4  # passes after which dropout helps
DROPOUT = 0.1
TIME, DATA, MEMORY = "time", "data", "memory"


@dataclass(frozen=True)
class Wanted:
    """What may be spent: seconds, and bytes (None: as many as it takes), on a machine."""

    seconds: float
    memory: int | None
    machine: Machine


@dataclass(frozen=True, eq=False)
class Candidate:
    """A model with the steps it would take; none where a step does not fit into the memory."""

    choice: ModelChoice
    price: StepPrice
    seconds: float  # of a step
    batch: int
    length: int
    steps: int
    read: int  # tokens of a step
    data: float  # tokens of all examples
    limit: str  # what ends it: time, data or memory

    @property
    def tokens(self) -> int:
        """Read in all steps."""
        return self.steps * self.read

    @property
    def passes(self) -> float:
        return self.tokens / self.data

    @property
    def ratio(self) -> float:
        """Tokens for each parameter outside of embeddings."""
        return self.tokens / self.price.inner

    @property
    def excess(self) -> float:
        """How far from the best loss it is expected to end, by the law."""
        return excess(self.price.inner, self.tokens, self.data)

    @property
    def flops(self) -> int:
        return self.steps * self.price.flops


@dataclass(frozen=True, eq=False)
class Task:
    """What all candidates share."""

    config: TrainConfig
    given: Mapping[str, Any]  # settings that somebody chose
    known: Known
    length: int
    wanted: Wanted


def candidate(task: Task, choice: ModelChoice) -> Candidate:
    """With the largest batch that leaves enough steps and fits, and dropout where data is seen again and again."""
    sizes = [task.config.batch] if "batch" in task.given else _batches(task)
    least = _with_batch(task, choice, sizes[0])
    if least.passes > FEW and choice.dropout is None and _drops(choice):
        choice = choice.model_copy(update={"dropout": DROPOUT})
        least = _with_batch(task, choice, sizes[0])
    # Twice the batch takes at most twice the time, so that no size need be tried to know that it leaves enough steps.
    enough = [size for size in sizes if least.steps * sizes[0] >= ENOUGH * size] or sizes[:1]
    for batch in reversed(enough):
        found = least if batch == sizes[0] else _with_batch(task, choice, batch)
        if task.wanted.memory is None or found.price.memory <= task.wanted.memory:
            return found
    return replace(least, steps=0, limit=MEMORY)


def _drops(choice: ModelChoice) -> bool:
    """Whether the model has dropout to choose."""
    return choice.architecture not in ("llama", "recurrent") and choice.preset is None


def _batches(task: Task) -> list[int]:
    """The sizes to try, the smallest first; no smaller than eight, unless the data is small."""
    known, parts = task.known, task.config.accumulate
    most = LARGEST if known.pictures is None else 2 * LARGEST
    rows = known.tokens // task.length if known.rows is None else known.rows
    found = [size for size in BATCHES if size <= most and size % parts == 0 and size <= max(parts, rows // 8)]
    return [size for size in found if size >= SMALLEST] or found[-1:] or [parts]


def _with_batch(task: Task, choice: ModelChoice, batch: int) -> Candidate:
    c, known = task.config, task.known
    model = model_for(c, choice, known, task.length)
    setting = setting_for(c, model, known, task.length, batch // c.accumulate)
    price = step_price(model, setting, optimiser=c.optim.kind, parts=c.accumulate, machine=task.wanted.machine)
    assert price.seconds is not None
    read = read_in(c, setting) * c.accumulate
    data = _learnt(c, known) * (1 if known.pictures is None else made_for(model))
    in_time, in_data = int(SHARE * task.wanted.seconds / price.seconds), ceil(PASSES[c.task] * data / read)
    steps, limit = (in_time, TIME) if in_time <= in_data else (in_data, DATA)
    return Candidate(choice, price, price.seconds, batch, task.length, steps, read, data, limit)


def _learnt(config: TrainConfig, known: Known) -> float:
    """Tokens (or pictures) that are not held out."""
    return max(1.0, known.tokens * (1.0 if config.data.validation else 1.0 - config.data.held))
