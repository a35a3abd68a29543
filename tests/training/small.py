"""A tiny run that takes a second: numbers that count, and everything random that a run can have."""

from pathlib import Path

import numpy as np
import torch

from headway.config.run_files import RunFiles
from headway.config.train import DataConfig, ModelChoice, OptimConfig, ScheduleConfig, TrainConfig
from headway.data.batch import Batch
from headway.presets.sized import sized_language
from headway.training.distributed import World
from headway.training.loop import TrainingEvent, TrainingLoop
from headway.training.objectives import TrainingSetup, language_loss
from tests.fresh import fresh

VOCABULARY, LENGTH = 13, 7


class Counting:
    """Rows that count upwards from a number drawn from the row's key."""

    sizes = None

    def __init__(self, count: int = 29) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def batch(self, rows: np.ndarray, keys: np.ndarray) -> Batch:
        start = torch.from_numpy((keys % VOCABULARY).astype(np.int64))
        line = (start[:, None] + torch.arange(LENGTH + 1)) % VOCABULARY
        return Batch({"tokens": line[:, :-1], "targets": line[:, 1:]}, {"loss": len(rows) * LENGTH})


def config(**changed: object) -> TrainConfig:
    given: dict[str, object] = dict(
        data=DataConfig(train=("none",)), steps=11, batch=6, length=LENGTH, evaluate_every=4, save_every=3, log_every=2,
        optim=OptimConfig(rate=1e-2, average=0.9), schedule=ScheduleConfig(warmup=3), samples=0,
    )  # fmt: skip
    return TrainConfig(**{**given, **changed})


def work(settings: TrainConfig, **changed: object) -> TrainingSetup:
    choice = ModelChoice(layers=2, width=12, heads=3, dropout=0.2)
    model = fresh(sized_language(choice, vocabulary=VOCABULARY, length=LENGTH), seed=3)
    given: dict[str, object] = dict(
        config=settings, model=model, objective=language_loss, train=Counting(), validation=Counting(5)
    )
    return TrainingSetup(**{**given, **changed})  # type: ignore[arg-type]


def run(
    path: Path, settings: TrainConfig, *, resume: bool = False, until: int | None = None, **changed: object
) -> TrainingLoop:
    """A run that went to its end, or was dropped after so many steps as a killed process would drop it."""
    path.mkdir(exist_ok=True)
    found = TrainingLoop(work(settings, **changed), RunFiles(path), World(), resume=resume)
    for event in found.events():
        if until is not None and event.row["step"] >= until and event.kind == "train":
            break
    return found


def events(path: Path, settings: TrainConfig, **changed: object) -> list[TrainingEvent]:
    path.mkdir(exist_ok=True)
    return list(TrainingLoop(work(settings, **changed), RunFiles(path), World()).events())


def same(one: TrainingLoop, other: TrainingLoop) -> bool:
    """Whether two runs ended in the same state, bit for bit."""
    mine, theirs = one.trainer.tensors(), other.trainer.tensors()
    return mine.keys() == theirs.keys() and all(torch.equal(mine[name].held, theirs[name].held) for name in mine)
