"""A model of one size in a plan: its batch, its steps in the budget, how good it gets, and the command that trains it.

Sizes are ranked by the law

    L = E + A / Nᵅ + B / Dᵝ        A = 482.01, α = 0.3478, B = 2085.43, β = 0.3658

of N parameters and D tokens (Hoffmann et al. 2022, arXiv:2203.15556, with the constants that Besiroglu et al. 2024,
arXiv:2404.10102, fitted to their runs), where tokens that are seen again count less (Muennighoff et al. 2023,
arXiv:2305.16264): of U tokens seen R more times

    D' = U + U R* (1 - exp(-R / R*))        R* = 15.39

Its numbers are those of large models and of another text; what is used of it is the order of sizes, no loss.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from math import ceil, exp
from shlex import join
from typing import Any

from headway.app.plan.data import DataSize
from headway.app.plan.sizes import model_for, read_in, setting_for
from headway.app.settings import merged
from headway.app.step_cost import StepPrice, step_price
from headway.config.train import ModelChoice, TrainConfig
from headway.cost.input_lengths import default_length
from headway.cost.time.machine import Machine

A, ALPHA = 482.01, 0.3478
B, BETA = 2085.43, 0.3658
REPEATS = 15.387756


def excess(parameters: int, tokens: int | float, different: int | float) -> float:
    """L - E of so many parameters after so many tokens, of which so many are different; the lower the better.

    >>> round(excess(70_000_000_000, 1.4e12, 1.4e12), 4)  # Chinchilla
    0.1567
    """
    return A / max(parameters, 1) ** ALPHA + B / max(worth(tokens, different), 1.0) ** BETA


def worth(tokens: int | float, different: int | float) -> float:
    """Tokens as if each were new.

    >>> round(worth(50.0, 100.0)), round(worth(400.0, 100.0)), round(worth(1e9, 100.0))
    (50, 373, 1639)
    """
    if tokens <= different:
        return float(tokens)
    return different * (1 + REPEATS * (1 - exp(-(tokens / different - 1) / REPEATS)))


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
    known: DataSize
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
    data = _learnt(c, known) * (1 if known.pictures is None else default_length(model))
    in_time, in_data = int(SHARE * task.wanted.seconds / price.seconds), ceil(PASSES[c.task] * data / read)
    steps, limit = (in_time, TIME) if in_time <= in_data else (in_data, DATA)
    return Candidate(choice, price, price.seconds, batch, task.length, steps, read, data, limit)


def _learnt(config: TrainConfig, known: DataSize) -> float:
    """Tokens (or pictures) that are not held out."""
    return max(1.0, known.tokens * (1.0 if config.data.validation else 1.0 - config.data.held))


LOOKS = 10  # validations
LOOK = 0.05  # of the time of all steps, for validation
WARM = 20  # one part in so many of all steps warms up


def settings_of(task: Task, best: Candidate) -> dict[str, Any]:
    """Sizes, batch, steps, and a rhythm of validations and checkpoints that fits them."""
    c, given = task.config, task.given
    names = ("width", "layers", "heads", "dropout")
    model = {name: value for name in names if (value := getattr(best.choice, name)) is not None}
    found: dict[str, Any] = {"task": c.task, "model": model, "batch": best.batch, **_rows(task, best)}
    every = max(1, ceil(best.steps / LOOKS))
    rhythm = {"evaluate_every": every, "save_every": every, **_looked(c, best)}
    found |= {name: value for name, value in rhythm.items() if name not in given}
    if "warmup" not in given.get("schedule", {}) and best.steps < WARM * c.schedule.warmup:
        found["schedule"] = {"warmup": max(1, best.steps // WARM)}
    return found | {"steps": best.steps}


def _rows(task: Task, best: Candidate) -> dict[str, Any]:
    """The length of texts; and that longer ones are cut, where there may be any."""
    known = task.known
    if known.pictures is not None:
        return {}
    longer = known.rows is not None and (not known.exact or known.longest > best.length)
    return {"length": best.length} | ({"data": {"cut": True}} if longer and task.config.task != "embed" else {})


def _looked(config: TrainConfig, best: Candidate) -> dict[str, int]:
    """As many batches of a validation as fit into its share of the time; a pass forwards is a third of a step."""
    most = max(1, int(3 * LOOK * best.steps / LOOKS))
    held = config.data.held / (1 - config.data.held) * best.data / best.read
    return {} if held <= most and not config.data.validation else {"evaluate_batches": most}


FIRST = ("task", "model", "batch", "length", "steps")  # what is looked for first


def command_of(data: tuple[str, ...], given: Mapping[str, Any], planned: Mapping[str, Any]) -> str:
    """`headway train` with the settings that were given and those that were planned.

    >>> command_of(("a b.txt",), {"data": {"packed": True}}, {"steps": 3, "model": {"width": 8}})
    "headway train 'a b.txt' --model.width 8 --steps 3 --data.packed"
    """
    whole = merged(given, planned)
    ordered = {name: whole[name] for name in (*(one for one in FIRST if one in whole), *whole)}
    return join(["headway", "train", *data, *_words(ordered)])


def _words(settings: Mapping[str, Any], above: str = "") -> Iterator[str]:
    for name, value in settings.items():
        option = f"{above}.{name}" if above else name
        if option == "data.train" or value is None or value is False:
            continue
        if isinstance(value, Mapping):
            yield from _words(value, option)
            continue
        for one in value if isinstance(value, tuple | list) else (value,):
            yield f"--{option.replace('_', '-')}"
            if one is not True:
                yield str(one)
