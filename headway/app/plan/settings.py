"""What a plan sets for `headway train`, besides what was given."""

from math import ceil
from typing import Any

from headway.app.plan.candidate import Candidate, Task
from headway.config.train import TrainConfig

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
