"""Tasks: from a configuration to a model, examples and an objective; a new task is a file and one line here."""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path

from headway.config.train import DataConfig, TrainConfig
from headway.data.paths import fingerprint
from headway.data.tokenizer_training import digest
from headway.training.tasks.choice import check_choice
from headway.training.work import Place, Work

TASKS = {
    "language": "headway.training.tasks.language",
    "masked": "headway.training.tasks.masked",
    "seq2seq": "headway.training.tasks.seq2seq",
    "classify": "headway.training.tasks.classify",
    "images": "headway.training.tasks.images",
    "embed": "headway.training.tasks.embed",
}

Say = Callable[[str], None]


def prepare(config: TrainConfig, place: Place, say: Say = print) -> Work:
    """Read the data, learn or read the tokenizer, make the model. What is found ready in the place is used again."""
    check_choice(config)
    work = import_module(TASKS[config.task]).prepare(config, place, say)
    return replace(work, identity=_identity(work, config.data))


def _identity(work: Work, data: DataConfig) -> str:
    """What stands for the data and the tokenizer; a source without files is told by its number of examples alone."""
    files = [place for place in (*data.train, *data.validation, *data.pairs) if Path(place).exists()]
    counts = f"{len(work.train)} {0 if work.validation is None else len(work.validation)}"
    return f"{counts} {fingerprint(files) if files else ''} {'' if work.tokenizer is None else digest(work.tokenizer)}"
