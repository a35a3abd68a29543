"""Tasks: from a configuration to a model, examples and an objective.

A new task is a function `prepare_...` in a file here, and one line in TASKS.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from headway.config.run_files import RunFiles
from headway.config.train import DataConfig, DistilConfig, DpoConfig, LoraConfig, ModelChoice, TrainConfig
from headway.data.paths import fingerprint
from headway.data.tokenizer_training import digest
from headway.models import parameters
from headway.models.lora import add_lora, trainable
from headway.presets.sized import CHANGES
from headway.training.freeze import freeze, frozen_hash
from headway.training.notes import settings_without_effect
from headway.training.objectives import TrainingSetup

# Imported when it is asked for: a task reads what its models need.
TASKS = {
    "language": ("headway.training.tasks.language", "prepare_language"),
    "instruct": ("headway.training.tasks.language", "prepare_instruct"),
    "dpo": ("headway.training.tasks.language", "prepare_dpo"),
    "seq2seq": ("headway.training.tasks.language", "prepare_seq2seq"),
    "masked": ("headway.training.tasks.encoder", "prepare_masked"),
    "classify": ("headway.training.tasks.encoder", "prepare_classify"),
    "embed": ("headway.training.tasks.encoder", "prepare_embed"),
    "images": ("headway.training.tasks.images", "prepare_images"),
}

Say = Callable[[str], None]
SIZES = tuple(
    name for name in ModelChoice.model_fields if name not in ("start", "preset", "config", "dropout", "std", "alike")
)
# Of the data: which tasks look at a setting at all.
ONLY = {
    "packed": ("language",),
    "paired": ("classify",),
    "pairs": ("masked",),
    "negative": ("embed",),
    "augment": ("images",),
}  # fmt: skip


def prepare(config: TrainConfig, place: RunFiles, say: Say = print) -> TrainingSetup:
    """Read the data, learn or read the tokenizer, make the model. What is found ready in the place is used again."""
    check_choice(config)
    module, function = TASKS[config.task]
    work = getattr(import_module(module), function)(config, place, say)
    if config.lora.rank:
        add_lora(work.model, config.lora, seed=config.seed)
    freeze(work.model, config.freeze)
    if work.reference is not None:
        work.reference.eval().requires_grad_(False)
    if (count := trainable(work.model)) < (all_of_them := parameters(work.model)):
        say(f"trains {count:,} of {all_of_them:,} parameters; the others are frozen")
    for note in settings_without_effect(work):
        say(note)
    return replace(work, identity=_identity(work, config.data))


def _identity(work: TrainingSetup, data: DataConfig) -> str:
    """What stands for the data, the tokenizer and frozen weights.

    A source without files is told by its number of examples alone.
    """
    files = [place for place in (*data.train, *data.validation, *data.pairs) if Path(place).exists()]
    counts = f"{len(work.train)} {0 if work.validation is None else len(work.validation)}"
    words = "" if work.tokenizer is None else digest(work.tokenizer)
    frozen = frozen_hash(work.model) + ("" if work.reference is None else frozen_hash(work.reference))
    return f"{counts} {fingerprint(files) if files else ''} {words}" + (f" {frozen}" if frozen else "")


def check_choice(config: TrainConfig) -> None:
    """Refuse settings that would have no effect: what the task, or a model that is there already, does not look at."""
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
    _check_lora(config)
    _check_second(config)
    if config.patience and not config.data.validation and not config.data.held:
        raise ValueError(f"patience {config.patience} needs held-out data: give data.validation or data.held")


LORA_TASKS = ("language", "instruct", "dpo", "seq2seq")
TAUGHT = ("language", "instruct")


def _check_second(config: TrainConfig) -> None:
    """Refuse settings of a second model, a teacher or the start that answers are compared with, where there is none."""
    if config.task == "dpo" and config.model.start is None:
        raise ValueError("the task dpo compares answers with those of a model that is there: name it with model.start")
    if config.task != "dpo" and config.dpo != DpoConfig():
        raise ValueError(f"dpo.beta is for the task dpo, not {config.task}: leave it out")
    if config.distil.teacher is None:
        given = [
            name for name in DistilConfig.model_fields if getattr(config.distil, name) != getattr(DistilConfig(), name)
        ]
        if given:
            raise ValueError(f"distil.{given[0]} is of a teacher, and there is none: give distil.teacher")
    elif config.task not in TAUGHT:
        raise ValueError(f"distil.teacher is for the tasks {', '.join(TAUGHT)}, not {config.task}: leave it out")


def _check_lora(config: TrainConfig) -> None:
    """Refuse adapters of nothing or where more has to be trained, and settings of adapters where there are none."""
    lora, parallel = config.lora, config.parallel
    if not lora.rank:
        if given := [name for name in LoraConfig.model_fields if getattr(lora, name) != getattr(LoraConfig(), name)]:
            raise ValueError(f"lora.{given[0]} is of adapters, and there are none: give lora.rank")
        return
    if config.freeze:
        raise ValueError(f"with lora.rank all of the model is frozen: leave freeze {','.join(config.freeze)} out")
    if config.model.start is None:
        raise ValueError(f"lora.rank {lora.rank} is of adapters on a model that is there: name it with model.start")
    if config.task not in LORA_TASKS:
        raise ValueError(f"adapters are for the tasks {', '.join(LORA_TASKS)}, not {config.task}: leave lora out")
    if parallel.tensor > 1 or parallel.kind != "ddp":
        raise ValueError("adapters are trained by processes that each have the whole model: leave parallel out")
    if config.optim.kind != "adamw":
        raise ValueError(f"adapters are trained by adamw, not by {config.optim.kind}: leave optim.kind out")
