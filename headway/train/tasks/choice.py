"""Settings that would have no effect are refused: a run should be what its configuration says."""

from headway.config.train import TrainConfig

SIZES = ("architecture", "layers", "width", "heads", "hidden", "patch", "depths", "widths", "stage_heads", "window")
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
    if m.start is not None and m.preset is not None:
        raise ValueError(f"model.start {m.start} and model.preset {m.preset} are two models: name one")
    if given and (m.start is not None or m.preset is not None):
        which = f"model.start {m.start}" if m.start is not None else f"model.preset {m.preset}"
        raise ValueError(f"{which} has its sizes already: leave model.{given[0]} out")
    if m.preset is not None and task == "images":
        raise ValueError(f"images are not trained from a preset such as {m.preset}: give sizes, or model.start")
    if m.architecture == "recurrent" and (m.layers or m.heads or m.dropout or config.checkpointing):
        raise ValueError("a recurrent model has no layers, heads, dropout or checkpointing to choose: leave them out")
    for name, tasks in ONLY.items():
        if getattr(config.data, name) not in (False, (), "none") and task not in tasks:
            raise ValueError(f"data.{name} is for the task {tasks[0]}, not {task}: leave it out")
    if config.patience and not config.data.validation and not config.data.held:
        raise ValueError(f"patience {config.patience} needs held-out data: give data.validation or data.held")
