"""What a run works on, made ready: a model, what is asked of it, and examples."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from headway.config.train import CONFIG, TrainConfig
from headway.data.batch import Examples
from headway.data.tokenizer import Tokenizer
from headway.training.learner import Objective


def no_measures(row: dict[str, float]) -> dict[str, float]:
    return {}


@dataclass(frozen=True)
class Work:
    """Everything but the order of steps."""

    config: TrainConfig
    model: Any
    objective: Objective
    train: Examples
    validation: Examples | None = None
    tokenizer: Tokenizer | None = None
    weights: dict[str, float] = field(default_factory=dict)  # of each loss; 1 where nothing is said
    identity: str = ""  # of the data and the tokenizer: a resumed run says where it has changed
    measures: Callable[[dict[str, float]], dict[str, float]] = no_measures  # what else a validation's losses say


@dataclass(frozen=True)
class Place:
    """The directory of a run, and what stands where in it."""

    path: Path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def data(self) -> Path:
        return self.path / "data"

    @property
    def tokenizer(self) -> Path:
        return self.path / "tokenizer"

    @property
    def model(self) -> Path:
        return self.path / "model"

    @property
    def start(self) -> Path:
        """The model that the run began with, where it was given from Python."""
        return self.path / "start"

    @property
    def config(self) -> Path:
        return self.path / CONFIG

    def checkpoint(self, step: int) -> Path:
        return self.checkpoints / f"step-{step:08d}"
