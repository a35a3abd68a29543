"""Settings that would have no effect are refused: a run should be what its configuration says."""

from headway.config.train import TrainConfig
from headway.presets.sized import CHANGES

SIZES = (
    "architecture", "layers", "width", "heads", "hidden", "patch", "depths", "widths", "stage_heads", "window",
    *CHANGES,
)  # fmt: skip
# Of the data: which tasks look at a setting at all.
ONLY = {
    "packed": ("language",),
    "paired": ("classify",),
    "pairs": ("masked",),
    "augment": ("images",),
}  # fmt: skip


def check_choice(config: TrainConfig) -> None:
    """Refuse what the task, or a model that is there already, does not look at."""
    m, task = config.model, config.task
    given = [name for name in SIZES if getattr(m, name) is not None]
    named = [f"model.{name} {value[:60]}" for name in ("start", "preset", "config") if (value := getattr(m, name))]
    if len(named) > 1:
        raise ValueError(f"{named[0]} and {named[1]} are two models: name one")
    if given and (m.start or m.config):
        raise ValueError(f"{named[0]} has its sizes already: leave model.{given[0]} out")
    if m.preset and m.architecture:
        raise ValueError(f"model.preset {m.preset} has its architecture already: leave model.architecture out")
    if m.preset is not None and task == "images":
        raise ValueError(f"images are not trained from a preset such as {m.preset}: give sizes, or model.start")
    if m.architecture == "recurrent":
        unread = [name for name in ("layers", "heads", "dropout", "window", *CHANGES) if getattr(m, name) is not None]
        unread += ["checkpointing"] if config.checkpointing else []
        if unread:
            raise ValueError(f"a recurrent model has no {unread[0]} to choose: leave it out")
    for name, tasks in ONLY.items():
        if getattr(config.data, name) not in (False, (), "none") and task not in tasks:
            raise ValueError(f"data.{name} is for the task {tasks[0]}, not {task}: leave it out")
    if config.patience and not config.data.validation and not config.data.held:
        raise ValueError(f"patience {config.patience} needs held-out data: give data.validation or data.held")
