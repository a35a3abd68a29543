"""Tasks: from a configuration to a model, examples and an objective; a new task is a file and one line here."""

from collections.abc import Callable
from importlib import import_module

from headway.config.train import TrainConfig
from headway.train.work import Place, Work

TASKS = {
    "language": "headway.train.tasks.language",
    "masked": "headway.train.tasks.masked",
    "seq2seq": "headway.train.tasks.seq2seq",
    "classify": "headway.train.tasks.classify",
    "images": "headway.train.tasks.images",
    "embed": "headway.train.tasks.embed",
}

Say = Callable[[str], None]


def prepare(config: TrainConfig, place: Place, say: Say = print) -> Work:
    """Read the data, learn or read the tokenizer, make the model. What is found ready in the place is used again."""
    return import_module(TASKS[config.task]).prepare(config, place, say)
